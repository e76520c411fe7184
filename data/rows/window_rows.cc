#include "data/rows/window_rows.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace oarlock::data {

absl::Status WindowRows::Take(uint32_t source, uint64_t begin, uint64_t end,
                              Batch* batch) {
  if (source != 0 || begin > end || end > order_->size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("positions ", begin, " to ", end, " of order ", source,
                     " are wanted; there are ", order_->size(),
                     "; do all processes have the same list of files?"));
  }
  for (uint64_t position = begin; position < end; ++position) {
    if (!window_.has_value() || position < order_->windows()[*window_].begin ||
        position >= order_->windows()[*window_].end) {
      OARLOCK_RETURN_IF_ERROR(Enter(order_->WindowOf(position), batch));
    }
    const uint64_t place = position - order_->windows()[*window_].begin;
    OARLOCK_RETURN_IF_ERROR(
        Append(window_rows_.empty() ? place : window_rows_[place], batch));
  }
  return absl::OkStatus();
}

absl::Status WindowRows::Enter(uint32_t window, Batch* batch) {
  window_.reset();
  parts_.clear();
  const GroupOrder::Window& entered = order_->windows()[window];
  memory_->KeepOnly(entered.units);
  uint64_t begin = 0;
  for (const uint32_t unit : entered.units) {
    const DataRange& range = rows_->options().units[unit];
    Part part;
    part.begin = begin;
    part.source = range.source;
    part.first_row = range.begin;
    OARLOCK_ASSIGN_OR_RETURN(
        part.unit, memory_->Load(unit, rows_.get(), &batch->num_decoded_rows));
    parts_.push_back(std::move(part));
    begin += range.end - range.begin;
  }
  window_rows_ = order_->RowsOf(window);
  window_ = window;
  return absl::OkStatus();
}

absl::Status WindowRows::Append(uint64_t row, Batch* batch) {
  // The last one that begins at the row or before it.
  const Part& part = *(std::partition_point(parts_.begin(), parts_.end(),
                                            [&](const Part& each) {
                                              return each.begin <= row;
                                            }) -
                       1);
  const uint64_t in_unit = row - part.begin;
  const std::vector<FileRows::BadRow>& bad = part.unit->bad;
  const uint64_t file_row = part.first_row + in_unit;
  const auto at = std::partition_point(
      bad.begin(), bad.end(),
      [&](const FileRows::BadRow& each) { return each.row < file_row; });
  if (at != bad.end() && at->row == file_row) {
    return rows_->Count(part.source, *at);
  }
  AppendExample(schema_, part.unit->rows,
                in_unit - static_cast<uint64_t>(at - bad.begin()), batch);
  return absl::OkStatus();
}

}  // namespace oarlock::data
