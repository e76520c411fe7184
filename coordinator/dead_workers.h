// The coordinator's record of dead workers, the incarnations that may push no
// more: whether servers fence them, what servers have applied of their pushes,
// and which of them are forgotten.
//
// The states of an incarnation, and the functions that move it:
//
//   alive      (a WorkerRecord)
//     |  Coordinator::Withdraw calls Add: its lease has run out, a newer
//     |  incarnation has registered, it has finished or failed, or a new run
//     |  has begun.
//     v
//   pending    (a Record that is not claimed)
//     |  If it needs ledgers, Describe requests them and RecordLedgers keeps
//     |  them, until the newest generation of every server has sent one.
//     |  Otherwise it waits until all servers in reach of a worker fence it.
//     |  Then Coordinator::RecoverWorkers calls Claim.
//     v
//   claimed    (a Record that is claimed)
//     |  With ledgers, RecoverExamples decides which of its examples are
//     |  covered and which are leased again, and makes push completions.
//     |  Without them, RangeQueue::Reclaim has all of its ranges leased again.
//     |  Then Forget waits until no push of it has to be completed and all
//     |  older incarnations of the same worker are forgotten.
//     v
//   forgotten  (final; an entry of forgotten_)
//        Describe reports it, and servers forget its pushes.
//
// Coordinator::Restore moves all incarnations that are older than a checkpoint
// to `forgotten` at once.

#ifndef OARLOCK_COORDINATOR_DEAD_WORKERS_H_
#define OARLOCK_COORDINATOR_DEAD_WORKERS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/types.h"
#include "proto/state/coordinator_state.pb.h"
#include "proto/v1/coordinator_servers.pb.h"

namespace oarlock::coordinator {

// Not thread-safe: the coordinator guards it.
//
// An incarnation is pending until servers refuse its pushes and, if some of
// these may be partly applied, every server has sent its ledger. Then the
// coordinator claims it, once, and decides what becomes of its examples. It is
// forgotten when it and all older incarnations of its index are claimed and no
// push of theirs has to be completed.
class DeadWorkers {
 public:
  struct Incarnation {
    WorkerIndex worker{0};
    Generation generation{0};
    // Servers that act by this workers version, or a newer one, fence it.
    uint64_t fenced_by = 0;
    // It had leased examples of an epoch and has not finished. What becomes of
    // these depends on what servers have applied.
    bool needs_ledgers = false;
    // All of its pushes were acknowledged. Servers fence it like the others,
    // since a repeated one may still be on its way.
    bool finished = false;
    // It said itself that it takes no more part.
    bool left = false;
  };
  // An incarnation that is claimed.
  struct Claimed {
    Incarnation incarnation;
    // The ledgers of all servers, by index, if it needs them.
    std::vector<v1::WorkerLedger> ledgers;
  };

  void Add(const Incarnation& incarnation);
  // All incarnations of this index up to the generation are forgotten.
  void SetForgotten(WorkerIndex worker, Generation generation);

  // Records a server's ledgers. Ignores a ledger that is not needed, and one
  // that the server sent before it fenced the incarnation.
  void RecordLedgers(const v1::ServerHeartbeatRequest& request);
  // Adds which ledgers this incarnation of the server has to send, and which
  // incarnations are forgotten.
  void Describe(ServerIndex server, uint64_t server_generation,
                v1::ServerHeartbeatResponse* response) const;

  // Claims the oldest incarnation that can be claimed. `known_version`: all
  // servers in reach of a worker act by this workers version or a newer one.
  // `server_generations`: the newest generations, by index. A ledger of an
  // older generation does not count, since that server's successor may have
  // lost pushes.
  std::optional<Claimed> Claim(uint64_t known_version,
                               const std::vector<uint64_t>& server_generations);
  // Forgets every incarnation that can be forgotten. `has_push_completions`
  // returns whether pushes of an incarnation have yet to be completed.
  void Forget(
      const std::function<bool(WorkerIndex, Generation)>& has_push_completions);

  // The newest generation of each worker that may push no more, forgotten or
  // not, by worker index.
  std::map<uint32_t, uint64_t> Newest() const;
  // No incarnation is pending but those that have finished.
  bool AllClaimedOrFinished() const;
  // The pending incarnation that has waited for ledgers the longest; null if
  // there is none.
  const Incarnation* FirstUnrecovered() const;

  void Save(v1::SavedDeadWorkers* state) const;
  // Replaces what is there.
  void Load(const v1::SavedDeadWorkers& state);

 private:
  struct Reported {
    uint64_t server_generation = 0;
    v1::WorkerLedger ledger;
  };
  struct Record {
    Incarnation incarnation;
    bool claimed = false;
    // By index of the server.
    std::map<uint32_t, Reported> ledgers;
  };

  // In the order of their deaths, without those that are forgotten.
  std::vector<Record> records_;
  // By worker index: the newest generation that is forgotten.
  std::map<uint32_t, uint64_t> forgotten_;
};

}  // namespace oarlock::coordinator

#endif  // OARLOCK_COORDINATOR_DEAD_WORKERS_H_
