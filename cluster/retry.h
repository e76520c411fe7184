// When and how a call is made again, and what both ends of a connection agree
// on: backoff, what each status code asks of the caller, channel and server
// arguments.

#ifndef OARLOCK_CLUSTER_RETRY_H_
#define OARLOCK_CLUSTER_RETRY_H_

#include <grpcpp/server_builder.h>
#include <grpcpp/support/channel_arguments.h>
#include <grpcpp/support/status.h>

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/random.h"

namespace oarlock::cluster {

struct RetryOptions {
  // Wait before the first retry. At least 1 ms.
  absl::Duration initial_backoff = absl::Milliseconds(20);
  // Each wait is this many times the one before it. In [1, 10].
  double multiplier = 1.6;
  // No wait is longer, jitter aside. At least initial_backoff.
  absl::Duration max_backoff = absl::Seconds(1);
  // Each wait is scaled by a random factor in [1 - jitter, 1 + jitter), so
  // that clients which failed together do not come back together. In [0, 1).
  double jitter = 0.2;
  // From the first attempt to giving up. Above 0; finite.
  absl::Duration total_deadline = absl::Seconds(60);

  // InvalidArgument names the field, its value and what is legal.
  absl::Status Validate() const;
};

// The waits of one call's retries. Not thread-safe.
class Backoff {
 public:
  // REQUIRES: options.Validate().ok(). The same seed gives the same waits.
  Backoff(const RetryOptions& options, uint64_t seed);

  // How long to wait before the next attempt.
  absl::Duration Next();
  // An attempt succeeded: the next failure starts from initial_backoff.
  void Reset() { next_ = options_.initial_backoff; }

 private:
  const RetryOptions options_;
  RandomSequence random_;
  absl::Duration next_;
};

// What a failed call asks of its caller.
enum class RetryAdvice {
  // Nobody can make it succeed by repeating it. OutOfRange: it is beyond a
  // limit
  // that no waiting moves.
  kNever,
  // The same call, under the same sequence, after a backoff. After
  // DeadlineExceeded only if it is a pull or carries a sequence.
  kSameCall,
  // The same call; and fewer at a time.
  kSameCallSlower,
  // The worker was fenced: drop the ranges in hand, register, take new leases.
  kRegisterAnew,
  // After the cause is fixed: ask for the routing or the server's new
  // generation, then the same call.
  kAfterFix,
};

// REQUIRES: `code` is not OK.
RetryAdvice AdviceFor(absl::StatusCode code);

// The same code and message. But OutOfRange for a message beyond gRPC's limit,
// which gRPC calls ResourceExhausted: it will never fit.
absl::Status FromGrpc(const grpc::Status& status);
grpc::Status ToGrpc(const absl::Status& status);

// Calls to a server that may be back any moment: a few a second cost nothing,
// and the job stands until one is answered.
inline constexpr RetryOptions kAwayRetries = {.max_backoff =
                                                  absl::Milliseconds(250)};

// Reconnects are as quick: gRPC's own default waits a second at first, and two
// minutes later on.
inline constexpr absl::Duration kMinReconnectBackoff = absl::Milliseconds(50);
inline constexpr absl::Duration kMaxReconnectBackoff = absl::Milliseconds(250);
// One attempt to make a connection.
inline constexpr absl::Duration kConnectionTimeout = absl::Seconds(1);
// A connection without traffic is probed this often, and given up when the
// probe is not answered within the timeout: a stopped host sends no reset.
inline constexpr absl::Duration kKeepaliveInterval = absl::Seconds(20);
inline constexpr absl::Duration kKeepaliveTimeout = absl::Seconds(20);

// Arguments of every channel. HTTP/2 is left at gRPC's defaults, which are the
// fastest ones measured.
grpc::ChannelArguments MakeChannelArguments();
// The same for a server: limits, keepalive, and a port belongs to one process.
void ApplyServerArguments(grpc::ServerBuilder* builder);

}  // namespace oarlock::cluster

#endif  // OARLOCK_CLUSTER_RETRY_H_
