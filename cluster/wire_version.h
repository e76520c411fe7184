// What both ends of a connection must agree on before anything else.

#ifndef OARLOCK_CLUSTER_WIRE_VERSION_H_
#define OARLOCK_CLUSTER_WIRE_VERSION_H_

#include <cstdint>
#include <string_view>

#include "base/mix.h"
#include "base/types.h"

namespace oarlock::cluster {

// Version of docs/wire_protocol.md that this program speaks.
inline constexpr uint32_t kProtocolVersion = 2;

// The data plane's short form of a job id: XXH64 of its bytes, seed 0.
inline uint64_t JobHash(std::string_view job_id) {
  return static_cast<uint64_t>(FeatureHash(job_id, 0, 0));
}

// Beginning of the message of the Unavailable status that a barrier call gets
// when it was held open for as long as it asked and not all workers have come.
inline constexpr char kBarrierNotYet[] = "not yet";

// Ending of the name of the barrier at which who trains the epoch "train/N"
// meets the others as a member of its rounds, or steps, before the first of
// them.
inline constexpr char kMembersBarrier[] = "/members";

// Ending of the name of the barrier at which those meet whose share of the
// epoch "train/N" is trained.
inline constexpr char kTrainedBarrier[] = "/trained";

// DefinePhaseRequest.data_order of programs that lease examples by their
// numbers, whose data the job does not know.
inline constexpr char kNumbersAlone[] = "examples by number alone";

// A worker numbers no call that leases ranges this much or more above its
// oldest unanswered one, so that the coordinator needs to remember no more
// responses.
inline constexpr uint64_t kMaxLeaseCallSpan = 16;

// Beginning of the message of the FailedPrecondition status that a request gets
// when it names another incarnation of the server than the one that answers:
// connect anew and send it again.
inline constexpr char kOtherGeneration[] = "other generation";

}  // namespace oarlock::cluster

#endif  // OARLOCK_CLUSTER_WIRE_VERSION_H_
