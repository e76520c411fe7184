#include "sparse_table/check_key_groups.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/mix.h"

namespace oarlock::sparse_table {
namespace {

absl::Status WrongPartition(Key key, PartitionIndex claimed,
                            PartitionIndex right) {
  return absl::InvalidArgumentError(absl::StrFormat(
      "key 0x%016x came under partition %d; it lies in partition %d (the "
      "highest bits of Mix(key)); check the client's Mix against its test "
      "vectors",
      static_cast<uint64_t>(key), claimed.value(), right.value()));
}

}  // namespace

absl::Status CheckKeyGroups(absl::Span<const KeyGroup> groups, const Key* keys,
                            size_t num_keys, int partition_bits) {
  const uint32_t num_partitions = uint32_t{1} << partition_bits;
  size_t first = 0;
  for (size_t g = 0; g < groups.size(); ++g) {
    const PartitionIndex partition = groups[g].partition;
    if (partition.value() >= num_partitions) {
      return absl::InvalidArgumentError(absl::StrCat(
          "group ", g, " is of partition ", partition.value(), "; the job has ",
          num_partitions, " partitions, counted from 0"));
    }
    if (g > 0 && partition <= groups[g - 1].partition) {
      return absl::InvalidArgumentError(absl::StrCat(
          "group ", g, " is of partition ", partition.value(), " after ",
          groups[g - 1].partition.value(),
          "; groups must be in ascending order of partitions, each once"));
    }
    if (groups[g].num_keys > num_keys - first) {
      return absl::InvalidArgumentError(
          absl::StrCat("groups claim more than the ", num_keys,
                       " keys of the message; their sizes must sum to it"));
    }
    bool right = true;
    const Key* const group_keys = keys + first;
    for (uint32_t i = 0; i < groups[g].num_keys; ++i) {
      right &= PartitionOfMix(Mix(group_keys[i]), partition_bits) == partition;
    }
    for (uint32_t i = 0; !right && i < groups[g].num_keys; ++i) {
      const PartitionIndex actual =
          PartitionOfMix(Mix(group_keys[i]), partition_bits);
      if (actual != partition) {
        return WrongPartition(group_keys[i], partition, actual);
      }
    }
    first += groups[g].num_keys;
  }
  if (first != num_keys) {
    return absl::InvalidArgumentError(
        absl::StrCat("groups claim ", first, " keys; the message has ",
                     num_keys, "; the sizes of its groups must sum to it"));
  }
  return absl::OkStatus();
}

}  // namespace oarlock::sparse_table
