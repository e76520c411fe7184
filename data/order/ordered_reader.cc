#include "data/order/ordered_reader.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"

namespace oarlock::data {

FilePositions::FilePositions(const DataOptions& options,
                             std::vector<std::string> files,
                             const SourceIndex* index,
                             std::shared_ptr<const ExampleOrder> order,
                             BadLines* bad_lines)
    : schema_(SchemaOf(options)),
      fetcher_(options, std::move(files), index, bad_lines),
      order_(std::move(order)),
      cursor_(order_.get()) {}

absl::StatusOr<uint64_t> FilePositions::Prepare(uint64_t begin, uint64_t end) {
  if (end > order_->size()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "examples ", begin, " to ", end,
        " of the epoch are to be read, but the "
        "files have ",
        order_->size(),
        "; do all workers see the same files, and do they stay as they are?"));
  }
  end = std::min(end, begin + kMaxPositions);
  begin_ = begin;
  wanted_.clear();
  for (uint64_t position = begin; position < end; ++position) {
    wanted_.emplace_back(cursor_.At(position),
                         static_cast<uint32_t>(position - begin));
  }
  std::sort(wanted_.begin(), wanted_.end());
  numbers_.clear();
  for (const auto& [example, place] : wanted_) numbers_.push_back(example);
  examples_.Clear();
  OARLOCK_RETURN_IF_ERROR(fetcher_.Fetch(numbers_, &examples_, &fetched_));
  places_.resize(wanted_.size());
  for (size_t i = 0; i < wanted_.size(); ++i) {
    places_[wanted_[i].second] = fetched_[i];
  }
  return end;
}

void FilePositions::Append(uint64_t position, Batch* batch) {
  const uint32_t place = places_[position - begin_];
  if (!ExampleFetcher::IsExample(place)) return;
  AppendExample(schema_, examples_, place, batch);
}

absl::StatusOr<bool> OrderedReader::Next(size_t batch_size, Batch* batch) {
  OARLOCK_CHECK(batch_size > 0);
  batch->Clear();
  OARLOCK_RETURN_IF_ERROR(status_);
  for (const DataRange& item : finished_) ranges_->Done(item);
  finished_.clear();
  absl::StatusOr<bool> result = Fill(batch_size, batch);
  if (!result.ok()) {
    status_ = result.status();
    batch->Clear();
  }
  return result;
}

absl::StatusOr<bool> OrderedReader::Fill(size_t batch_size, Batch* batch) {
  while (batch->num_examples < batch_size) {
    if (!item_.has_value()) {
      if (ranges_are_over_) break;
      OARLOCK_ASSIGN_OR_RETURN(item_, ranges_->Next());
      if (!item_.has_value()) {
        ranges_are_over_ = true;
        break;
      }
      next_ = ready_ = item_->begin;
    }
    const size_t examples_before = batch->num_examples;
    OARLOCK_RETURN_IF_ERROR(ReadItem(batch_size, batch));
    if (next_ < item_->end) continue;
    const DataRange item = *std::exchange(item_, std::nullopt);
    if (batch->num_examples == examples_before) {
      // No batch has an example of the item.
      ranges_->Done(item);
    } else {
      finished_.push_back(item);
    }
    if (item.ends_batch && batch->num_examples > 0) break;
  }
  if (batch->num_examples > 0) return true;
  batch->Clear();
  return false;
}

absl::Status OrderedReader::ReadItem(size_t batch_size, Batch* batch) {
  while (next_ < item_->end) {
    if (batch->num_examples >= batch_size) return absl::OkStatus();
    if (next_ == ready_) {
      OARLOCK_ASSIGN_OR_RETURN(ready_, positions_->Prepare(next_, item_->end));
    }
    AddToRanges(item_->source, next_, batch);
    positions_->Append(next_, batch);
    ++next_;
  }
  return absl::OkStatus();
}

}  // namespace oarlock::data
