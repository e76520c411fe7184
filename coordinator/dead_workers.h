// What the coordinator knows of worker incarnations that may push no more:
// whether servers refuse them, what servers have applied of their pushes, and
// which of them nobody will ever hear of again.

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
// An incarnation is pending until servers refuse its pushes and, if some may be
// partly applied, every server has given its ledger; then it is claimed, once,
// by whoever decides what becomes of its examples. It is forgotten when it and
// all older ones of its index are claimed and nobody has to complete a push of
// theirs.
class DeadWorkers {
 public:
  struct Incarnation {
    WorkerIndex worker{0};
    Generation generation{0};
    // Servers that act by this workers version refuse it.
    uint64_t fenced_by = 0;
    // It had examples to train and has not said that it is done with them:
    // what becomes of them depends on what servers have applied.
    bool needs_ledgers = false;
  };
  // One that is claimed.
  struct Claimed {
    Incarnation incarnation;
    // Of all servers by index, if it needs them.
    std::vector<v1::WorkerLedger> ledgers;
  };

  void Add(const Incarnation& incarnation);
  // All incarnations of this index up to the generation are forgotten.
  void SetForgotten(WorkerIndex worker, Generation generation);

  // A server's ledgers. Those that nobody has asked for, or that it gave
  // before it refused the incarnation's pushes, are not looked at.
  void RecordLedgers(const v1::ServerHeartbeatRequest& request);
  // Which ledgers are wanted of this incarnation of a server; who is forgotten.
  void Describe(ServerIndex server, uint64_t server_generation,
                v1::ServerHeartbeatResponse* response) const;

  // The oldest one that can be claimed. `known_version`: by which all servers
  // act that are in a worker's reach. `server_generations`: the newest, by
  // index; a ledger of an older one does not count, its successor may know
  // less.
  std::optional<Claimed> Claim(uint64_t known_version,
                               const std::vector<uint64_t>& server_generations);
  // Forgets whom it can. `has_push_completions` says whether pushes of an
  // incarnation are to be completed.
  void Forget(
      const std::function<bool(WorkerIndex, Generation)>& has_push_completions);

  // Of those that may push no more, forgotten or not, by worker index.
  std::map<uint32_t, uint64_t> Newest() const;
  // The pending one whose ledgers are waited for the longest; null: none.
  const Incarnation* FirstUnrecovered() const;

  void Save(v1::SavedDeadWorkers* state) const;
  // Takes the place of what is there.
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

  // In the order of their deaths; without those that are forgotten.
  std::vector<Record> records_;
  // By worker index.
  std::map<uint32_t, uint64_t> forgotten_;
};

}  // namespace oarlock::coordinator

#endif  // OARLOCK_COORDINATOR_DEAD_WORKERS_H_
