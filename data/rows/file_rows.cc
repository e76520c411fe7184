#include "data/rows/file_rows.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"

namespace oarlock::data {
namespace {

bool IsBefore(const DataRange& unit, uint32_t source, uint64_t row) {
  return unit.source != source ? unit.source < source : unit.end <= row;
}

}  // namespace

absl::Status FileRows::Take(uint32_t source, uint64_t begin, uint64_t end,
                            Batch* batch) {
  std::vector<BadRow> bad;
  OARLOCK_RETURN_IF_ERROR(Load(source, begin, end, batch, &bad));
  for (const BadRow& row : bad) {
    OARLOCK_RETURN_IF_ERROR(Count(source, row));
  }
  return absl::OkStatus();
}

absl::Status FileRows::Count(uint32_t source, const BadRow& bad) {
  return bad_lines_.Add(options_.files[source].path(), bad.row, bad.reason,
                        options_.bad_rows_max);
}

absl::Status FileRows::Load(uint32_t source, uint64_t begin, uint64_t end,
                            Batch* batch, std::vector<BadRow>* bad) {
  while (begin < end) {
    if (next_ == end_ || source != source_ || begin != next_) {
      Seek(source, begin);
      if (next_ == end_) {
        return absl::InvalidArgumentError(absl::StrCat(
            "row ", begin, " of file ", source,
            " is wanted, which is in no unit of the ", options_.files.size(),
            " data files; do all processes have the same list of files?"));
      }
    }
    if (!block_.has_value()) OARLOCK_RETURN_IF_ERROR(NextBlock(batch));
    const FeatureBlockView& view = block_->view;
    const uint64_t first = next_ - block_->begin;
    const uint64_t stop = std::min(view.num_rows(), first + (end - begin));
    view.AppendTo(first, stop, batch);
    for (uint64_t row = first; view.num_bad() > 0 && row < stop; ++row) {
      if (!view.IsBad(row)) continue;
      bad->push_back({.row = block_->begin + row,
                      .reason = row == view.first_bad_row()
                                    ? std::string(view.reason())
                                    : "a bad row"});
    }
    begin += stop - first;
    next_ += stop - first;
    if (stop == view.num_rows()) FreeBlock();
    if (next_ == end_) StopReading();
  }
  return absl::OkStatus();
}

void FileRows::Seek(uint32_t source, uint64_t row) {
  StopReading();
  restarts_ = 0;
  source_ = source;
  next_ = end_ = row;
  const auto unit = std::partition_point(
      options_.units.begin(), options_.units.end(),
      [&](const DataRange& each) { return IsBefore(each, source, row); });
  if (unit != options_.units.end() && unit->source == source &&
      unit->begin <= row) {
    end_ = unit->end;
  }
}

absl::Status FileRows::NextBlock(Batch* batch) {
  for (;;) {
    absl::Status status = TryNextBlock();
    if (status.ok()) batch->num_decoded_rows += block_->decoded_rows;
    if (!absl::IsUnavailable(status)) return status;
    block_.reset();
    process_.reset();
    is_reading_ = false;
    if (++restarts_ > kMaxRestarts) {
      return absl::UnavailableError(absl::StrCat(status.message(), ", ",
                                                 restarts_, " times at row ",
                                                 next_, " of '", path(), "'"));
    }
    Log().warn("{}; another one goes on at row {} of '{}'",
               std::string(status.message()), next_, path());
  }
}

absl::Status FileRows::TryNextBlock() {
  if (process_ == nullptr) {
    OARLOCK_ASSIGN_OR_RETURN(
        process_, ReaderProcess::Start(options_.features, options_.reader));
  }
  if (!is_reading_) {
    v1::ReadRows rows;
    *rows.mutable_file() = options_.files[source_];
    rows.set_begin(next_);
    rows.set_end(end_);
    OARLOCK_RETURN_IF_ERROR(process_->Read(rows));
    is_reading_ = true;
  }
  OARLOCK_ASSIGN_OR_RETURN(block_, process_->Next());
  if (!block_.has_value() || block_->begin != next_ ||
      block_->view.num_rows() == 0 || block_->view.num_rows() > end_ - next_) {
    return absl::UnavailableError(
        absl::StrCat("the reader process has sent other rows than row ", next_,
                     " and those after it"));
  }
  return absl::OkStatus();
}

void FileRows::FreeBlock() {
  // A process that is gone is noticed at the next block.
  if (block_.has_value()) process_->Free(*block_).IgnoreError();
  block_.reset();
}

void FileRows::StopReading() {
  FreeBlock();
  if (!is_reading_) return;
  is_reading_ = false;
  if (next_ != end_ && !process_->Stop().ok()) {
    process_.reset();
    return;
  }
  // It says that these were all; some were on their way.
  for (;;) {
    const auto more = process_->Next();
    if (more.ok() && !more->has_value()) return;
    if (!more.ok() || next_ == end_ || !process_->Free(**more).ok()) {
      process_.reset();
      return;
    }
  }
}

}  // namespace oarlock::data
