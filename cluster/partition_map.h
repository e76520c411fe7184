// Which server owns which partition. Keys and dense blocks are placed by the
// same map; the number of servers can change without rehashing a key.

#ifndef OARLOCK_CLUSTER_PARTITION_MAP_H_
#define OARLOCK_CLUSTER_PARTITION_MAP_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "base/check.h"
#include "base/mix.h"
#include "base/types.h"
#include "proto/v1/server_admin.pb.h"

namespace oarlock::cluster {

// Immutable; thread-safe.
class PartitionMap {
 public:
  // Each server owns a run of adjacent partitions, sizes differing by at most
  // one. REQUIRES: num_partitions is a power of two, num_servers >= 1.
  static PartitionMap Even(uint32_t num_partitions, uint32_t num_servers);
  // InvalidArgument when owners are missing, out of range, or the number of
  // partitions is no power of two in [1, 65536].
  static absl::StatusOr<PartitionMap> FromProto(const v1::PartitionMap& proto);
  v1::PartitionMap ToProto() const;

  uint32_t num_partitions() const { return owners_.size(); }
  // Partitions of which a server is the owner.
  uint32_t NumOwned(ServerIndex server) const {
    return static_cast<uint32_t>(
        std::count(owners_.begin(), owners_.end(), server));
  }
  uint32_t num_servers() const { return num_servers_; }
  int partition_bits() const { return partition_bits_; }
  uint64_t generation() const { return generation_; }

  PartitionIndex PartitionOf(Key key) const {
    return PartitionOfMix(Mix(key), partition_bits_);
  }
  // REQUIRES: the partition exists.
  ServerIndex Owner(PartitionIndex partition) const {
    OARLOCK_CHECK(partition.value() < owners_.size());
    return owners_[partition.value()];
  }
  // Blocks of a dense table are spread over the partitions in order, so that
  // adjacent blocks mostly share a server.
  PartitionIndex PartitionOfBlock(BlockIndex block, uint32_t num_blocks) const {
    return PartitionIndex(static_cast<uint32_t>(uint64_t{block.value()} *
                                                owners_.size() / num_blocks));
  }

 private:
  PartitionMap() = default;

  std::vector<ServerIndex> owners_;
  uint32_t num_servers_ = 0;
  int partition_bits_ = 0;
  uint64_t generation_ = 1;
};

}  // namespace oarlock::cluster

#endif  // OARLOCK_CLUSTER_PARTITION_MAP_H_
