// Keeps a worker's share of an epoch in memory, parsed.

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

  // Ascending, each once. examples[i] is in segments[i / kSegmentExamples],
  // except that a malformed line is in no segment.
  std::vector<uint64_t> examples;
  std::vector<uint32_t> places;  // index in the segment
  std::vector<Batch> segments;
  // Bytes of all members above.
  uint64_t bytes = 0;
};

// What one epoch reads from an ExampleMemory.
struct LoadedEpoch {
  std::shared_ptr<const ExampleOrder> order;
  // Positions that are loaded.
  std::shared_ptr<const PositionRuns> share;
  // Shared with other epochs over the same examples.
  std::shared_ptr<const ExampleMemory> memory;
  // For each position of the share, in order: its index in memory->examples.
  std::vector<uint32_t> indices;
};

// Only one thread at a time may call the methods, except for bytes().
class MemoryDataset {
 public:
  struct Options {
    DataOptions data;
    std::vector<std::string> files;
    // The most bytes of the epoch in use and the preloaded epoch together.
    uint64_t bytes_max = 0;
    int num_threads = 1;
  };
  // The examples that an epoch takes: positions `share` of `order`. Shares of
  // the same epoch and shuffle are equal.
  struct Share {
    uint64_t epoch = 0;
    ShuffleRule shuffle = ShuffleRule::kNone;  // the rule of `order`
    std::shared_ptr<const ExampleOrder> order;
    std::shared_ptr<const PositionRuns> share;
  };

  // `index` is the index of the files, all of them counted; it outlives this
  // object.
  MemoryDataset(Options options, const SourceIndex* index);
  // Stops a preload.
  ~MemoryDataset();

  // Starts to load `share` in a thread, while other examples may be read. Does
  // nothing when `share` is already preloaded or being preloaded. A preload
  // that failed is started again.
  void Preload(Share share);
  // Waits until the preload is over and returns its status. OK when there was
  // no preload.
  absl::Status WaitPreload();
  // Returns the preloaded epoch if it is `share`; else loads `share` now. Where
  // these examples are already in memory, only their order is computed. Errors
  // are ResourceExhausted, which names the limit, and those of the reader. Take
  // ends the preload, even one that has failed. Only the Take of the same share
  // returns the error of a failed preload; later calls do not.
  absl::StatusOr<std::shared_ptr<const LoadedEpoch>> Take(Share share);
  // Stops a preload, frees what it has loaded and returns its epoch. Nothing
  // when there was no preload.
  std::optional<uint64_t> DropPreload();
  // Drops everything that is loaded. Readers of an epoch keep the memory that
  // they use.
  void Release();

  // Bytes of the examples in memory, including those of a finished preload.
  uint64_t bytes() const;

 private:
  // Loads `share`. Where memory does not hold its examples already, data that
  // is no longer needed is freed first: a preload and, unless `keeps_current`,
  // the epoch in use.
  absl::StatusOr<std::shared_ptr<const LoadedEpoch>> Load(const Share& share,
                                                          bool keeps_current);
  // `bytes_taken`: bytes of other examples that stay in memory meanwhile.
  absl::StatusOr<std::shared_ptr<const ExampleMemory>> Read(
      std::vector<uint64_t> examples, uint64_t bytes_taken);
  // Reads segments [begin, end) of `memory`.
  absl::Status ReadSegments(size_t begin, size_t end, uint64_t bytes_taken,
                            BadLines* bad_lines, ExampleMemory* memory,
                            std::atomic<uint64_t>* bytes_read);

  // Whether the preload is, or becomes, `share`.
  bool IsPreload(const Share& share) const {
    return preload_.has_value() && preload_->epoch == share.epoch &&
           preload_->shuffle == share.shuffle;
  }
  // The result of the preload; null without a preload. REQUIRES: no thread
  // runs.
  absl::StatusOr<std::shared_ptr<const LoadedEpoch>> preloaded() const;
  // The previous value is freed after mutex_ is released. It may have
  // gigabytes, and bytes() must not wait for that.
  void SetPreloaded(absl::StatusOr<std::shared_ptr<const LoadedEpoch>> loaded);
  void SetCurrent(std::shared_ptr<const LoadedEpoch> loaded);
  // The memory of the epoch in use, and of the preload; null where there is no
  // such epoch.
  std::shared_ptr<const ExampleMemory> CurrentMemory() const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::shared_ptr<const ExampleMemory> PreloadedMemory() const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  const SourceIndex* const index_;
  std::atomic<bool> stopping_ = false;
  // The share to preload, until it is taken or dropped. Constant while the
  // thread runs.
  std::optional<Share> preload_;
  std::thread thread_;

  mutable absl::Mutex mutex_;
  std::shared_ptr<const LoadedEpoch> current_ ABSL_GUARDED_BY(mutex_);
  // While the thread runs, this is the result of the previous preload, whose
  // memory the thread may reuse.
  absl::StatusOr<std::shared_ptr<const LoadedEpoch>> preloaded_
      ABSL_GUARDED_BY(mutex_) = std::shared_ptr<const LoadedEpoch>();
};

// Reads positions of a loaded epoch.
class MemoryPositions : public PositionReader {
 public:
  // Malformed lines are counted in `bad_lines`, as if they were read now.
  // Pointer arguments outlive this object.
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
