#include "sparse_table/check_key_groups.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/mix.h"

namespace oarlock::sparse_table {
namespace {

constexpr int kBits = 2;

// The first `count` keys from 0 on that lie in `partition`.
std::vector<Key> KeysOf(uint32_t partition, size_t count) {
  std::vector<Key> keys;
  for (uint64_t key = 0; keys.size() < count; ++key) {
    if (PartitionOfMix(Mix(key), kBits).value() == partition) {
      keys.push_back(Key{key});
    }
  }
  return keys;
}

std::vector<Key> Joined(std::vector<Key> a, const std::vector<Key>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

void ExpectRefused(const std::vector<KeyGroup>& groups,
                   const std::vector<Key>& keys, const std::string& why) {
  const absl::Status status =
      CheckKeyGroups(groups, keys.data(), keys.size(), kBits);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find(why), std::string::npos) << status;
}

TEST(CheckKeyGroupsTest, AscendingGroupsWithTheirOwnKeysAreAccepted) {
  const std::vector<Key> keys = Joined(KeysOf(1, 3), KeysOf(3, 2));
  const std::vector<KeyGroup> groups = {
      {PartitionIndex(1), 3}, {PartitionIndex(2), 0}, {PartitionIndex(3), 2}};
  EXPECT_TRUE(CheckKeyGroups(groups, keys.data(), keys.size(), kBits).ok());
  EXPECT_TRUE(CheckKeyGroups({}, nullptr, 0, kBits).ok());
}

TEST(CheckKeyGroupsTest, WhatDoesNotFitIsRefused) {
  const std::vector<Key> keys = Joined(KeysOf(1, 3), KeysOf(3, 2));
  ExpectRefused({{PartitionIndex(3), 2}, {PartitionIndex(1), 3}},
                Joined(KeysOf(3, 2), KeysOf(1, 3)), "ascending");
  ExpectRefused({{PartitionIndex(1), 1}, {PartitionIndex(1), 2}}, KeysOf(1, 3),
                "ascending");
  ExpectRefused({{PartitionIndex(4), 0}}, {}, "partition 4");
  ExpectRefused({{PartitionIndex(1), 3}}, keys, "claim 3 keys");
  ExpectRefused({{PartitionIndex(1), 3}, {PartitionIndex(3), 0xffffffff}}, keys,
                "more than the 5 keys");
  ExpectRefused({{PartitionIndex(1), 2}, {PartitionIndex(3), 3}}, keys,
                "lies in partition 1");
}

}  // namespace
}  // namespace oarlock::sparse_table
