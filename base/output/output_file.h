// What a command writes for others to read.

#ifndef OARLOCK_BASE_OUTPUT_OUTPUT_FILE_H_
#define OARLOCK_BASE_OUTPUT_OUTPUT_FILE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace oarlock {

// A regular file appears under its name when it is whole, by Finish: before
// that it lies in the same folder under another name, which is removed where
// Finish is not called. It has the mode and, where that may be, the owner of
// the file whose place it takes. Symbolic links stay, and lead to it. Anything
// else (a pipe, a device, what lies in /dev or /proc) is written into as it is,
// and so is standard output, "-". Not synced. Not thread-safe.
class OutputFile {
 public:
  // Errors name the path: of the system, and InvalidArgument for a folder.
  static absl::StatusOr<std::unique_ptr<OutputFile>> Create(
      const std::string& path);
  ~OutputFile();

  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  absl::Status Write(absl::string_view bytes);
  absl::Status Finish();
  // Finish, once what was written would outlast the machine.
  absl::Status SyncAndFinish();

 private:
  explicit OutputFile(const std::string& path);
  absl::Status Open();
  absl::Status OpenBeside(const std::string& target);
  absl::Status Flush();
  // Of errno.
  absl::Status Failed() const;
  void Close();

  // For messages.
  const std::string name_;
  const std::string path_;
  // Where the file shall be, and where it is until then. Empty: it is written
  // into as it is.
  std::string target_;
  std::string temporary_;
  int fd_ = -1;
  std::string buffer_;
};

// InvalidArgument when `output` is one of `inputs`, by whatever path.
absl::Status CheckNotAnInput(const std::string& output,
                             const std::vector<std::string>& inputs);

// For the end of a program that has written to standard output: what did not
// arrive there is told on standard error, and makes an exit code of 0 one of 1.
// `program` is "oarlock".
int FinishStandardOutput(const char* program, int exit_code);

}  // namespace oarlock

#endif  // OARLOCK_BASE_OUTPUT_OUTPUT_FILE_H_
