// A text file of scores, one a line.

#ifndef OARLOCK_CLI_SCORE_FILE_H_
#define OARLOCK_CLI_SCORE_FILE_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/output/output_file.h"

namespace oarlock::cli {

// Nine digits, which give back a float's bits; "nan" of a line that has no
// score. Where and when: OutputFile. Not thread-safe.
class ScoreFile {
 public:
  static absl::StatusOr<std::unique_ptr<ScoreFile>> Create(
      const std::string& path);

  absl::Status Write(absl::Span<const float> scores);
  absl::Status Finish() { return file_->Finish(); }

 private:
  explicit ScoreFile(std::unique_ptr<OutputFile> file)
      : file_(std::move(file)) {}

  const std::unique_ptr<OutputFile> file_;
  std::string text_;
};

}  // namespace oarlock::cli

#endif  // OARLOCK_CLI_SCORE_FILE_H_
