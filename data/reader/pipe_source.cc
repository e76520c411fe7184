#include "data/reader/pipe_source.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "data/reader/guarded_process.h"

namespace oarlock::data {
namespace {

// Between two looks at a command that writes nothing.
constexpr absl::Duration kPoll = absl::Milliseconds(100);

class PipeSource : public ByteSource {
 public:
  // Takes ownership of the process `pid`, which is in `group`.
  PipeSource(std::string what, std::unique_ptr<GuardedGroup> group, pid_t pid,
             FileDescriptor output, const Clock& clock,
             std::function<absl::Status(absl::Duration)> while_silent)
      : what_(std::move(what)),
        group_(std::move(group)),
        pid_(pid),
        output_(std::move(output)),
        clock_(clock),
        while_silent_(std::move(while_silent)) {}

  ~PipeSource() override { Kill(); }

  absl::StatusOr<size_t> Read(char* data, size_t size) override {
    if (pid_ < 0) return 0;
    OARLOCK_RETURN_IF_ERROR(AwaitOutput());
    OARLOCK_ASSIGN_OR_RETURN(const size_t n,
                             ReadSome(output_, data, size, what_));
    if (n == 0) OARLOCK_RETURN_IF_ERROR(TakeExitStatus());
    return n;
  }

  absl::Status Seek(uint64_t) override {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot seek in ", what_));
  }

 private:
  // Returns when there is something to read, or while_silent_'s error, and has
  // killed the command then.
  absl::Status AwaitOutput() {
    if (while_silent_ == nullptr) return absl::OkStatus();
    const absl::Time start = clock_.Now();
    pollfd output = {.fd = output_.get(), .events = POLLIN, .revents = 0};
    while (poll(&output, 1, absl::ToInt64Milliseconds(kPoll)) == 0) {
      const absl::Status status = while_silent_(clock_.Now() - start);
      if (status.ok()) continue;
      Kill();
      return Annotate(status, what_);
    }
    return absl::OkStatus();
  }

  absl::Status TakeExitStatus() {
    output_.Close();
    const absl::Time deadline = clock_.Now() + kPipeExitWait;
    absl::Duration nap = absl::Microseconds(100);
    int status = 0;
    pid_t result;
    while ((result = WaitForProcess(pid_, &status, WNOHANG)) == 0) {
      if (clock_.Now() > deadline) {
        Kill();
        return absl::FailedPreconditionError(absl::StrCat(
            what_, " closed its output but did not end within ",
            absl::FormatDuration(kPipeExitWait), "; it was killed"));
      }
      clock_.Sleep(nap);
      nap = std::min(2 * nap, absl::Milliseconds(50));
    }
    const int error = errno;
    // Kills children that outlive the shell.
    group_.reset();
    pid_ = -1;
    if (result < 0) {
      return absl::ErrnoToStatus(
          error, absl::StrCat("cannot learn the exit status of ", what_));
    }
    if (WIFSIGNALED(status)) {
      return absl::FailedPreconditionError(absl::StrCat(
          what_, " was ended by signal ", WTERMSIG(status),
          "; it should exit with status 0 when it has written everything"));
    }
    if (WEXITSTATUS(status) != 0) {
      return absl::FailedPreconditionError(
          absl::StrCat(what_, " failed with exit status ", WEXITSTATUS(status),
                       "; its messages are on standard error; try it by hand"));
    }
    return absl::OkStatus();
  }

  void Kill() {
    output_.Close();
    group_.reset();
    if (pid_ < 0) return;
    // The process may have left the group.
    kill(pid_, SIGKILL);
    int status;
    WaitForProcess(pid_, &status, 0);
    pid_ = -1;
  }

  const std::string what_;
  // Null once the process has been waited for.
  std::unique_ptr<GuardedGroup> group_;
  // -1: the process has been waited for.
  pid_t pid_;
  FileDescriptor output_;
  const Clock& clock_;
  const std::function<absl::Status(absl::Duration)> while_silent_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ByteSource>> OpenPipe(
    const std::string& command, const std::string& path, const Clock& clock,
    std::function<absl::Status(absl::Duration)> while_silent) {
  OARLOCK_ASSIGN_OR_RETURN(FileDescriptor input, OpenForReading(path));
  OARLOCK_ASSIGN_OR_RETURN(Pipe output, MakePipe());
  // Starts before the command, so that the command never runs unguarded.
  OARLOCK_ASSIGN_OR_RETURN(std::unique_ptr<GuardedGroup> group,
                           GuardedGroup::Start());
  SpawnActions actions;
  actions.Use(input, STDIN_FILENO);
  actions.Use(output.write_end, STDOUT_FILENO);
  OARLOCK_ASSIGN_OR_RETURN(
      const pid_t pid,
      SpawnProgram({"/bin/sh", "-c", command}, group->number(), actions,
                   absl::StrCat("/bin/sh for pipe_command '", command, "'")));
  return std::make_unique<PipeSource>(
      absl::StrCat("pipe_command '", command, "' on '", path, "'"),
      std::move(group), pid, std::move(output.read_end), clock,
      std::move(while_silent));
}

}  // namespace oarlock::data
