#include "launch/guardian.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <vector>

#include "base/status_macros.h"
#include "launch/after_fork.h"

namespace oarlock::launch {
namespace {

// A message to the guardian. Should that be dead, the children still have their
// death signal.
void Tell(int socket, int32_t message) {
  [[maybe_unused]] const ssize_t sent =
      send(socket, &message, sizeof(message), MSG_NOSIGNAL);
}

// The guardian's whole life. A group's number stands for "guard it", its
// negative for "forget it".
[[noreturn]] void RunGuardian(int socket, int32_t* groups, int capacity) {
  setsid();
  DefaultSignals();
  for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE}) {
    struct sigaction action = {};
    action.sa_handler = SIG_IGN;
    sigaction(signal, &action, nullptr);
  }
  prctl(PR_SET_NAME, "oarlock-guard");
  OpenNull(0, O_RDONLY);
  OpenNull(1, O_WRONLY);
  OpenNull(2, O_WRONLY);
  // Nobody's pipe or socket may stay open because of this process.
  if (socket != 3) {
    dup2(socket, 3);
    socket = 3;
  }
  close_range(4, ~0U, 0);
  int size = 0;
  int32_t message;
  while (ReadFully(socket, &message, sizeof(message))) {
    if (message > 0 && size < capacity) {
      groups[size++] = message;
      continue;
    }
    for (int i = 0; i < size; ++i) {
      if (groups[i] == -message) {
        groups[i] = groups[--size];
        break;
      }
    }
  }
  for (int i = 0; i < size; ++i) kill(-groups[i], SIGKILL);
  _exit(0);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Guardian>> Guardian::Start(int max_groups) {
  std::unique_ptr<Guardian> guardian(new Guardian(max_groups));
  OARLOCK_RETURN_IF_ERROR(guardian->Fork());
  return guardian;
}

absl::Status Guardian::Fork() {
  // A socket, since writing to it can do without SIGPIPE.
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return ErrnoError("socketpair", errno);
  }
  std::vector<int32_t> groups(max_groups_);
  const pid_t pid = fork();
  if (pid == 0) RunGuardian(ends[0], groups.data(), max_groups_);
  const int error = errno;
  close(ends[0]);
  if (pid < 0) {
    close(ends[1]);
    return ErrnoError("starting the guardian process", error);
  }
  pid_ = pid;
  socket_ = ends[1];
  return absl::OkStatus();
}

Guardian::~Guardian() {
  if (socket_ >= 0) close(socket_);
  while (pid_ > 0 && waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void Guardian::TellFromChild(pid_t group) const { Tell(socket_, group); }

void Guardian::Forget(pid_t group) {
  groups_.erase(group);
  Tell(socket_, -group);
}

absl::StatusOr<bool> Guardian::Renew() {
  if (pid_ > 0) {
    const pid_t ended = waitpid(pid_, nullptr, WNOHANG);
    // Somebody else may have waited for it.
    if (ended != pid_ && !(ended < 0 && errno == ECHILD)) return false;
    close(socket_);
    pid_ = socket_ = -1;
  }
  OARLOCK_RETURN_IF_ERROR(Fork());
  for (const pid_t group : groups_) Tell(socket_, group);
  return true;
}

}  // namespace oarlock::launch
