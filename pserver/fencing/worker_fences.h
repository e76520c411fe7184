// One server's view of which incarnations may push. The coordinator decides
// that; its decisions come with the responses to the server's heartbeats.

#ifndef OARLOCK_PSERVER_FENCING_WORKER_FENCES_H_
#define OARLOCK_PSERVER_FENCING_WORKER_FENCES_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "base/types.h"
#include "proto/v1/coordinator_workers.pb.h"

namespace oarlock::pserver {

// Thread-safe; checks take no lock.
//
// Invariants, per worker index:
// 1. `newest` never falls: a generation that was refused as too old stays
//    refused.
// 2. `closed` never falls: a generation that was declared lost, failed or
//    finished stays refused.
class WorkerFences {
 public:
  enum class Start {
    // Pushes are accepted before the first Update, and a generation newer than
    // any known is believed: for parts of a server without a coordinator.
    kOpen,
    // Pushes are Unavailable until then: a server that was restarted must not
    // accept what was fenced while it was away. So are those of generations of
    // which the coordinator has not told.
    kAfterFirstUpdate,
  };
  // For a job of `num_workers` workers.
  explicit WorkerFences(uint32_t num_workers, Start start = Start::kOpen);

  // OK when `generation` of `worker` may push. Aborted when it is fenced or
  // closed; InvalidArgument for an index beyond the job or generation 0 (a
  // reader). With kAfterFirstUpdate Unavailable before the first update, and
  // for a generation newer than any known; with kOpen that one is accepted and
  // fences the older ones from then on.
  absl::Status CheckPush(WorkerIndex worker, Generation generation) const;

  // Called, from any thread, when CheckPush meets a generation that is not
  // known yet. To be set before the first call.
  void SetUnknownObserver(std::function<void()> observer) {
    unknown_observer_ = std::move(observer);
  }

  // Whether CheckPush refuses this incarnation from now on: a newer one is
  // known, or it was declared lost, failed or finished. False for an index
  // beyond the job and generation 0.
  bool IsFenced(WorkerIndex worker, Generation generation) const;

  // Takes the states that the coordinator reports; those of unknown workers are
  // ignored.
  void Update(
      const google::protobuf::RepeatedPtrField<v1::WorkerState>& states);

  uint32_t num_workers() const { return num_workers_; }

 private:
  struct WorkerFence {
    // The newest generation seen, and the newest that may no longer push.
    std::atomic<uint64_t> newest{0};
    std::atomic<uint64_t> closed{0};
    // v1::WorkerState::Life of `closed`, for the message.
    std::atomic<int> closed_life{0};
  };

  const uint32_t num_workers_;
  const std::unique_ptr<WorkerFence[]> workers_;
  const bool believes_pushes_;
  std::function<void()> unknown_observer_ = [] {};
  std::atomic<bool> open_;
};

}  // namespace oarlock::pserver

#endif  // OARLOCK_PSERVER_FENCING_WORKER_FENCES_H_
