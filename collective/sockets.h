// TCP sockets of the ranks' own connections: bound to one host, never waiting
// beyond a deadline, and not after the group has failed.

#ifndef OARLOCK_COLLECTIVE_SOCKETS_H_
#define OARLOCK_COLLECTIVE_SOCKETS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/clock.h"

namespace oarlock::collective {

// Owns a file descriptor; -1: none.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Socket();
  int fd() const { return fd_; }

 private:
  int fd_ = -1;
};

// Waits until `fd` has one of `events` (poll's). Cancelled: `wake_fd` has
// become readable; DeadlineExceeded: `clock` shows `deadline`. The kernel,
// which has a clock of its own, is asked again when the time that is left at
// the call has gone by there.
absl::Status AwaitSocket(const Clock& clock, int fd, short events, int wake_fd,
                         absl::Time deadline);

// What a connection begins with: who it is from and what for, and that it is
// of this group.
struct Handshake {
  // Of kSecretBytes.
  std::string secret;
  uint32_t communicator = 0;
  uint32_t from_rank = 0;
};
inline constexpr size_t kSecretBytes = 32;

// A connection to `address` ("host:port") that has sent its handshake.
// Unavailable: refused or unreachable; Cancelled, DeadlineExceeded.
absl::StatusOr<Socket> ConnectTo(const Clock& clock, const std::string& address,
                                 const Handshake& handshake, int wake_fd,
                                 absl::Time deadline);

// Where the connections of a rank's group come in. Thread-safe; a thread of its
// own takes them. One without the group's handshake is dropped.
class RingAcceptor {
 public:
  // Listens on `host`, any port. FailedPrecondition: not an address of this
  // machine. `clock` outlives it.
  static absl::StatusOr<std::unique_ptr<RingAcceptor>> Open(
      const std::string& host, const Clock& clock);
  ~RingAcceptor();

  RingAcceptor(const RingAcceptor&) = delete;
  RingAcceptor& operator=(const RingAcceptor&) = delete;

  // "host:port".
  const std::string& address() const { return address_; }

  // Who comes earlier waits in the listener's queue.
  void Start(const std::string& secret);

  // The connection with this handshake's content. Errors as AwaitSocket.
  absl::StatusOr<Socket> Await(uint32_t communicator, uint32_t from_rank,
                               int wake_fd, absl::Time deadline);

 private:
  RingAcceptor(const Clock& clock, Socket listener, Socket closing,
               std::string address)
      : clock_(clock),
        listener_(std::move(listener)),
        closing_(std::move(closing)),
        address_(std::move(address)) {}
  // A connection whose handshake has not come.
  struct Arrival;

  void Run();
  // Takes what has come of the handshake; true: it is done with, let in or
  // dropped.
  bool Receive(Arrival* arrival);

  const Clock& clock_;
  const Socket listener_;
  // An eventfd.
  const Socket closing_;
  const std::string address_;
  // Constant after Start.
  std::string secret_;
  std::thread thread_;

  absl::Mutex mutex_;
  // By communicator and rank.
  std::map<std::pair<uint32_t, uint32_t>, Socket> waiting_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace oarlock::collective

#endif  // OARLOCK_COLLECTIVE_SOCKETS_H_
