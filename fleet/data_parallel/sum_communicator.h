// What carries the sums of gradients between ranks: NCCL, between their GPUs,
// or TCP, between the hosts.

#ifndef OARLOCK_FLEET_DATA_PARALLEL_SUM_COMMUNICATOR_H_
#define OARLOCK_FLEET_DATA_PARALLEL_SUM_COMMUNICATOR_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "collective/communicator.h"
#include "collective/gpu_ring.h"
#include "nn/math_backend.h"

namespace oarlock {

// DistributedStrategy::collective_backend.
enum class CollectiveBackend { kAuto, kTcp, kNccl };

// Of "auto", "tcp" and "nccl"; InvalidArgument for others.
absl::StatusOr<CollectiveBackend> ParseCollectiveBackend(
    const std::string& name);

struct SumOptions {
  CollectiveBackend backend = CollectiveBackend::kAuto;
  collective::WireFormat format = collective::WireFormat::kFloat32;
  // Of this rank: the same text on all ranks of a machine, whatever container
  // they are in, another on others.
  std::string machine = {};
  // Calls NCCL, or a model of it.
  collective::GpuRingFactory new_gpu_ring;
  // GpuRingOptions::connect_timeout.
  absl::Duration connect_timeout = collective::GpuRingOptions().connect_timeout;
  // GpuRingOptions::clocks, and GpuCommunicatorOptions'.
  Clocks clocks = {};
};

struct SumCommunicator {
  std::unique_ptr<collective::Communicator> communicator;
  // Its spans lie in the memory of each rank's GPU, and what is summed has been
  // computed there; else in the host's.
  bool on_gpus = false;
};

// For the ranks of `group`, which all call it with the same options; all get
// the same kind. `math` has this rank's gradients in its memory; null: the
// host's has them.
//
// NCCL carries 32-bit floats of ranks that each compute on a GPU of their own,
// where it can connect those. If that is not so, kAuto takes TCP, and rank 0's
// log says why, as a warning where all have a GPU, and unless nobody has one;
// with kNccl every rank gets FailedPrecondition that says why. Other errors are
// the group's.
absl::StatusOr<SumCommunicator> NewSumCommunicator(
    collective::Communicator& group, const SumOptions& options,
    nn::MathBackend* math);

}  // namespace oarlock

#endif  // OARLOCK_FLEET_DATA_PARALLEL_SUM_COMMUNICATOR_H_
