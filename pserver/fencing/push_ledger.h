// Who has pushed what to this server: for each worker incarnation the pushes
// that are under way here and those that are applied. When a worker is dead the
// coordinator asks for its ledger, and so learns which examples' gradients are
// where (docs/design/0010-deaths-of-workers-and-coordinator.md).
//
// Async pushes only: rounds have no ledger.

#ifndef OARLOCK_PSERVER_FENCING_PUSH_LEDGER_H_
#define OARLOCK_PSERVER_FENCING_PUSH_LEDGER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "base/types.h"
#include "proto/v1/coordinator_servers.pb.h"
#include "proto/v1/parameter.pb.h"
#include "pserver/fencing/ledger_records.h"
#include "pserver/fencing/worker_fences.h"

namespace oarlock::pserver {

// Thread-safe: a lock per worker, taken twice for each message of a push.
//
// Invariants:
// 1. A push is under way here before its right to push is looked at, and
//    Collect looks at the right before it looks for what is under way. So
//    either Collect sees the push, or the push sees the fence.
// 2. What is forgotten stays so, and nothing of it is under way once Forget has
//    returned true: a late message could otherwise be applied to tables that
//    have forgotten that they had it.
class PushLedger {
 private:
  struct Incarnation;
  struct WorkerEntry;

 public:
  // One message of a push, under way from when it is admitted until it is told
  // what became of it or destroyed: not applied at all. A default one is under
  // way nowhere. Must not outlive the ledger.
  class Message {
   public:
    Message() = default;
    Message(Message&& other)
        : entry_(std::exchange(other.entry_, nullptr)),
          incarnation_(other.incarnation_),
          completes_(other.completes_),
          header_(std::move(other.header_)) {}
    Message& operator=(Message&&) = delete;
    ~Message() { Drop(); }

    // It is not applied at all.
    void Drop() { End({}); }

    // Before its sender is answered.
    void Applied() { End(LedgerRecords::Outcome::kApplied); }
    // It failed, and groups of it may have been applied.
    void Partial() { End(LedgerRecords::Outcome::kPartial); }

   private:
    friend class PushLedger;

    // Records nothing without an outcome.
    void End(std::optional<LedgerRecords::Outcome> outcome) {
      if (entry_ != nullptr) EndUnderWay(outcome);
    }
    void EndUnderWay(std::optional<LedgerRecords::Outcome> outcome);

    WorkerEntry* entry_ = nullptr;  // null: under way nowhere
    Incarnation* incarnation_ = nullptr;
    bool completes_ = false;
    PushMessageHeader header_;
  };

  // `fences` outlives this.
  explicit PushLedger(const WorkerFences* fences);
  ~PushLedger();

  // Whether the push of this header may be applied; if so `message`, a default
  // one, is under way, with the examples of the header, which are gone there. A
  // push that completes one of another incarnation is in no ledger. Errors as
  // WorkerFences::CheckPush for whoever sends it; of a completion also
  // InvalidArgument when the worker that it names is none, FailedPrecondition
  // when the incarnation that it names may still push; Aborted when that one is
  // forgotten.
  absl::Status Admit(v1::RequestHeader* header, Message* message);
  // The same for a push that was admitted before the server was restarted.
  void Readmit(v1::RequestHeader* header, Message* message);

  // What is applied here of the pushes of an incarnation, since this server's
  // start (what was replayed included). Nothing while it may push here or a
  // push of it is under way, and when it is forgotten.
  std::optional<v1::WorkerLedger> Collect(WorkerIndex worker,
                                          Generation generation) const;

  // Forgets all incarnations of the worker up to `last`; from now on they are
  // completed by nobody. False while a message of one, or one that completes
  // one, is under way: call again. Idempotent.
  bool Forget(WorkerIndex worker, Generation last);

 private:
  // Guarded by its worker's lock; stays where it is while a message is under
  // way.
  struct Incarnation {
    Generation generation;
    // Under way.
    uint32_t num_pushes = 0;
    uint32_t num_completions = 0;
    // Null until there is something in it.
    std::unique_ptr<LedgerRecords> records;

    bool idle() const { return num_pushes == 0 && num_completions == 0; }
  };
  struct alignas(64) WorkerEntry {
    mutable absl::Mutex mutex;
    // Ascending by generation. The last one is nearly always meant.
    std::vector<std::unique_ptr<Incarnation>> incarnations
        ABSL_GUARDED_BY(mutex);
    // The newest that is forgotten; 0: none.
    Generation forgotten ABSL_GUARDED_BY(mutex);
  };

  // Whether the job has the worker and `generation` is that of one.
  bool Knows(WorkerIndex worker, Generation generation) const {
    return worker.value() < fences_->num_workers() && generation.value() != 0;
  }
  absl::Status AdmitCompletion(v1::RequestHeader* header, Message* message);
  // The message that the header describes is under way from now on. Aborted
  // when its incarnation is forgotten. REQUIRES: Knows(that incarnation).
  absl::Status Begin(v1::RequestHeader* header, Message* message);

  const WorkerFences* const fences_;
  // By worker.
  const std::unique_ptr<WorkerEntry[]> workers_;
};

}  // namespace oarlock::pserver

#endif  // OARLOCK_PSERVER_FENCING_PUSH_LEDGER_H_
