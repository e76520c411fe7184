// NCCL, whose library is opened when it is needed. Where Oarlock is built
// without CUDA or without the header of NCCL 2.14 or later there is none, and
// the reason says so.

#ifndef OARLOCK_COLLECTIVE_NCCL_RING_H_
#define OARLOCK_COLLECTIVE_NCCL_RING_H_

#include <memory>

#include "absl/status/statusor.h"
#include "collective/communicator.h"
#include "collective/gpu_ring.h"

namespace oarlock::collective {

// This rank's place, on its GPU, in a ring of all ranks of `host`, which all
// call it, no two of them on one GPU; rank 0's id is broadcast by `host`.
// FailedPrecondition, with the library's or the driver's words: on every rank
// where one lacks either or its GPU has no room, on some where NCCL cannot
// connect them, after `connect_timeout` at most. An error of `host` ends
// connecting, too. NCCL before 2.14 has no way to do either, waits as long as
// it likes, and the log says so.
absl::StatusOr<std::unique_ptr<GpuRing>> NewNcclRing(
    Communicator& host, const GpuRingOptions& options);

}  // namespace oarlock::collective

#endif  // OARLOCK_COLLECTIVE_NCCL_RING_H_
