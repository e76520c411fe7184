// Calls of a coordinator as data: made at random, done, and what came of them.
// For tests that give the same calls to several coordinators.

#ifndef OARLOCK_TESTS_COORDINATOR_COORDINATOR_CALLS_H_
#define OARLOCK_TESTS_COORDINATOR_COORDINATOR_CALLS_H_

#include <cstdint>
#include <map>
#include <string>

#include "base/random.h"
#include "coordinator/coordinator.h"
#include "proto/state/coordinator_state.pb.h"
#include "proto/v1/coordinator_ranges.pb.h"
#include "proto/v1/coordinator_servers.pb.h"
#include "proto/v1/coordinator_workers.pb.h"

namespace oarlock::coordinator {

// Makes the call: the bytes of the response or the text of the status, so what
// the caller is told. Empty for calls that tell nothing, and for a barrier call
// that may wait: whoever waits asks again. A call of no known kind checks
// deadlines.
std::string Apply(const v1::CoordinatorCall& call, Coordinator* to);

// What it tells whoever asks without changing anything, but for the time that
// its process has run.
std::string Described(const Coordinator& coordinator);

// Calls as workers, servers and checkpoints of one job make them, and, now and
// then, wrong ones: of an index beyond the job, of an older generation, with a
// lease that nobody has, of a cut that is not open. The same seed and states
// give the same calls. Not thread-safe.
class RandomCalls {
 public:
  static constexpr uint32_t kNumWorkers = 4;
  static constexpr uint32_t kNumServers = 2;

  // Of the coordinators that the calls are for. Leases last 10 s; a worker that
  // is lost has 10 min to come back.
  static CoordinatorOptions Options();

  explicit RandomCalls(uint64_t seed) : random_(seed) {}

  // One that somebody may make of a coordinator in this state, saved from one
  // with Options().
  v1::CoordinatorCall Next(const v1::CoordinatorState& state);

  // From the same sequence: a number in [0, bound). REQUIRES: bound > 0.
  uint64_t Below(uint64_t bound) { return random_.Below(bound); }

 private:
  // Mostly the newest incarnation of a worker.
  template <typename Request>
  void Name(const v1::CoordinatorState& state, Request* request);
  std::string PhaseName();
  void Heartbeat(const v1::CoordinatorState& state,
                 v1::HeartbeatRequest* request);
  // Says, often, what the server has of workers that died.
  void ServerHeartbeat(const v1::CoordinatorState& state,
                       v1::ServerHeartbeatRequest* request);
  void DefinePhase(v1::DefinePhaseRequest* request);
  void LeaseRanges(const v1::CoordinatorState& state,
                   v1::LeaseRangesRequest* request);
  void MarkCut(const v1::CoordinatorState& state, v1::MarkCutRequest* request);
  // An evaluation, a stop, an epoch that begins, or an online file.
  void Training(const v1::CoordinatorState& state, v1::CoordinatorCall* call);

  RandomSequence random_;
  // By generation.
  std::map<uint64_t, uint64_t> last_request_;
};

}  // namespace oarlock::coordinator

#endif  // OARLOCK_TESTS_COORDINATOR_COORDINATOR_CALLS_H_
