// Without the CUDA toolkit, or without the header of NCCL 2.14 or later in it.

#include "absl/status/status.h"
#include "collective/agreement.h"
#include "collective/nccl_ring.h"

namespace oarlock::collective {

absl::StatusOr<std::unique_ptr<GpuRing>> NewNcclRing(
    Communicator& host, const GpuRingOptions& options) {
  // Those that have it are told.
  return CheckAllCan(
      host, absl::FailedPreconditionError(
                "this program was built without NCCL; build it where CUDA and "
                "NCCL 2.14 or later are (docs/gpu.md)"));
}

}  // namespace oarlock::collective
