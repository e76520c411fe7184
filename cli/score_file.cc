#include "cli/score_file.h"

#include "absl/memory/memory.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"

namespace oarlock::cli {

absl::StatusOr<std::unique_ptr<ScoreFile>> ScoreFile::Create(
    const std::string& path) {
  OARLOCK_ASSIGN_OR_RETURN(std::unique_ptr<OutputFile> file,
                           OutputFile::Create(path));
  return absl::WrapUnique(new ScoreFile(std::move(file)));
}

absl::Status ScoreFile::Write(absl::Span<const float> scores) {
  text_.clear();
  for (const float score : scores) {
    absl::StrAppendFormat(&text_, "%.9g\n", score);
  }
  return file_->Write(text_);
}

}  // namespace oarlock::cli
