// What the workers of a collective job say to one another: sums over all
// ranks, copies from one to all, barriers.
//
// Every rank calls the same operations with the same sizes in the same order;
// an operation returns when this rank's part is done. Where the ranks disagree
// (sizes, kinds, roots) all get InvalidArgument that names both. What a rank
// gets otherwise when the group cannot go on:
//
//   Unavailable        a rank died, hangs or ended without Leave; the message
//                      names the first one. Nobody: start the group anew.
//   DeadlineExceeded   the operation's time is over though all ranks live; the
//                      message names who has not come, as far as is known.
//
// After either the group is over: this and every other operation, on every
// rank and every fork, returns that first error at once. No operation waits
// longer than the group's `operation_timeout` or, once a rank is dead, than
// `heartbeat_timeout` (collective/group.h).

#ifndef OARLOCK_COLLECTIVE_COMMUNICATOR_H_
#define OARLOCK_COLLECTIVE_COMMUNICATOR_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

namespace oarlock::collective {

// How floats travel. 16 bits halve the bytes: each rank's values are rounded
// (to nearest, ties to even), and so is each partial sum that travels on; the
// result is a rounded one too. What is finite stays finite: beyond the format's
// range stands its largest value (wire/value_format.h). In a group of one
// nothing travels and nothing is rounded.
enum class WireFormat { kFloat32, kFloat16, kBfloat16 };

// `operation_timeout` where nobody chooses another.
inline constexpr absl::Duration kDefaultOperationTimeout = absl::Minutes(30);

// For one thread at a time; whoever needs two threads forks.
//
// Results are the same bits on all ranks. They depend on values, size and
// number of ranks alone: a repeated run gives the same bits.
//
// Memory: what the spans point to is the host's. A communicator of devices
// (NCCL) is another implementation, whose spans are the device's; it is made
// of one of hosts, which broadcasts its id, and looks at that one's
// GroupStatus while it waits for a device.
class Communicator {
 public:
  // Without Leave before: this rank has failed, and the others are told so.
  virtual ~Communicator() = default;

  // In [0, size()).
  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Replaces `values` by the sum of all ranks' values, in place. On an error
  // they are partly summed: lost. No value at all is legal.
  absl::Status AllReduceSum(absl::Span<float> values,
                            WireFormat format = WireFormat::kFloat32) {
    const Element element = format == WireFormat::kFloat32 ? Element::kFloat
                            : format == WireFormat::kFloat16
                                ? Element::kFloatAsFloat16
                                : Element::kFloatAsBfloat16;
    return AllReduce(values.data(), values.size(), element);
  }
  absl::Status AllReduceSum(absl::Span<double> values) {
    return AllReduce(values.data(), values.size(), Element::kDouble);
  }
  // Modulo 2^64.
  absl::Status AllReduceSum(absl::Span<int64_t> values) {
    return AllReduce(values.data(), values.size(), Element::kInt64);
  }

  // Copies `values` of rank `root` to all ranks. InvalidArgument: no such rank.
  template <typename T>
  absl::Status Broadcast(absl::Span<T> values, int root) {
    static_assert(std::is_trivially_copyable_v<T>);
    return BroadcastBytes(values.data(), values.size() * sizeof(T), root);
  }

  // Puts every rank's `mine`, as many values of each, into `all` in order of
  // ranks. InvalidArgument: `all` is not size() times as large.
  template <typename T>
  absl::Status AllGather(absl::Span<const T> mine, absl::Span<T> all) {
    static_assert(std::is_trivially_copyable_v<T>);
    return AllGatherBytes(mine.data(), mine.size() * sizeof(T), all.data(),
                          all.size() * sizeof(T));
  }

  // Returns when all ranks have called it.
  virtual absl::Status Barrier() = 0;

  // Another communicator of the same ranks, for another thread; all ranks call
  // it. Operations of the two do not wait for one another. The group, its
  // failures and Leave are the two's in common.
  virtual absl::StatusOr<std::unique_ptr<Communicator>> Fork() = 0;

  // Says that this rank needs the group no more: its end is no failure. On
  // rank 0, which serves the others till then, waits until all have said so, at
  // most `operation_timeout`. To be called when no operation is under way, in
  // any fork; afterwards only destruction is legal. Whoever is still in an
  // operation with this rank gets Unavailable that names it.
  virtual absl::Status Leave() = 0;

  // OK while the group lives, else what ended it. From any thread.
  virtual absl::Status GroupStatus() const = 0;

 protected:
  enum class Element {
    kFloat,
    kFloatAsFloat16,
    kFloatAsBfloat16,
    kDouble,
    kInt64
  };

  virtual absl::Status AllReduce(void* values, size_t num_values,
                                 Element element) = 0;
  virtual absl::Status BroadcastBytes(void* bytes, size_t num_bytes,
                                      int root) = 0;
  virtual absl::Status AllGatherBytes(const void* mine, size_t mine_bytes,
                                      void* all, size_t all_bytes) = 0;
};

}  // namespace oarlock::collective

#endif  // OARLOCK_COLLECTIVE_COMMUNICATOR_H_
