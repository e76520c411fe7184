#include "cli/score_file.h"

#include <cerrno>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace oarlock::cli {

absl::StatusOr<std::unique_ptr<ScoreFile>> ScoreFile::Create(
    const std::string& path) {
  auto file = absl::WrapUnique(new ScoreFile(path));
  file->file_ =
      file->is_stdout() ? stdout : std::fopen(file->temporary().c_str(), "wb");
  if (file->file_ == nullptr) return file->Failed();
  return file;
}

ScoreFile::~ScoreFile() {
  if (file_ == nullptr || is_stdout()) return;
  std::fclose(file_);
  std::remove(temporary().c_str());
}

absl::Status ScoreFile::Failed() const {
  return absl::ErrnoToStatus(
      errno, absl::StrCat("cannot write scores to '",
                          is_stdout() ? "standard output" : path_, "'"));
}

absl::Status ScoreFile::Write(absl::Span<const float> scores) {
  text_.clear();
  for (const float score : scores) {
    absl::StrAppendFormat(&text_, "%.9g\n", score);
  }
  if (std::fwrite(text_.data(), 1, text_.size(), file_) != text_.size()) {
    return Failed();
  }
  return absl::OkStatus();
}

absl::Status ScoreFile::Finish() {
  if (is_stdout()) {
    return std::fflush(file_) == 0 ? absl::OkStatus() : Failed();
  }
  if (std::fclose(std::exchange(file_, nullptr)) != 0 ||
      std::rename(temporary().c_str(), path_.c_str()) != 0) {
    const absl::Status status = Failed();
    std::remove(temporary().c_str());
    return status;
  }
  return absl::OkStatus();
}

}  // namespace oarlock::cli
