// A worker's share of a pass, parsed, in memory.

#ifndef OARLOCK_WORKER_DATA_MEMORY_DATASET_H_
#define OARLOCK_WORKER_DATA_MEMORY_DATASET_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/data/batch.h"
#include "worker/data/data_options.h"
#include "worker/data/example_order.h"
#include "worker/data/ordered_reader.h"
#include "worker/data/position_runs.h"
#include "worker/data/source_index.h"

namespace oarlock {

// Parsed examples, found by their numbers. Immutable once loaded.
struct ExampleMemory {
  static constexpr uint64_t kSegmentExamples = 8192;

  // Ascending, each once: examples[i] lies in segments[i / kSegmentExamples], or
  // nowhere where it is malformed.
  std::vector<uint64_t> examples;
  std::vector<uint32_t> places;  // in the segment
  std::vector<Batch> segments;
  // Of all that is above.
  uint64_t bytes = 0;
};

// What one pass reads of a memory.
struct LoadedPass {
  std::shared_ptr<const ExampleOrder> order;
  // Positions that are loaded.
  std::shared_ptr<const PositionRuns> share;
  // Shared with other passes over the same examples.
  std::shared_ptr<const ExampleMemory> memory;
  // Of each of the share's positions, in order: where in memory->examples.
  std::vector<uint32_t> indices;
};

// One thread at a time, but for bytes().
class MemoryDataset {
 public:
  struct Options {
    DataOptions data;
    std::vector<std::string> files;
    // Of the pass in use and the one that is preloaded together.
    uint64_t bytes_max = 0;
    int num_threads = 1;
  };
  // What a pass takes: positions `share` of `order`.
  struct Share {
    uint64_t epoch = 0;
    std::shared_ptr<const ExampleOrder> order;
    std::shared_ptr<const PositionRuns> share;
  };

  // `index` is that of the files, all counted; it outlives this.
  MemoryDataset(Options options, const SourceIndex* index);
  // Breaks a preload off.
  ~MemoryDataset();

  // Begins to load `share` in a thread, beside whatever is being read; unless
  // that pass has been preloaded already, or is being so. One that has failed
  // is loaded anew.
  void Preload(Share share);
  // Returns when the preload is over; its outcome. OK when there was none.
  absl::Status WaitPreload();
  // The pass that was preloaded, if it was `share.epoch`, else loads it now.
  // Where the examples are those that are in memory already, only their order is
  // new. ResourceExhausted names the limit; else an error of the reader.
  absl::StatusOr<std::shared_ptr<const LoadedPass>> Take(Share share);
  // The preload's examples are wanted in another order: they are kept, and
  // loading goes on, but the pass is the share of the next Preload or Take.
  void ForgetOrder();
  // Forgets what was preloaded, and breaks loading off. The pass that it was
  // for; nothing when there was no preload.
  std::optional<uint64_t> DropPreload();
  // Forgets what is loaded; passes that are being read keep theirs.
  void Release();

  // What examples in memory take, those of a preload included.
  uint64_t bytes() const { return bytes_.load(); }

 private:
  // Memory that may serve again.
  struct AtHand {
    // Of a preload that nobody reads; counted in bytes_.
    std::shared_ptr<const ExampleMemory> preloaded;
    // Of the pass that was taken last.
    std::shared_ptr<const ExampleMemory> current;
  };

  // `bytes_taken`: of memory that stays meanwhile.
  absl::StatusOr<std::shared_ptr<const LoadedPass>> Load(const Share& share,
                                                         AtHand at_hand,
                                                         uint64_t bytes_taken);
  absl::StatusOr<std::shared_ptr<const ExampleMemory>> Read(
      std::vector<uint64_t> examples, uint64_t bytes_taken);
  // Segments [begin, end) of `memory`.
  absl::Status ReadSegments(size_t begin, size_t end, uint64_t bytes_taken,
                            BadLines* bad_lines, ExampleMemory* memory,
                            std::atomic<uint64_t>* bytes_read);

  // Whether the preload is, or becomes, the pass `epoch`.
  bool IsPreload(uint64_t epoch) const {
    return preload_epoch_ == epoch && !order_forgotten_;
  }
  // The preload's examples, which are not a preload any more. REQUIRES: no
  // thread runs, as below.
  std::shared_ptr<const ExampleMemory> TakePreloaded();
  // Of the pass in use.
  std::shared_ptr<const ExampleMemory> CurrentMemory() const {
    return current_ == nullptr ? nullptr : current_->memory;
  }
  void CountBytes();

  const Options options_;
  const SourceIndex* const index_;
  std::atomic<bool> stopping_ = false;
  std::atomic<uint64_t> bytes_ = 0;
  std::shared_ptr<const LoadedPass> current_;
  // Until it is taken or dropped.
  std::optional<uint64_t> preload_epoch_;
  bool order_forgotten_ = false;
  std::thread thread_;
  // The thread's until it is joined.
  absl::StatusOr<std::shared_ptr<const LoadedPass>> preloaded_ =
      std::shared_ptr<const LoadedPass>();
};

// Positions of a loaded pass.
class MemoryPositions : public PositionReader {
 public:
  // Malformed lines are counted in `bad_lines`, as if they were read now. What
  // is given by pointer outlives this.
  MemoryPositions(const DataOptions& options,
                  std::vector<std::string> files, const SourceIndex* index,
                  std::shared_ptr<const LoadedPass> pass, BadLines* bad_lines);
  absl::StatusOr<uint64_t> Prepare(uint64_t begin, uint64_t end) override;
  void Append(uint64_t position, Batch* batch) override;

 private:
  const DataOptions options_;
  const DataSchema schema_;
  const std::vector<std::string> files_;
  const SourceIndex* const index_;
  const std::shared_ptr<const LoadedPass> pass_;
  BadLines* const bad_lines_;
  uint64_t begin_ = 0;  // the position of ordinal_
  uint64_t ordinal_ = 0;
};

}  // namespace oarlock

#endif  // OARLOCK_WORKER_DATA_MEMORY_DATASET_H_
