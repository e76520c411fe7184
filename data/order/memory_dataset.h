// A worker's share of an epoch, parsed, in memory.

#ifndef OARLOCK_DATA_ORDER_MEMORY_DATASET_H_
#define OARLOCK_DATA_ORDER_MEMORY_DATASET_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "data/batch.h"
#include "data/data_options.h"
#include "data/order/example_order.h"
#include "data/order/ordered_reader.h"
#include "data/order/position_runs.h"
#include "data/order/source_index.h"

namespace oarlock::data {

// Parsed examples, found by their numbers. Immutable once loaded.
struct ExampleMemory {
  static constexpr uint64_t kSegmentExamples = 8192;

  // Ascending, each once: examples[i] lies in segments[i / kSegmentExamples],
  // or nowhere where it is malformed.
  std::vector<uint64_t> examples;
  std::vector<uint32_t> places;  // in the segment
  std::vector<Batch> segments;
  // Of all that is above.
  uint64_t bytes = 0;
};

// What one epoch reads of a memory.
struct LoadedEpoch {
  std::shared_ptr<const ExampleOrder> order;
  // Positions that are loaded.
  std::shared_ptr<const PositionRuns> share;
  // Shared with other epochs over the same examples.
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
    // Of the epoch in use and the one that is preloaded together.
    uint64_t bytes_max = 0;
    int num_threads = 1;
  };
  // What an epoch takes: positions `share` of `order`. Shares of the same epoch
  // and shuffle are the same.
  struct Share {
    uint64_t epoch = 0;
    ShuffleRule shuffle = ShuffleRule::kNone;  // by which `order` was made
    std::shared_ptr<const ExampleOrder> order;
    std::shared_ptr<const PositionRuns> share;
  };

  // `index` is that of the files, all counted; it outlives this.
  MemoryDataset(Options options, const SourceIndex* index);
  // Breaks a preload off.
  ~MemoryDataset();

  // Begins to load `share` in a thread, beside whatever is being read; unless
  // it has been preloaded already, or is being so. One that has failed is
  // loaded anew.
  void Preload(Share share);
  // Returns when the preload is over; its outcome. OK when there was none.
  absl::Status WaitPreload();
  // The epoch that was preloaded, if it was `share`, else loads it now. Where
  // the examples are those that are in memory already, only their order is new.
  // ResourceExhausted names the limit; else an error of the reader. A preload
  // is over then, also one that has failed: its error is that of the Take that
  // wanted it, and of none after it.
  absl::StatusOr<std::shared_ptr<const LoadedEpoch>> Take(Share share);
  // Forgets what was preloaded, and breaks loading off. The epoch that it was
  // for; nothing when there was no preload.
  std::optional<uint64_t> DropPreload();
  // Forgets what is loaded; epochs that are being read keep theirs.
  void Release();

  // What examples in memory take, those of a loaded preload included.
  uint64_t bytes() const;

 private:
  // Where no examples in memory are those of `share`, what will not be read any
  // more makes room for them: a preload and, unless `keeps_current`, the epoch
  // in use.
  absl::StatusOr<std::shared_ptr<const LoadedEpoch>> Load(const Share& share,
                                                          bool keeps_current);
  // `bytes_taken`: of memory that stays meanwhile.
  absl::StatusOr<std::shared_ptr<const ExampleMemory>> Read(
      std::vector<uint64_t> examples, uint64_t bytes_taken);
  // Segments [begin, end) of `memory`.
  absl::Status ReadSegments(size_t begin, size_t end, uint64_t bytes_taken,
                            BadLines* bad_lines, ExampleMemory* memory,
                            std::atomic<uint64_t>* bytes_read);

  // Whether the preload is, or becomes, `share`.
  bool IsPreload(const Share& share) const {
    return preload_.has_value() && preload_->epoch == share.epoch &&
           preload_->shuffle == share.shuffle;
  }
  // The outcome of the preload; null without one. REQUIRES: no thread runs.
  absl::StatusOr<std::shared_ptr<const LoadedEpoch>> preloaded() const;
  // What was there before is freed after mutex_ is let go: it may be gigabytes,
  // and bytes() does not wait.
  void SetPreloaded(absl::StatusOr<std::shared_ptr<const LoadedEpoch>> loaded);
  void SetCurrent(std::shared_ptr<const LoadedEpoch> loaded);
  // Of the epoch in use and of the preload; null where there is none.
  std::shared_ptr<const ExampleMemory> CurrentMemory() const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::shared_ptr<const ExampleMemory> PreloadedMemory() const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  const SourceIndex* const index_;
  std::atomic<bool> stopping_ = false;
  // Until it is taken or dropped; constant while the thread runs.
  std::optional<Share> preload_;
  std::thread thread_;

  mutable absl::Mutex mutex_;
  std::shared_ptr<const LoadedEpoch> current_ ABSL_GUARDED_BY(mutex_);
  // While the thread runs, of the preload before, which it may take over.
  absl::StatusOr<std::shared_ptr<const LoadedEpoch>> preloaded_
      ABSL_GUARDED_BY(mutex_) = std::shared_ptr<const LoadedEpoch>();
};

// Positions of a loaded epoch.
class MemoryPositions : public PositionReader {
 public:
  // Malformed lines are counted in `bad_lines`, as if they were read now. What
  // is given by pointer outlives this.
  MemoryPositions(const DataOptions& options, std::vector<std::string> files,
                  const SourceIndex* index,
                  std::shared_ptr<const LoadedEpoch> loaded,
                  BadLines* bad_lines);
  absl::StatusOr<uint64_t> Prepare(uint64_t begin, uint64_t end) override;
  void Append(uint64_t position, Batch* batch) override;

 private:
  const DataOptions options_;
  const DataSchema schema_;
  const std::vector<std::string> files_;
  const SourceIndex* const index_;
  const std::shared_ptr<const LoadedEpoch> loaded_;
  BadLines* const bad_lines_;
  uint64_t begin_ = 0;  // the position of ordinal_
  uint64_t ordinal_ = 0;
};

}  // namespace oarlock::data

#endif  // OARLOCK_DATA_ORDER_MEMORY_DATASET_H_
