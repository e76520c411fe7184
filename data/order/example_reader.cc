#include "data/order/example_reader.h"

#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "data/reader/input_file.h"

namespace oarlock::data {

BatchReader::BatchReader(const DataOptions& options,
                         std::vector<std::string> files, RangeSource* ranges,
                         BadLines* bad_lines)
    : options_(options),
      files_(std::move(files)),
      ranges_(ranges),
      bad_lines_(bad_lines),
      parser_(NewLineParser(options)) {
  OARLOCK_CHECK(options_.Validate().ok());
}

absl::StatusOr<bool> BatchReader::Next(size_t batch_size, Batch* batch) {
  OARLOCK_CHECK(batch_size > 0);
  batch->Clear();
  OARLOCK_RETURN_IF_ERROR(status_);
  ReportDone();
  absl::StatusOr<bool> result = Fill(batch_size, batch);
  if (!result.ok()) {
    status_ = result.status();
    batch->Clear();
    // Kills a command that still runs.
    lines_.reset();
  }
  return result;
}

absl::StatusOr<bool> BatchReader::Fill(size_t batch_size, Batch* batch) {
  while (batch->num_examples < batch_size) {
    if (!item_.has_value()) OARLOCK_RETURN_IF_ERROR(StartItem());
    if (!item_.has_value()) break;
    const size_t examples_before = batch->num_examples;
    OARLOCK_ASSIGN_OR_RETURN(const bool finished, ReadItem(batch_size, batch));
    if (!finished) continue;
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

absl::Status BatchReader::StartItem() {
  if (ranges_are_over_) return absl::OkStatus();
  OARLOCK_ASSIGN_OR_RETURN(std::optional<DataRange> item, ranges_->Next());
  if (!item.has_value()) {
    ranges_are_over_ = true;
    lines_.reset();
    return absl::OkStatus();
  }
  if (item->source >= files_.size() || item->skip_lines > item->begin ||
      (item->end != 0 && item->end < item->begin)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "range has source ", item->source, " and lines ", item->begin, " to ",
        item->end, "; there are ", files_.size(),
        " data files; do all processes have the same list of files?"));
  }
  if (absl::Status moved = MoveTo(*item); !moved.ok()) {
    OARLOCK_RETURN_IF_ERROR(LeaveOut(item->source, std::move(moved)));
  }
  item_ = *item;
  return absl::OkStatus();
}

absl::Status BatchReader::MoveTo(const DataRange& item) {
  const bool goes_on = lines_ != nullptr && source_ == item.source;
  const bool can_seek = CanSeek(options_, files_[item.source]);
  if (!goes_on || (!can_seek && lines_->line_number() > item.begin)) {
    OARLOCK_RETURN_IF_ERROR(OpenSource(item.source));
  }
  if (can_seek && lines_->line_number() != item.begin) {
    const uint64_t known_line = item.begin - item.skip_lines;
    if (item.byte_offset > 0 || known_line == 0) {
      OARLOCK_RETURN_IF_ERROR(lines_->Seek(item.byte_offset, known_line));
    } else if (lines_->line_number() > item.begin) {
      OARLOCK_RETURN_IF_ERROR(lines_->Seek(0, 0));
    }
  }
  lines_->Skip(item.begin - lines_->line_number());
  return lines_->status();
}

absl::Status BatchReader::LeaveOut(uint32_t source, absl::Status why) {
  if (!options_.leave_out_unreadable) return why;
  bad_lines_->LeaveOut(files_[source], why);
  lines_.reset();
  return absl::OkStatus();
}

absl::Status BatchReader::OpenSource(uint32_t source) {
  lines_.reset();
  if (options_.leave_out_unreadable) {
    AwaitFolderOf(files_[source], *options_.clocks.monotonic);
  }
  OARLOCK_ASSIGN_OR_RETURN(lines_, OpenInput(options_, files_[source]));
  source_ = source;
  return absl::OkStatus();
}

absl::StatusOr<bool> BatchReader::ReadItem(size_t batch_size, Batch* batch) {
  if (lines_ == nullptr) return true;
  const uint64_t end = item_->end == 0 ? ~uint64_t{0} : item_->end;
  std::string_view line;
  while (batch->num_examples < batch_size || lines_->line_number() == end) {
    const uint64_t number = lines_->line_number();
    if (number == end) return true;
    if (!lines_->Next(&line)) {
      absl::Status why = lines_->status();
      if (why.ok()) {
        if (item_->end == 0) return true;
        why = absl::FailedPreconditionError(
            absl::StrCat("'", files_[source_], "' ends after ", number,
                         " lines, but lines up to ", end,
                         " were counted; it changed during the run"));
      }
      OARLOCK_RETURN_IF_ERROR(LeaveOut(source_, std::move(why)));
      return true;
    }
    AddToRanges(source_, number, batch);
    if (!parser_->Append(line, batch, &reason_) && !parser_->IsComment(line)) {
      OARLOCK_RETURN_IF_ERROR(bad_lines_->Add(files_[source_], number, reason_,
                                              options_.bad_lines_max));
    }
  }
  return false;
}

void BatchReader::ReportDone() {
  for (const DataRange& item : finished_) ranges_->Done(item);
  finished_.clear();
}

}  // namespace oarlock::data
