// The communicator of GPUs over a model of NCCL: a fork of the communicator of
// hosts does what GPUs would, so that everything above NCCL is tested where
// there are none.

#ifndef OARLOCK_TESTS_COLLECTIVE_GPU_MODEL_H_
#define OARLOCK_TESTS_COLLECTIVE_GPU_MODEL_H_

#include <memory>

#include "absl/status/statusor.h"
#include "collective/communicator.h"
#include "collective/gpu_ring.h"
#include "collective/group.h"

namespace oarlock {

absl::StatusOr<std::unique_ptr<GpuRing>> NewModelRing(Communicator& host);

absl::StatusOr<std::unique_ptr<Communicator>> JoinGpuModelGroup(
    const GroupOptions& options);

}  // namespace oarlock

#endif  // OARLOCK_TESTS_COLLECTIVE_GPU_MODEL_H_
