// A text file of scores, one a line.

#ifndef OARLOCK_CLI_SCORE_FILE_H_
#define OARLOCK_CLI_SCORE_FILE_H_

#include <cstdio>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace oarlock::cli {

// Nine digits, which give back a float's bits; "nan" of a line that has no
// score. The file appears under its name when it is whole, by Finish; before
// that it is `path`.tmp, which is removed where Finish is not called. Not
// thread-safe.
class ScoreFile {
 public:
  // `path` "-": standard output. Errors name the path.
  static absl::StatusOr<std::unique_ptr<ScoreFile>> Create(
      const std::string& path);
  ~ScoreFile();

  absl::Status Write(absl::Span<const float> scores);
  absl::Status Finish();

 private:
  explicit ScoreFile(const std::string& path) : path_(path) {}

  bool is_stdout() const { return path_ == "-"; }
  std::string temporary() const { return path_ + ".tmp"; }
  absl::Status Failed() const;

  const std::string path_;
  // Null once it is closed.
  std::FILE* file_ = nullptr;
  std::string text_;
};

}  // namespace oarlock::cli

#endif  // OARLOCK_CLI_SCORE_FILE_H_
