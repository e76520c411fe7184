#include "data/rows/row_feed.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"

namespace oarlock::data {
namespace {

void AddRange(uint32_t source, uint64_t begin, uint64_t end, Batch* batch) {
  if (!batch->ranges.empty()) {
    ExampleRange& last = batch->ranges.back();
    if (last.source == source && last.end == begin) {
      last.end = end;
      return;
    }
  }
  batch->ranges.push_back({source, begin, end});
}

}  // namespace

void RowFeed::Finish(Items* items) {
  std::vector<DataRange> done;
  {
    absl::MutexLock lock(&mutex_);
    for (const std::shared_ptr<Item>& item : *items) {
      if (--item->open_batches == 0 && item->all_taken) {
        done.push_back(item->range);
      }
    }
  }
  items->clear();
  for (const DataRange& range : done) ranges_.Done(range);
}

absl::StatusOr<bool> RowFeed::Next(size_t reader, size_t batch_size,
                                   Batch* batch, Items* items) {
  absl::MutexLock lock(&mutex_);
  OARLOCK_RETURN_IF_ERROR(status_);
  absl::StatusOr<bool> result =
      num_turns_ == 0 ? Fill(batch_size, batch, items)
                      : NextInTurn(reader, batch_size, batch, items);
  if (result.ok() && *result) return true;
  // Rows that are all bad may be in it.
  batch->Clear();
  if (!result.ok()) status_ = result.status();
  return result;
}

absl::StatusOr<bool> RowFeed::NextInTurn(size_t reader, size_t batch_size,
                                         Batch* batch, Items* items) {
  std::deque<Waiting>& mine = waiting_[reader];
  for (;;) {
    // The ranges of a block of bad rows alone are those of the next batch.
    while (!mine.empty() && mine.front().batch.num_examples == 0) {
      items->insert(items->end(), mine.front().items.begin(),
                    mine.front().items.end());
      mine.pop_front();
    }
    if (!mine.empty()) break;
    Waiting taken;
    OARLOCK_ASSIGN_OR_RETURN(const bool more,
                             Fill(batch_size, &taken.batch, &taken.items));
    if (!more) return false;
    waiting_[turn_].push_back(std::move(taken));
    turn_ = (turn_ + 1) % num_turns_;
  }
  Waiting& next = mine.front();
  std::swap(*batch, next.batch);
  items->insert(items->end(), next.items.begin(), next.items.end());
  mine.pop_front();
  return true;
}

absl::StatusOr<bool> RowFeed::NextItem() {
  if (ranges_are_over_) return false;
  OARLOCK_ASSIGN_OR_RETURN(const std::optional<DataRange> range,
                           ranges_.Next());
  if (!range.has_value()) {
    ranges_are_over_ = true;
    return false;
  }
  if (range->end <= range->begin) {
    return absl::InvalidArgumentError(
        absl::StrCat("range of source ", range->source, " has rows ",
                     range->begin, " to ", range->end));
  }
  item_ = std::make_shared<Item>();
  item_->range = *range;
  next_ = range->begin;
  return true;
}

absl::StatusOr<bool> RowFeed::Fill(size_t batch_size, Batch* batch,
                                   Items* items) {
  bool has_items = false;
  for (;;) {
    if (item_ == nullptr) {
      OARLOCK_ASSIGN_OR_RETURN(const bool more, NextItem());
      if (!more) break;
    }
    const std::shared_ptr<Item> item = item_;
    if (items->empty() || items->back() != item) {
      items->push_back(item);
      ++item->open_batches;
    }
    has_items = true;
    // In turns an item is a part of a block, so all of it goes in.
    const uint64_t rows = item->range.end - next_;
    const uint64_t taken =
        num_turns_ > 0
            ? rows
            : std::min<uint64_t>(rows, batch_size - batch->num_examples);
    OARLOCK_RETURN_IF_ERROR(
        stream_->Take(item->range.source, next_, next_ + taken, batch));
    AddRange(item->range.source, next_, next_ + taken, batch);
    next_ += taken;
    if (next_ == item->range.end) {
      item->all_taken = true;
      item_.reset();
      if (item->range.ends_batch &&
          (num_turns_ > 0 || batch->num_examples > 0)) {
        return true;
      }
    }
    if (num_turns_ == 0 && batch->num_examples == batch_size) return true;
  }
  return num_turns_ > 0 ? has_items : batch->num_examples > 0;
}

absl::StatusOr<bool> RowReader::Next(size_t batch_size, Batch* batch) {
  OARLOCK_CHECK(batch_size > 0);
  batch->Clear();
  feed_->Finish(&items_);
  absl::StatusOr<bool> result =
      feed_->Next(number_, batch_size, batch, &items_);
  // Of ranges whose rows are all bad no batch is made.
  if (result.ok() && !*result) feed_->Finish(&items_);
  return result;
}

}  // namespace oarlock::data
