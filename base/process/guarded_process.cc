#include "base/process/guarded_process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

extern char** environ;

namespace oarlock {
namespace {

// How a child process starts.
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

// A shell that waits until its standard input ends and then kills its process
// group, including itself. It ignores signals that other processes send to the
// group before.
constexpr char kGuard[] =
    "trap '' HUP INT QUIT TERM; read -r nothing; kill -s KILL 0";

}  // namespace

absl::StatusOr<Pipe> MakePipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    return absl::ErrnoToStatus(errno, "cannot make a pipe");
  }
  return Pipe{FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

pid_t WaitForProcess(pid_t pid, int* status, int flags) {
  pid_t result;
  do {
    result = waitpid(pid, status, flags);
  } while (result < 0 && errno == EINTR);
  return result;
}

void SpawnActions::Discard(int stream) {
  posix_spawn_file_actions_addopen(&actions_, stream, "/dev/null", O_WRONLY, 0);
}

absl::StatusOr<pid_t> SpawnProgram(const std::vector<std::string>& words,
                                   pid_t group, const SpawnActions& actions,
                                   const std::string& what,
                                   const std::vector<std::string>& variables) {
  const SpawnAttributes attributes(group);
  std::vector<char*> argv;
  for (const std::string& word : words) {
    argv.push_back(const_cast<char*>(word.c_str()));
  }
  argv.push_back(nullptr);
  std::vector<char*> environment;
  for (const std::string& variable : variables) {
    environment.push_back(const_cast<char*>(variable.c_str()));
  }
  for (char** each = environ; *each != nullptr; ++each) {
    const bool is_replaced = std::any_of(
        variables.begin(), variables.end(), [&](const std::string& variable) {
          return absl::StartsWith(*each,
                                  variable.substr(0, variable.find('=') + 1));
        });
    if (!is_replaced) environment.push_back(*each);
  }
  environment.push_back(nullptr);
  pid_t pid = -1;
  const int error = posix_spawnp(&pid, argv[0], actions.get(), attributes.get(),
                                 argv.data(), environment.data());
  if (error != 0) {
    return absl::ErrnoToStatus(error, absl::StrCat("cannot run ", what));
  }
  return pid;
}

absl::StatusOr<std::unique_ptr<GuardedGroup>> GuardedGroup::Start() {
  OARLOCK_ASSIGN_OR_RETURN(Pipe alive, MakePipe());
  SpawnActions actions;
  actions.Use(alive.read_end, STDIN_FILENO);
  actions.Discard(STDOUT_FILENO);
  actions.Discard(STDERR_FILENO);
  OARLOCK_ASSIGN_OR_RETURN(
      const pid_t leader,
      SpawnProgram({"/bin/sh", "-c", kGuard}, /*group=*/0, actions,
                   "/bin/sh, which guards child processes"));
  return std::make_unique<GuardedGroup>(leader, std::move(alive.write_end));
}

GuardedGroup::~GuardedGroup() {
  // waitpid was not called for the leader, so the number still belongs to the
  // group.
  kill(-leader_, SIGKILL);
  int status;
  WaitForProcess(leader_, &status, 0);
}

}  // namespace oarlock
