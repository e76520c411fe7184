#include "base/output/patient_output.h"

#include <limits.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>

namespace oarlock {

size_t WriteWhatFits(int fd, std::string_view bytes) {
  size_t done = 0;
  while (done < bytes.size() && AwaitRoom(fd, absl::ZeroDuration())) {
    // A pipe that has room has room for this much.
    const size_t size = std::min<size_t>(bytes.size() - done, PIPE_BUF);
    const ssize_t written = write(fd, bytes.data() + done, size);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno == EAGAIN) break;
    if (written < 0) return bytes.size();
    done += static_cast<size_t>(written);
  }
  return done;
}

bool AwaitRoom(int fd, absl::Duration limit) {
  pollfd room = {.fd = fd, .events = POLLOUT, .revents = 0};
  const int ready =
      poll(&room, 1, static_cast<int>(absl::ToInt64Milliseconds(limit)));
  // An error is the write's to tell.
  return ready > 0;
}

}  // namespace oarlock
