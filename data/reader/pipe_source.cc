#include "data/reader/pipe_source.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

extern char** environ;

namespace oarlock::data {
namespace {

// Between two looks at a command that writes nothing.
constexpr absl::Duration kPoll = absl::Milliseconds(100);

// Calls waitpid, again when a signal interrupts it.
pid_t Wait(pid_t pid, int* status, int flags) {
  pid_t result;
  do {
    result = waitpid(pid, status, flags);
  } while (result < 0 && errno == EINTR);
  return result;
}

// A pipe. A started program inherits an end only through SpawnActions.
struct Pipe {
  FileDescriptor read_end;
  FileDescriptor write_end;
};

absl::StatusOr<Pipe> MakePipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    return absl::ErrnoToStatus(errno, "cannot make a pipe");
  }
  return Pipe{FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

// How a child process starts. It joins the process group `group`, or leads a
// new group where `group` is 0. No signal is blocked. SIGPIPE has its default
// action, so the child ends when its output is closed.
class SpawnAttributes {
 public:
  explicit SpawnAttributes(pid_t group) {
    posix_spawnattr_init(&attributes_);
    sigset_t signals;
    sigemptyset(&signals);
    posix_spawnattr_setsigmask(&attributes_, &signals);
    sigaddset(&signals, SIGPIPE);
    posix_spawnattr_setsigdefault(&attributes_, &signals);
    posix_spawnattr_setpgroup(&attributes_, group);
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

// Sets the standard streams of a child process.
class SpawnActions {
 public:
  SpawnActions() { posix_spawn_file_actions_init(&actions_); }
  ~SpawnActions() { posix_spawn_file_actions_destroy(&actions_); }
  SpawnActions(const SpawnActions&) = delete;
  SpawnActions& operator=(const SpawnActions&) = delete;

  void Use(const FileDescriptor& fd, int stream) {
    posix_spawn_file_actions_adddup2(&actions_, fd.get(), stream);
  }
  void Discard(int stream) {
    posix_spawn_file_actions_addopen(&actions_, stream, "/dev/null", O_WRONLY,
                                     0);
  }
  const posix_spawn_file_actions_t* get() const { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_;
};

// Runs `sh -c command` and returns its process id.
absl::StatusOr<pid_t> SpawnShell(const std::string& command, pid_t group,
                                 const SpawnActions& actions) {
  const SpawnAttributes attributes(group);
  std::string words[] = {"sh", "-c", command};
  char* const argv[] = {words[0].data(), words[1].data(), words[2].data(),
                        nullptr};
  pid_t pid = -1;
  const int error = posix_spawn(&pid, "/bin/sh", actions.get(),
                                attributes.get(), argv, environ);
  if (error != 0) {
    return absl::ErrnoToStatus(
        error,
        absl::StrCat("cannot run /bin/sh for pipe_command '", command, "'"));
  }
  return pid;
}

// A shell that waits until its standard input ends and then kills its process
// group, including itself. It ignores signals that other processes send to the
// group before.
constexpr char kGuard[] =
    "trap '' HUP INT QUIT TERM; read -r nothing; kill -s KILL 0";

// A process group that is killed when this object is destroyed or this process
// dies, by any cause. A process killed by SIGKILL cannot end its commands
// itself, and a command that waits and never writes would not end by itself. A
// process that leaves the group (setsid) is not killed.
//
// The leader of the group is a shell that reads from a pipe. Only this object
// has the other end, and nothing is written to it. (PR_SET_PDEATHSIG is not
// sufficient: the signal is sent when the thread that started the command ends.
// It reaches the command's shell but not the children of that shell.)
class GuardedGroup {
 public:
  static absl::StatusOr<std::unique_ptr<GuardedGroup>> Start() {
    OARLOCK_ASSIGN_OR_RETURN(Pipe alive, MakePipe());
    SpawnActions actions;
    actions.Use(alive.read_end, STDIN_FILENO);
    actions.Discard(STDOUT_FILENO);
    actions.Discard(STDERR_FILENO);
    OARLOCK_ASSIGN_OR_RETURN(const pid_t leader,
                             SpawnShell(kGuard, /*group=*/0, actions));
    return std::make_unique<GuardedGroup>(leader, std::move(alive.write_end));
  }

  // Takes ownership of the process `leader`, which reads from the other end of
  // `alive`.
  GuardedGroup(pid_t leader, FileDescriptor alive)
      : leader_(leader), alive_(std::move(alive)) {}
  ~GuardedGroup() {
    // waitpid was not called for the leader, so the number still belongs to the
    // group.
    kill(-leader_, SIGKILL);
    int status;
    Wait(leader_, &status, 0);
  }
  GuardedGroup(const GuardedGroup&) = delete;
  GuardedGroup& operator=(const GuardedGroup&) = delete;

  // The number of the group, for setpgid.
  pid_t number() const { return leader_; }

 private:
  const pid_t leader_;
  const FileDescriptor alive_;
};

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
    while ((result = Wait(pid_, &status, WNOHANG)) == 0) {
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
    Wait(pid_, &status, 0);
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
  OARLOCK_ASSIGN_OR_RETURN(const pid_t pid,
                           SpawnShell(command, group->number(), actions));
  return std::make_unique<PipeSource>(
      absl::StrCat("pipe_command '", command, "' on '", path, "'"),
      std::move(group), pid, std::move(output.read_end), clock,
      std::move(while_silent));
}

}  // namespace oarlock::data
