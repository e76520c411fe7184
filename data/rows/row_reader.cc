#include "data/rows/row_reader.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/log.h"
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

absl::StatusOr<bool> RowFeed::Next(size_t batch_size, Batch* batch,
                                   Items* items) {
  absl::MutexLock lock(&mutex_);
  OARLOCK_RETURN_IF_ERROR(status_);
  absl::StatusOr<bool> result = Fill(batch_size, batch, items);
  if (result.ok()) return result;
  status_ = result.status();
  batch->Clear();
  block_.reset();
  process_.reset();
  return result;
}

absl::StatusOr<bool> RowFeed::Fill(size_t batch_size, Batch* batch,
                                   Items* items) {
  while (batch->num_examples < batch_size) {
    if (item_ == nullptr) {
      if (ranges_are_over_) break;
      OARLOCK_ASSIGN_OR_RETURN(const std::optional<DataRange> range,
                               ranges_.Next());
      if (!range.has_value()) {
        ranges_are_over_ = true;
        break;
      }
      if (range->source >= options_.files.size() ||
          range->end <= range->begin) {
        return absl::InvalidArgumentError(absl::StrCat(
            "range has source ", range->source, " and rows ", range->begin,
            " to ", range->end, "; there are ", options_.files.size(),
            " data files; do all processes have the same list of files?"));
      }
      item_ = std::make_shared<Item>();
      item_->range = *range;
      next_ = range->begin;
      restarts_ = 0;
    }
    if (!block_.has_value()) OARLOCK_RETURN_IF_ERROR(NextBlock());
    const std::shared_ptr<Item> item = item_;
    if (items->empty() || items->back() != item) {
      items->push_back(item);
      ++item->open_batches;
    }
    OARLOCK_RETURN_IF_ERROR(TakeRows(batch_size, batch));
    if (item_ == nullptr && item->range.ends_batch && batch->num_examples > 0) {
      break;
    }
  }
  if (batch->num_examples > 0) return true;
  // Rows that are all bad may be in it.
  batch->Clear();
  return false;
}

absl::Status RowFeed::NextBlock() {
  for (;;) {
    absl::Status status = TryNextBlock();
    if (!absl::IsUnavailable(status)) return status;
    process_.reset();
    is_reading_ = false;
    const std::string& path = options_.files[item_->range.source].path();
    if (++restarts_ > kMaxRestarts) {
      return absl::UnavailableError(absl::StrCat(status.message(), ", ",
                                                 restarts_, " times at row ",
                                                 next_, " of '", path, "'"));
    }
    Log().warn("{}; another one goes on at row {} of '{}'",
               std::string(status.message()), next_, path);
  }
}

absl::Status RowFeed::TryNextBlock() {
  if (process_ == nullptr) {
    OARLOCK_ASSIGN_OR_RETURN(
        process_, ReaderProcess::Start(options_.features, options_.reader));
  }
  if (!is_reading_) {
    v1::ReadRows rows;
    *rows.mutable_file() = options_.files[item_->range.source];
    rows.set_begin(next_);
    rows.set_end(item_->range.end);
    OARLOCK_RETURN_IF_ERROR(process_->Read(rows));
    is_reading_ = true;
  }
  OARLOCK_ASSIGN_OR_RETURN(block_, process_->Next());
  if (!block_.has_value() || block_->begin != next_ ||
      block_->view.num_rows() == 0 ||
      block_->view.num_rows() > item_->range.end - next_) {
    block_.reset();
    return absl::UnavailableError(
        absl::StrCat("the reader process has sent other rows than row ", next_,
                     " and those after it"));
  }
  return absl::OkStatus();
}

absl::Status RowFeed::TakeRows(size_t batch_size, Batch* batch) {
  const FeatureBlockView& view = block_->view;
  const uint64_t end = view.num_rows();
  const v1::ListedFile& file = options_.files[item_->range.source];
  while (batch->num_examples < batch_size && next_ - block_->begin < end) {
    const uint64_t begin = next_ - block_->begin;
    const uint64_t stop =
        std::min<uint64_t>(end, begin + batch_size - batch->num_examples);
    view.AppendTo(begin, stop, batch);
    AddRange(item_->range.source, next_, block_->begin + stop, batch);
    for (uint64_t row = begin; view.num_bad() > 0 && row < stop; ++row) {
      if (!view.IsBad(row)) continue;
      OARLOCK_RETURN_IF_ERROR(bad_lines_.Add(
          file.path(), block_->begin + row,
          row == view.first_bad_row() ? view.reason() : "a bad row",
          options_.bad_rows_max));
    }
    next_ = block_->begin + stop;
  }
  if (next_ - block_->begin < end) return absl::OkStatus();
  // A process that is gone is noticed at the next block.
  process_->Free(*block_).IgnoreError();
  block_.reset();
  if (next_ == item_->range.end) EndItem();
  return absl::OkStatus();
}

void RowFeed::EndItem() {
  item_->all_taken = true;
  item_.reset();
  // It says that these were all.
  const auto end = process_->Next();
  if (!end.ok() || end->has_value()) process_.reset();
  is_reading_ = false;
}

absl::StatusOr<bool> RowReader::Next(size_t batch_size, Batch* batch) {
  OARLOCK_CHECK(batch_size > 0);
  batch->Clear();
  feed_->Finish(&items_);
  absl::StatusOr<bool> result = feed_->Next(batch_size, batch, &items_);
  // Of ranges whose rows are all bad no batch is made.
  if (result.ok() && !*result) feed_->Finish(&items_);
  return result;
}

}  // namespace oarlock::data
