#include "launch/after_fork.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace oarlock::launch {

absl::Status ErrnoError(absl::string_view what, int error) {
  return absl::UnavailableError(
      absl::StrCat(what, " failed: ", std::strerror(error)));
}

bool ReadFully(int fd, void* data, size_t size) {
  char* at = static_cast<char*>(data);
  while (size > 0) {
    const ssize_t got = read(fd, at, size);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    at += got;
    size -= got;
  }
  return true;
}

void DefaultSignals() {
  for (int signal = 1; signal < NSIG; ++signal) {
    struct sigaction action = {};
    action.sa_handler = SIG_DFL;
    sigaction(signal, &action, nullptr);
  }
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

void OpenNull(int fd, int flags) {
  const int null = open("/dev/null", flags);
  if (null >= 0 && null != fd) dup2(null, fd);
}

}  // namespace oarlock::launch
