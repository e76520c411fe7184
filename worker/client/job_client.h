// What a worker asks of the coordinator: its place in the job, work, barriers,
// and somebody to report to.

#ifndef OARLOCK_WORKER_CLIENT_JOB_CLIENT_H_
#define OARLOCK_WORKER_CLIENT_JOB_CLIENT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/types.h"
#include "proto/admin.pb.h"
#include "worker/data/work_source.h"

namespace oarlock {

struct Leases {
  std::vector<WorkItem> items;
  // Nothing is left, and nothing will come back.
  bool exhausted = false;
};

// Thread-safe. Calls block; they retry while a server is away, up to the
// client's time limit.
class JobClient {
 public:
  // Returns what happened since it was called last; called by the heartbeat.
  using ProgressSource =
      absl::AnyInvocable<std::vector<v1::PhaseProgress>()>;

  virtual ~JobClient() = default;

  virtual WorkerIndex worker_index() const = 0;
  virtual uint32_t num_workers() const = 0;

  // Reports are collected from `source` from now on until Finish.
  virtual void SetProgressSource(ProgressSource source) = 0;
  // Collects and sends a report now, so that a status asked for next has it.
  virtual absl::Status Report() = 0;

  // Returns when all live workers have called it with this name. Aborted when
  // this worker was fenced.
  virtual absl::Status Barrier(const std::string& name) = 0;

  // Sync: takes part in every round from the next one on. Returns the number
  // of complete rounds (the same on all servers once all workers have joined).
  virtual absl::StatusOr<uint64_t> JoinRounds() = 0;
  virtual absl::Status LeaveRounds() = 0;

  virtual absl::Status DefineWork(const std::string& work,
                                  const std::vector<WorkItem>& items,
                                  uint64_t num_examples) = 0;
  // Empty and not exhausted: ask again soon.
  virtual absl::StatusOr<Leases> LeaseWork(
      const std::string& work, uint32_t max_items,
      const std::vector<uint64_t>& done_leases) = 0;

  virtual absl::StatusOr<v1::JobStatusResponse> GetJobStatus() = 0;

  // Not OK once the coordinator has fenced this worker or the job is ending:
  // training stops at the next batch.
  virtual absl::Status Alive() const = 0;

  // Ends this worker's part in the job. `outcome` not OK: it gives up.
  virtual absl::Status Finish(const absl::Status& outcome) = 0;
};

}  // namespace oarlock

#endif  // OARLOCK_WORKER_CLIENT_JOB_CLIENT_H_
