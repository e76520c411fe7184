#include "worker/data/pipe_source.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/clock.h"
#include "base/status_macros.h"

extern char** environ;

namespace oarlock {
namespace {

// waitpid, again when a signal interrupts it.
pid_t Wait(pid_t pid, int* status, int flags) {
  pid_t result;
  do {
    result = waitpid(pid, status, flags);
  } while (result < 0 && errno == EINTR);
  return result;
}

class PipeSource : public ByteSource {
 public:
  // Takes charge of the process `pid`, the leader of its group.
  PipeSource(std::string what, pid_t pid, FileDescriptor output)
      : what_(std::move(what)), pid_(pid), output_(std::move(output)) {}

  ~PipeSource() override { Kill(); }

  absl::StatusOr<size_t> Read(char* data, size_t size) override {
    if (pid_ < 0) return 0;
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
  absl::Status TakeExitStatus() {
    output_.Close();
    const absl::Time deadline = Clock::Real().Now() + kPipeExitWait;
    absl::Duration nap = absl::Microseconds(100);
    int status = 0;
    pid_t result;
    while ((result = Wait(pid_, &status, WNOHANG)) == 0) {
      if (Clock::Real().Now() > deadline) {
        Kill();
        return absl::FailedPreconditionError(absl::StrCat(
            what_, " closed its output but did not end within ",
            absl::FormatDuration(kPipeExitWait), "; it was killed"));
      }
      absl::SleepFor(nap);
      nap = std::min(2 * nap, absl::Milliseconds(50));
    }
    // The group may hold children that outlive the shell; they go too.
    kill(-pid_, SIGKILL);
    pid_ = -1;
    if (result < 0) {
      return absl::ErrnoToStatus(
          errno, absl::StrCat("cannot learn the exit status of ", what_));
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
    if (pid_ < 0) return;
    kill(-pid_, SIGKILL);
    int status;
    Wait(pid_, &status, 0);
    pid_ = -1;
  }

  const std::string what_;
  // -1: the process has been waited for.
  pid_t pid_;
  FileDescriptor output_;
};

// The attributes of the child: its own group, no blocked signals, and SIGPIPE
// as usual, so that it ends when nobody reads.
class SpawnAttributes {
 public:
  SpawnAttributes() {
    posix_spawnattr_init(&attributes_);
    sigset_t signals;
    sigemptyset(&signals);
    posix_spawnattr_setsigmask(&attributes_, &signals);
    sigaddset(&signals, SIGPIPE);
    posix_spawnattr_setsigdefault(&attributes_, &signals);
    posix_spawnattr_setpgroup(&attributes_, 0);
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETPGROUP |
                                               POSIX_SPAWN_SETSIGDEF |
                                               POSIX_SPAWN_SETSIGMASK);
  }
  ~SpawnAttributes() { posix_spawnattr_destroy(&attributes_); }
  SpawnAttributes(const SpawnAttributes&) = delete;
  SpawnAttributes& operator=(const SpawnAttributes&) = delete;
  const posix_spawnattr_t* get() const { return &attributes_; }

 private:
  posix_spawnattr_t attributes_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ByteSource>> OpenPipe(const std::string& command,
                                                     const std::string& path) {
  OARLOCK_ASSIGN_OR_RETURN(FileDescriptor input, OpenForReading(path));
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    return absl::ErrnoToStatus(errno, "cannot make a pipe");
  }
  FileDescriptor output(ends[0]);
  FileDescriptor command_output(ends[1]);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, input.get(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, command_output.get(),
                                   STDOUT_FILENO);
  const SpawnAttributes attributes;
  std::string words[] = {"sh", "-c", command};
  char* const argv[] = {words[0].data(), words[1].data(), words[2].data(),
                        nullptr};
  pid_t pid = -1;
  const int error =
      posix_spawn(&pid, "/bin/sh", &actions, attributes.get(), argv, environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    return absl::ErrnoToStatus(
        error,
        absl::StrCat("cannot run /bin/sh for pipe_command '", command, "'"));
  }
  return std::make_unique<PipeSource>(
      absl::StrCat("pipe_command '", command, "' on '", path, "'"), pid,
      std::move(output));
}

}  // namespace oarlock
