// Hands the rows of one stream to the compute threads of a worker.

#ifndef OARLOCK_DATA_ROWS_ROW_FEED_H_
#define OARLOCK_DATA_ROWS_ROW_FEED_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "data/batch.h"
#include "data/batch_source.h"
#include "data/range_source.h"
#include "data/rows/row_stream.h"

namespace oarlock::data {

// The ranges of one source, read from one stream, so that each is decoded once.
// Thread-safe.
class RowFeed {
 public:
  // `num_turns` 0: batches go to whoever asks. Else every item that ends a
  // batch ends a block, and block b goes to reader b mod num_turns, whoever
  // asks first: blocks of others wait for them, as many as a reader may have
  // ahead. A block whose rows are all bad is nobody's. `ranges` outlives this.
  RowFeed(std::unique_ptr<RowStream> stream, RangeSource* ranges,
          size_t num_turns)
      : ranges_(*ranges), num_turns_(num_turns), stream_(std::move(stream)) {
    waiting_.resize(num_turns);
  }

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
  struct Waiting {
    Batch batch;
    Items items;
  };

  // The items of a reader's last batch are finished.
  void Finish(Items* items);
  // As BatchSource::Next; `items` become those of the batch.
  absl::StatusOr<bool> Next(size_t reader, size_t batch_size, Batch* batch,
                            Items* items);
  absl::StatusOr<bool> NextInTurn(size_t reader, size_t batch_size,
                                  Batch* batch, Items* items)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // False: there are no more ranges. In turns, a batch may be empty.
  absl::StatusOr<bool> Fill(size_t batch_size, Batch* batch, Items* items)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // False: there are no more ranges.
  absl::StatusOr<bool> NextItem() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  RangeSource& ranges_;
  const size_t num_turns_;

  absl::Mutex mutex_;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  const std::unique_ptr<RowStream> stream_ ABSL_PT_GUARDED_BY(mutex_);
  bool ranges_are_over_ ABSL_GUARDED_BY(mutex_) = false;
  std::shared_ptr<Item> item_ ABSL_GUARDED_BY(mutex_);
  // The row of it that is taken next.
  uint64_t next_ ABSL_GUARDED_BY(mutex_) = 0;
  // Whose turn the next block is, and blocks that were taken before their
  // readers asked.
  size_t turn_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<std::deque<Waiting>> waiting_ ABSL_GUARDED_BY(mutex_);
};

// A compute thread's part of a feed. Thread-compatible. RangeSource::Done is
// called for a range when every reader that got rows of it has asked for
// another batch since.
class RowReader : public BatchSource {
 public:
  // `number` is that of the turns; any where there are none.
  RowReader(std::shared_ptr<RowFeed> feed, size_t number)
      : feed_(std::move(feed)), number_(number) {}

  // Errors are those of the stream and of the range source.
  absl::StatusOr<bool> Next(size_t batch_size, Batch* batch) override;

 private:
  const std::shared_ptr<RowFeed> feed_;
  const size_t number_;
  // Of the batch that was returned last.
  RowFeed::Items items_;
};

}  // namespace oarlock::data

#endif  // OARLOCK_DATA_ROWS_ROW_FEED_H_
