// What the coordinator knows of the servers of its job.

#ifndef OARLOCK_COORDINATOR_SERVER_RECORDS_H_
#define OARLOCK_COORDINATOR_SERVER_RECORDS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/types.h"
#include "proto/state/coordinator_state.pb.h"
#include "proto/v1/coordinator_servers.pb.h"

namespace oarlock::coordinator {

// Not thread-safe: the coordinator guards it.
class ServerRecords {
 public:
  // A server that is silent for `lease` is taken for dead.
  ServerRecords(uint32_t num_servers, absl::Duration lease);

  // A heartbeat. InvalidArgument for a server that is not of the job, Aborted
  // for an incarnation that was replaced.
  absl::Status RecordHeartbeat(const v1::ServerHeartbeatRequest& request,
                               absl::Time now);
  // It has said that it knows that the job is over.
  void RecordKnowsItIsOver(ServerIndex server);
  // None has been heard of.
  void Forget() { servers_.assign(servers_.size(), Record()); }
  // Time that counts on nobody's lease.
  void Extend(absl::Duration gap);

  uint32_t size() const { return servers_.size(); }
  uint32_t NumAlive(absl::Time now) const;
  // The newest of each server, by index; 0: has never been heard of.
  std::vector<uint64_t> generations() const;
  // Every server acts by this workers version or a newer one, but for those
  // that left or fell silent, which are out of every worker's reach. One that
  // was never heard of may come up and knows nothing yet: 0.
  uint64_t KnownWorkersVersion(uint64_t newest, absl::Time now) const;
  // Up to this logical time all servers that have not left have evicted what
  // was due; 0 while one was never heard of.
  uint32_t EvictedTime() const;
  // Every server but `self` that is alive knows that the job is over.
  bool OthersKnowItIsOver(ServerIndex self, absl::Time now) const;

  // One entry for each server.
  void Save(
      google::protobuf::RepeatedPtrField<v1::ServerRecordState>* state) const;
  // Takes the place of what is there. REQUIRES: an entry for each server.
  void Load(
      const google::protobuf::RepeatedPtrField<v1::ServerRecordState>& state);

 private:
  struct Record {
    // 0: has never been heard of.
    uint64_t generation = 0;
    absl::Time last_heard;
    uint64_t workers_version = 0;
    bool knows_it_is_over = false;
    // It said that it goes.
    bool left = false;
    uint32_t evicted_time = 0;
  };
  bool Alive(const Record& server, absl::Time now) const;

  const absl::Duration lease_;
  std::vector<Record> servers_;
};

}  // namespace oarlock::coordinator

#endif  // OARLOCK_COORDINATOR_SERVER_RECORDS_H_
