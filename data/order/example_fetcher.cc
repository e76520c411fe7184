#include "data/order/example_fetcher.h"

#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "data/reader/input_file.h"

namespace oarlock::data {
namespace {

// Skipping up to this number of lines is cheaper than a seek.
constexpr uint64_t kNearLines = 128;

}  // namespace

ExampleFetcher::ExampleFetcher(const DataOptions& options,
                               std::vector<std::string> files,
                               const SourceIndex* index, BadLines* bad_lines)
    : options_(options),
      files_(std::move(files)),
      index_(index),
      bad_lines_(bad_lines),
      parser_(NewLineParser(options)) {}

absl::Status ExampleFetcher::MoveTo(size_t file, uint64_t line) {
  const bool can_seek = index_->files()[file].can_seek;
  const bool same = lines_ != nullptr && file_ == file;
  if (!same || (!can_seek && lines_->line_number() > line)) {
    lines_.reset();
    OARLOCK_ASSIGN_OR_RETURN(lines_, OpenInput(options_, files_[file]));
    file_ = file;
  }
  const uint64_t now = lines_->line_number();
  if (can_seek && (line < now || line - now > kNearLines)) {
    const DataRange item =
        index_->ItemOf({static_cast<uint32_t>(file), line, line + 1});
    OARLOCK_RETURN_IF_ERROR(
        lines_->Seek(item.byte_offset, line - item.skip_lines));
  }
  lines_->Skip(line - lines_->line_number());
  return lines_->status();
}

absl::Status ExampleFetcher::Fetch(absl::Span<const uint64_t> examples,
                                   Batch* batch,
                                   std::vector<uint32_t>* places) {
  places->resize(examples.size());
  size_t file = 0;
  for (size_t i = 0; i < examples.size(); ++i) {
    if (i > 0 && examples[i] == examples[i - 1]) {
      (*places)[i] = (*places)[i - 1];
      continue;
    }
    if (i == 0) file = index_->FileOf(examples[0]);
    while (examples[i] >= index_->first_example(file + 1)) ++file;
    const uint64_t line = examples[i] - index_->first_example(file);
    if (lines_ == nullptr || file_ != file || lines_->line_number() != line) {
      OARLOCK_RETURN_IF_ERROR(MoveTo(file, line));
    }
    std::string_view text;
    if (!lines_->Next(&text)) {
      OARLOCK_RETURN_IF_ERROR(lines_->status());
      return absl::FailedPreconditionError(absl::StrCat(
          "'", files_[file], "' ends after ", lines_->line_number(),
          " lines, but ", index_->files()[file].num_examples,
          " were counted; it changed during the run"));
    }
    (*places)[i] = static_cast<uint32_t>(batch->num_examples);
    if (parser_->Append(text, batch, &reason_)) continue;
    if (parser_->IsComment(text)) {
      (*places)[i] = kComment;
      continue;
    }
    (*places)[i] = kMalformed;
    OARLOCK_RETURN_IF_ERROR(
        bad_lines_->Add(files_[file], line, reason_, options_.bad_lines_max));
  }
  return absl::OkStatus();
}

}  // namespace oarlock::data
