// What the coordinator knows of one worker of its job.

#ifndef OARLOCK_COORDINATOR_WORKER_RECORD_H_
#define OARLOCK_COORDINATOR_WORKER_RECORD_H_

#include <cstdint>
#include <deque>
#include <string>

#include "absl/time/time.h"
#include "proto/state/coordinator_state.pb.h"
#include "proto/v1/coordinator_workers.pb.h"

namespace oarlock::coordinator {

struct WorkerRecord {
  // Generation 0: has never registered.
  v1::WorkerState state;
  absl::Time lease_end;
  absl::Time lost_at;
  // Number of the last progress report that was added.
  uint64_t last_report = 0;
  // It has leased examples of an epoch.
  bool had_examples = false;
  // It has called after it was FINISHED: it has heard the response.
  bool knows_it_is_finished = false;
  // Epochs of which its share is trained, whichever incarnation did
  // it.
  uint32_t trained_epochs = 0;
  // Names of the last registrations, the newest last, and the response to that.
  std::deque<uint64_t> registrations;
  v1::RegisterWorkerResponse registered_response;

  bool registered() const { return state.worker_generation() != 0; }
  bool alive() const {
    return registered() && state.life() == v1::WorkerState::ALIVE;
  }
  // "worker 3 (host h, process 12)".
  std::string Name() const;

  // It has the name of an earlier registration.
  bool HasHeard(const v1::RegisterWorkerRequest& request) const;
  void RecordRegistration(const v1::RegisterWorkerRequest& request,
                          const v1::RegisterWorkerResponse& response);

  void Save(v1::WorkerRecordState* saved) const;
  // Takes the place of what is there.
  void Load(const v1::WorkerRecordState& saved);
};

}  // namespace oarlock::coordinator

#endif  // OARLOCK_COORDINATOR_WORKER_RECORD_H_
