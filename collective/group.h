// How a process gets its communicator: the ranks of a job find one another
// through rank 0, which serves the rendezvous in its own process.

#ifndef OARLOCK_COLLECTIVE_GROUP_H_
#define OARLOCK_COLLECTIVE_GROUP_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "cluster/environment.h"
#include "cluster/security.h"
#include "collective/communicator.h"

namespace oarlock::collective {

struct GroupOptions {
  int rank = 0;
  // "host:port" of every rank, in order. The rendezvous listens at the first
  // one; each rank's own connections are bound to its host, any port. May be
  // empty for a group of one.
  std::vector<std::string> endpoints;

  // What all ranks must have in common. A digest is any text, for example of
  // the parameters' names and shapes; see also CheckAllAgree.
  std::string job_id = "default";
  std::string digest;
  // Grows when the whole group is started again: a rank waits for a rank 0 of
  // its own generation and does not meet what is left of an older one.
  uint32_t generation = 0;

  // How long a rank waits for all the others to come. From 100 ms on.
  absl::Duration join_timeout = absl::Minutes(1);
  // How long an operation may take. From 100 ms on.
  absl::Duration operation_timeout = kDefaultOperationTimeout;
  // A rank that sends no heartbeat for so long counts as dead. From 500 ms
  // on; heartbeats are sent eight times as often.
  absl::Duration heartbeat_timeout = absl::Seconds(6);

  // Of the rendezvous. Values themselves travel as plain TCP: beyond loopback
  // use a network that you trust.
  cluster::SecurityOptions security;

  // Timeouts and the pauses between heartbeats are on the monotonic one.
  Clocks clocks;

  // InvalidArgument: one sentence.
  absl::Status Validate() const;
};

// Rank, endpoints, job, OARLOCK_INSECURE and restarts with all others of a
// worker; one rank for a local run.
GroupOptions GroupOptionsOf(const cluster::RoleAssignment& role);

// Joins the group; returns when all ranks have come and are connected. One
// rank: without any network.
//
// InvalidArgument: wrong options, or not those of rank 0 (size, job, digest).
// AlreadyExists: this rank has come already. FailedPrecondition: rank 0 may
// not serve at its endpoint (CheckServable) or cannot bind it, or is of a newer
// generation. Unauthenticated: wrong token. DeadlineExceeded: somebody has
// not come in time; the message says who. Unavailable: a rank died meanwhile.
absl::StatusOr<std::unique_ptr<Communicator>> JoinGroup(
    const GroupOptions& options);

// InvalidArgument on every rank, with the ranks that differ from rank 0, unless
// all give the same `value`. For what is known only after joining: `what` is
// its name in the message, "the model's parameters".
absl::Status CheckAllAgree(Communicator& communicator, absl::string_view what,
                           absl::string_view value);

}  // namespace oarlock::collective

#endif  // OARLOCK_COLLECTIVE_GROUP_H_
