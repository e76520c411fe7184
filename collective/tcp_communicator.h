// Ranks of hosts, by TCP: each has one connection to the next rank of a ring
// and one from the rank before it.
//
//   all-reduce  of more than kSmallBytes: the ring's reduce-scatter, then its
//               all-gather; each rank sends 2 (n - 1) / n of the bytes. Chunk c
//               is summed from rank c on, around the ring. Fewer: all-gather,
//               and every rank sums in order of ranks: half the ways.
//   all-gather  around the ring, n - 1 ways
//   broadcast   around the ring from the root on, each byte as it comes
//   barrier     an all-gather of one byte
//
// Every operation begins with a header to the next rank, and takes the bytes
// of the one before only if its header is the same.

#ifndef OARLOCK_COLLECTIVE_TCP_COMMUNICATOR_H_
#define OARLOCK_COLLECTIVE_TCP_COMMUNICATOR_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "collective/communicator.h"
#include "collective/group_membership.h"
#include "collective/rendezvous_server.h"
#include "collective/ring_exchange.h"
#include "collective/sockets.h"
#include "proto/v1/parameter.pb.h"

namespace oarlock::collective {

// What the communicators of a rank have in common, all in one process.
struct TcpGroup {
  const Clock* clock;
  int rank;
  int size;
  absl::Duration operation_timeout;
  // For the connections of a communicator.
  absl::Duration connect_timeout;
  // On rank 0; ends after the membership that uses it.
  std::unique_ptr<RendezvousServer> rendezvous;
  std::unique_ptr<RingAcceptor> acceptor;
  std::unique_ptr<GroupMembership> membership;
  // Communicators so far; rank 0's counts.
  std::atomic<uint32_t> num_communicators{0};
};

class TcpCommunicator : public Communicator {
 public:
  // All ranks at once. `group` belongs to a communicator and its forks; it
  // ends with the last of them.
  static absl::StatusOr<std::unique_ptr<Communicator>> Connect(
      std::shared_ptr<TcpGroup> group, uint32_t index);

  int rank() const override { return group_->rank; }
  int size() const override { return group_->size; }
  absl::Status Barrier() override;
  absl::StatusOr<std::unique_ptr<Communicator>> Fork() override;
  absl::Status Leave() override;
  absl::Status GroupStatus() const override;

 protected:
  absl::Status AllReduce(void* values, size_t num_values,
                         Element element) override;
  absl::Status BroadcastBytes(void* bytes, size_t num_bytes, int root) override;
  absl::Status AllGatherBytes(const void* mine, size_t mine_bytes, void* all,
                              size_t all_bytes) override;

 private:
  // Of the whole vector; below it the way counts more than the bytes.
  static constexpr size_t kSmallBytes = size_t{4} << 10;

  TcpCommunicator(std::shared_ptr<TcpGroup> group, uint32_t index, Ring ring)
      : group_(std::move(group)), index_(index), ring_(std::move(ring)) {}

  // The range of a vector of `num_values` that is chunk `chunk`, any integer,
  // modulo size().
  struct Range {
    size_t begin;
    size_t size;
  };
  Range ChunkOf(size_t num_values, int chunk) const;
  int next() const { return (rank() + 1) % size(); }
  int previous() const { return (rank() + size() - 1) % size(); }

  // Operation of a kind ("broadcast"), with what has to be equal on all ranks.
  struct Operation {
    uint32_t kind;
    // Root or element.
    uint32_t detail;
    uint64_t num_bytes;
  };
  struct Header;
  // Runs the plan's pieces under a header.
  absl::Status Run(const Operation& operation, RingPlan plan);
  absl::Status Conclude(RingResult result, const Header& header);
  std::string Describe(const Header& header) const;

  absl::Status AllGatherPieces(const Operation& operation, char* all,
                               size_t bytes_each);
  template <typename T>
  absl::Status SumInRing(const Operation& operation, T* values,
                         size_t num_values);
  template <typename T>
  absl::Status SumGathered(const Operation& operation, T* values,
                           size_t num_values);
  absl::Status SumNarrow(const Operation& operation, float* values,
                         size_t num_values, v1::ValueFormat format);
  absl::Status SumNarrowGathered(const Operation& operation, float* values,
                                 size_t num_values, v1::ValueFormat format);

  const std::shared_ptr<TcpGroup> group_;
  const uint32_t index_;
  Ring ring_;
  // Reused from call to call.
  std::vector<char> gathered_;
  std::vector<uint16_t> narrow_;
  std::vector<float> widened_;
};

}  // namespace oarlock::collective

#endif  // OARLOCK_COLLECTIVE_TCP_COMMUNICATOR_H_
