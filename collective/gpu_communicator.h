// A communicator whose values travel between GPUs. Everything that NCCL does
// not do is done by a communicator of hosts: ranks agree on each operation
// before it (NCCL would hang where sizes differ), deaths are noticed, barriers
// and Leave are its own.

#ifndef OARLOCK_COLLECTIVE_GPU_COMMUNICATOR_H_
#define OARLOCK_COLLECTIVE_GPU_COMMUNICATOR_H_

#include <cstddef>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "collective/communicator.h"
#include "collective/gpu_ring.h"

namespace oarlock::collective {

struct GpuCommunicatorOptions {
  // As GroupOptions::operation_timeout.
  absl::Duration operation_timeout = kDefaultOperationTimeout;
  // It is on the monotonic one.
  Clocks clocks = {};
};

// Spans are the host's, which go through the GPU's memory, or the GPU's own.
// In a group of more than one, values that would travel in 16 bits are rounded
// to them before and after, and summed in 32 bits: NCCL's own 16-bit sums
// overflow to infinity, which Communicator does not allow. They need the
// host's memory.
class GpuCommunicator final : public Communicator {
 public:
  // Takes over `host`, whose ranks all call it. An error on every rank or on
  // none: that of `make_ring`, or FailedPrecondition with the first rank that
  // had one, and its words.
  static absl::StatusOr<std::unique_ptr<GpuCommunicator>> Create(
      std::unique_ptr<Communicator> host, GpuRingMaker make_ring,
      const GpuCommunicatorOptions& options = {});

  int rank() const override { return host_->rank(); }
  int size() const override { return host_->size(); }
  absl::Status Barrier() override { return host_->Barrier(); }
  absl::StatusOr<std::unique_ptr<Communicator>> Fork() override;
  absl::Status Leave() override { return host_->Leave(); }
  absl::Status GroupStatus() const override { return host_->GroupStatus(); }

 protected:
  absl::Status AllReduce(void* values, size_t num_values,
                         Element element) override;
  absl::Status BroadcastBytes(void* bytes, size_t num_bytes, int root) override;
  absl::Status AllGatherBytes(const void* mine, size_t mine_bytes, void* all,
                              size_t all_bytes) override;

 private:
  // What ranks agree on before an operation.
  struct Call;

  GpuCommunicator(std::unique_ptr<Communicator> host, GpuRingMaker make_ring,
                  std::unique_ptr<GpuRing> ring,
                  const GpuCommunicatorOptions& options);
  absl::Status Agree(const Call& call);
  // Ends an operation that begins now when the group has failed or its time is
  // over.
  GpuRing::GoOn WaitLimit() const;

  const std::unique_ptr<Communicator> host_;
  const GpuRingMaker make_ring_;
  const std::unique_ptr<GpuRing> ring_;
  const GpuCommunicatorOptions options_;
};

}  // namespace oarlock::collective

#endif  // OARLOCK_COLLECTIVE_GPU_COMMUNICATOR_H_
