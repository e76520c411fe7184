#include "cluster/partition_map.h"

#include <bit>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace oarlock::cluster {
namespace {

constexpr uint32_t kMaxPartitions = 65536;

}  // namespace

PartitionMap PartitionMap::Even(uint32_t num_partitions, uint32_t num_servers) {
  OARLOCK_CHECK(std::has_single_bit(num_partitions));
  OARLOCK_CHECK(num_partitions <= kMaxPartitions);
  OARLOCK_CHECK(num_servers >= 1);
  PartitionMap map;
  map.num_servers_ = num_servers;
  map.partition_bits_ = std::countr_zero(num_partitions);
  map.owners_.reserve(num_partitions);
  for (uint64_t p = 0; p < num_partitions; ++p) {
    map.owners_.push_back(
        ServerIndex(static_cast<uint32_t>(p * num_servers / num_partitions)));
  }
  return map;
}

absl::StatusOr<PartitionMap> PartitionMap::FromProto(
    const v1::PartitionMap& proto) {
  if (!std::has_single_bit(proto.num_partitions()) ||
      proto.num_partitions() > kMaxPartitions) {
    return absl::InvalidArgumentError(absl::StrCat(
        "PartitionMap.num_partitions is ", proto.num_partitions(),
        "; it must be a power of two in [1, ", kMaxPartitions, "]"));
  }
  if (proto.num_servers() == 0) {
    return absl::InvalidArgumentError(
        "PartitionMap.num_servers is 0; at least one server must exist");
  }
  if (proto.generation() == 0) {
    return absl::InvalidArgumentError(
        "PartitionMap.generation is 0; the first map has generation 1");
  }
  if (static_cast<uint32_t>(proto.owners_size()) != proto.num_partitions()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "PartitionMap.owners has ", proto.owners_size(), " entries for ",
        proto.num_partitions(), " partitions; it must have one for each"));
  }
  PartitionMap map;
  map.num_servers_ = proto.num_servers();
  map.partition_bits_ = std::countr_zero(proto.num_partitions());
  map.generation_ = proto.generation();
  map.owners_.reserve(proto.num_partitions());
  for (uint32_t owner : proto.owners()) {
    if (owner >= proto.num_servers()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "PartitionMap.owners names server ", owner, " for partition ",
          map.owners_.size(), "; servers are 0 to ", proto.num_servers() - 1));
    }
    map.owners_.push_back(ServerIndex(owner));
  }
  return map;
}

v1::PartitionMap PartitionMap::ToProto() const {
  v1::PartitionMap proto;
  proto.set_generation(generation_);
  proto.set_num_partitions(num_partitions());
  proto.set_num_servers(num_servers_);
  for (ServerIndex owner : owners_) proto.add_owners(owner.value());
  return proto;
}

}  // namespace oarlock::cluster
