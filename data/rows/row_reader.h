// Batches of rows of columnar files, read by a process beside this one.

#ifndef OARLOCK_DATA_ROWS_ROW_READER_H_
#define OARLOCK_DATA_ROWS_ROW_READER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "data/batch.h"
#include "data/batch_source.h"
#include "data/features/feature_list.h"
#include "data/parse/bad_lines.h"
#include "data/range_source.h"
#include "data/rows/reader_process.h"
#include "proto/v1/reader.pb.h"

namespace oarlock::data {

struct RowSourceOptions {
  // Numbered, and no type AS_IT_IS.
  FeatureList features;
  ReaderOptions reader;
  // What ranges number.
  std::vector<v1::ListedFile> files;
  // A phase with more bad rows than this fails.
  int64_t bad_rows_max = 100;
};

// The ranges of one source, whose rows all compute threads of a worker take in
// turn, batch by batch: so a range is decoded once, by one process.
// Thread-safe.
//
// A process that ends, or is silent, is started anew and goes on at the row
// that it had reached, kMaxRestarts times for a range.
class RowFeed {
 public:
  static constexpr int kMaxRestarts = 3;

  // Pointer arguments outlive this object.
  RowFeed(const RowSourceOptions* options, RangeSource* ranges,
          BadLines* bad_lines)
      : options_(*options), ranges_(*ranges), bad_lines_(*bad_lines) {}

 private:
  friend class RowReader;
  // A range of which rows were taken.
  struct Item {
    DataRange range;
    // Batches with rows of it that are not finished.
    int open_batches = 0;
    bool all_taken = false;
  };
  using Items = std::vector<std::shared_ptr<Item>>;

  // The items of a reader's last batch are finished.
  void Finish(Items* items);
  // As BatchSource::Next; `items` become those of the batch.
  absl::StatusOr<bool> Next(size_t batch_size, Batch* batch, Items* items);
  absl::StatusOr<bool> Fill(size_t batch_size, Batch* batch, Items* items)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Makes a block current that has row next_ of the item.
  absl::Status NextBlock() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status TryNextBlock() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Takes rows of the block until the batch is full.
  absl::Status TakeRows(size_t batch_size, Batch* batch)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndItem() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const RowSourceOptions& options_;
  RangeSource& ranges_;
  BadLines& bad_lines_;

  absl::Mutex mutex_;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  bool ranges_are_over_ ABSL_GUARDED_BY(mutex_) = false;
  std::unique_ptr<ReaderProcess> process_ ABSL_GUARDED_BY(mutex_);
  // The process reads rows of item_.
  bool is_reading_ ABSL_GUARDED_BY(mutex_) = false;
  std::shared_ptr<Item> item_ ABSL_GUARDED_BY(mutex_);
  // The row of it that is taken next.
  uint64_t next_ ABSL_GUARDED_BY(mutex_) = 0;
  int restarts_ ABSL_GUARDED_BY(mutex_) = 0;
  std::optional<ReaderProcess::Block> block_ ABSL_GUARDED_BY(mutex_);
};

// A compute thread's part of a feed. Thread-compatible. RangeSource::Done is
// called for a range when every reader that got rows of it has asked for
// another batch since.
class RowReader : public BatchSource {
 public:
  explicit RowReader(std::shared_ptr<RowFeed> feed) : feed_(std::move(feed)) {}

  // Errors name the file, or are those of the range source: a file that has
  // changed since it was listed, too many bad rows, a process that cannot read.
  absl::StatusOr<bool> Next(size_t batch_size, Batch* batch) override;

 private:
  const std::shared_ptr<RowFeed> feed_;
  // Of the batch that was returned last.
  RowFeed::Items items_;
};

}  // namespace oarlock::data

#endif  // OARLOCK_DATA_ROWS_ROW_READER_H_
