// What the communicator of GPUs needs of the library below it: the operations
// of one rank, without agreement, failures or waiting. NCCL (nccl_ring.h), or a
// model of it in tests.

#ifndef OARLOCK_COLLECTIVE_GPU_RING_H_
#define OARLOCK_COLLECTIVE_GPU_RING_H_

#include <cstddef>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "collective/communicator.h"

namespace oarlock::collective {

// Spans may lie in memory of the host or of the rank's GPU. All ranks call the
// same operations with the same sizes in the same order. `go_on` is asked
// again and again while an operation waits; its error ends the operation, and
// the ring. A ring goes without a word to the other ranks: while all live, only
// when the last operation is done on all of them.
class GpuRing {
 public:
  enum class Type { kFloat, kDouble, kInt64 };
  using GoOn = std::function<absl::Status()>;

  virtual ~GpuRing() = default;
  virtual absl::Status AllReduce(void* values, size_t num_values, Type type,
                                 const GoOn& go_on) = 0;
  virtual absl::Status Broadcast(void* bytes, size_t num_bytes, int root,
                                 const GoOn& go_on) = 0;
  virtual absl::Status AllGather(const void* mine, size_t mine_bytes, void* all,
                                 const GoOn& go_on) = 0;
};

// Makes this rank's place in a ring of all ranks of `host`, which carries what
// the ranks have to tell each other before they are connected.
using GpuRingMaker =
    std::function<absl::StatusOr<std::unique_ptr<GpuRing>>(Communicator& host)>;

struct GpuRingOptions {
  // Its number on this rank's machine.
  int gpu = 0;
  // How long the ranks may take to connect once all have come.
  absl::Duration connect_timeout = absl::Minutes(1);
  // Waits and their limits are on the monotonic one.
  Clocks clocks = {};
};

// The same with options, which may differ by rank: NewNcclRing, or a model of
// it in tests.
using GpuRingFactory = std::function<absl::StatusOr<std::unique_ptr<GpuRing>>(
    Communicator& host, const GpuRingOptions& options)>;

}  // namespace oarlock::collective

#endif  // OARLOCK_COLLECTIVE_GPU_RING_H_
