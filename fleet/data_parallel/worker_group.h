// The workers that train one dense network on different examples: a worker that
// is alone, the ranks of a collective job, or the workers of a job with
// parameter servers, in sync mode. Which of them it is follows from the
// process's role (join_workers.h); a training program is the same for all.

#ifndef OARLOCK_FLEET_DATA_PARALLEL_WORKER_GROUP_H_
#define OARLOCK_FLEET_DATA_PARALLEL_WORKER_GROUP_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/class_scores.h"
#include "base/clock.h"
#include "fleet/data_parallel/gradient_exchange.h"
#include "nn/math_backend.h"
#include "proto/v1/table.pb.h"

namespace oarlock {

// After PaddlePaddle's fleet.DistributedStrategy.
struct DistributedStrategy {
  // What gradients are between ranks: "float32", "bfloat16", "float16".
  std::string gradient_format = "float32";
  // A collective sum begins when this many bytes of gradients are final, while
  // backward still runs.
  size_t bucket_bytes = 1 << 20;
  // What carries sums between ranks: "nccl", between their GPUs; "tcp", between
  // the hosts; "auto": NCCL where every rank has it and a GPU of its own, else
  // TCP (sum_communicator.h).
  std::string collective_backend = "auto";
  // Steps whose gradients are summed before an update; at least 1.
  uint32_t accumulate_steps = 1;
  // Of the group and of its models; they outlive both.
  Clocks clocks = {};
};

// One thread at a time.
class WorkerGroup {
 public:
  virtual ~WorkerGroup() = default;

  const DistributedStrategy& strategy() const { return strategy_; }

  virtual uint32_t rank() const = 0;
  virtual uint32_t size() const = 0;
  // "alone", "rank 1 of 2, collective", "worker 1 of 2 of 2 parameter servers,
  // sync".
  virtual std::string Describe() const = 0;

  // Whether each worker keeps the parameters and updates them itself: then they
  // can stay in the memory of the device that computes. Servers send theirs.
  virtual bool keeps_parameters() const = 0;

  // For a network whose parameters are those of `table` (a dense one): they
  // begin as its initializers say and are updated by its optimizer. With
  // `backend` parameters and gradients lie in its memory: it has a
  // compute_device, outlives the exchange and is used by the same thread.
  // REQUIRES: null unless keeps_parameters().
  virtual absl::StatusOr<std::unique_ptr<GradientExchange>> NewExchange(
      const v1::TableConfig& table, nn::MathBackend* backend) = 0;

  // Sums over all workers, of which each calls it once for a phase ("train",
  // "test") and an epoch.
  virtual absl::StatusOr<ClassScores> Sum(const std::string& phase,
                                          uint32_t epoch,
                                          const ClassScores& mine) = 0;

  // Makes `bytes` of all workers those of rank 0. Unimplemented with parameter
  // servers, which carry nothing but gradients and parameters.
  virtual absl::Status Broadcast(std::string* bytes) = 0;
  // Whether there is Broadcast: then what a worker has beside the parameters
  // can be rank 0's everywhere.
  virtual bool can_broadcast() const = 0;

  // Of a job with parameter servers that goes on from their checkpoint: epochs
  // that were over then. 0 where workers keep the parameters.
  virtual uint32_t trained_epochs() const { return 0; }
  // Has the servers make a checkpoint of what all workers have done; all call
  // it, between two epochs. FailedPrecondition unless makes_checkpoints().
  virtual absl::Status Checkpoint() = 0;
  // Whether the job has servers that make checkpoints.
  virtual bool makes_checkpoints() const = 0;

  // Returns when all workers are here.
  virtual absl::Status Barrier(const std::string& name) = 0;

  // Ends this worker's part; `outcome` not OK: it gives up, and the others are
  // told so; with parameter servers also why. Where gradients were summed
  // between GPUs, waits for all workers to come here, and gets the group's
  // error if one does not.
  virtual absl::Status Leave(const absl::Status& outcome) = 0;

 protected:
  explicit WorkerGroup(const DistributedStrategy& strategy)
      : strategy_(strategy) {}

 private:
  const DistributedStrategy strategy_;
};

}  // namespace oarlock

#endif  // OARLOCK_FLEET_DATA_PARALLEL_WORKER_GROUP_H_
