// The communicator of GPUs over a model of NCCL: a fork of the communicator of
// hosts does what GPUs would, so that everything above NCCL is tested where
// there are none.

#ifndef OARLOCK_TESTS_COLLECTIVE_GPU_MODEL_H_
#define OARLOCK_TESTS_COLLECTIVE_GPU_MODEL_H_

#include <cstddef>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collective/communicator.h"
#include "collective/gpu_ring.h"
#include "collective/group.h"

namespace oarlock::collective {

absl::StatusOr<std::unique_ptr<GpuRing>> NewModelRing(Communicator& host);

// Another ring, but for its sums.
class RingAround : public GpuRing {
 public:
  explicit RingAround(std::unique_ptr<GpuRing> ring) : ring_(std::move(ring)) {}

  absl::Status Broadcast(void* bytes, size_t num_bytes, int root,
                         const GoOn& go_on) override {
    return ring_->Broadcast(bytes, num_bytes, root, go_on);
  }
  absl::Status AllGather(const void* mine, size_t mine_bytes, void* all,
                         const GoOn& go_on) override {
    return ring_->AllGather(mine, mine_bytes, all, go_on);
  }

 protected:
  GpuRing& ring() { return *ring_; }

 private:
  const std::unique_ptr<GpuRing> ring_;
};

// A rank of GPUs whose ring is made so, and one of the model's.
absl::StatusOr<std::unique_ptr<Communicator>> JoinGpuGroup(
    const GroupOptions& options, const GpuRingMaker& make_ring);
absl::StatusOr<std::unique_ptr<Communicator>> JoinGpuModelGroup(
    const GroupOptions& options);

}  // namespace oarlock::collective

#endif  // OARLOCK_TESTS_COLLECTIVE_GPU_MODEL_H_
