#include "cluster/partition_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/random.h"

namespace oarlock::cluster {
namespace {

using ::testing::HasSubstr;

TEST(PartitionMapTest, EvenSharesDifferByAtMostOneAndAreAdjacent) {
  for (uint32_t partitions = 1; partitions <= 65536; partitions *= 4) {
    for (uint32_t servers : {1, 2, 3, 5, 7, 16, 100}) {
      const PartitionMap map = PartitionMap::Even(partitions, servers);
      ASSERT_EQ(map.num_partitions(), partitions);
      ASSERT_EQ(map.num_servers(), servers);
      ASSERT_EQ(1u << map.partition_bits(), partitions);
      std::vector<uint32_t> share(servers, 0);
      uint32_t previous = 0;
      for (uint32_t p = 0; p < partitions; ++p) {
        const uint32_t owner = map.Owner(PartitionIndex(p)).value();
        ASSERT_LT(owner, servers);
        ASSERT_GE(owner, previous);
        previous = owner;
        ++share[owner];
      }
      const auto [least, most] =
          std::minmax_element(share.begin(), share.end());
      EXPECT_LE(*most - *least, 1u) << partitions << " on " << servers;
    }
  }
}

TEST(PartitionMapTest, KeysGoToTheHighBitsOfTheirMix) {
  RandomSequence r(7);
  for (uint32_t partitions : {1u, 2u, 256u, 65536u}) {
    const PartitionMap map = PartitionMap::Even(partitions, 3);
    std::vector<uint32_t> count(partitions, 0);
    for (int i = 0; i < 100000; ++i) {
      const Key key{r()};
      const PartitionIndex partition = map.PartitionOf(key);
      // floor(mix * partitions / 2^64)
      const auto expected = static_cast<uint32_t>(
          (static_cast<unsigned __int128>(Mix(key)) * partitions) >> 64);
      ASSERT_EQ(partition.value(), expected);
      ++count[partition.value()];
    }
    if (partitions <= 256) {
      EXPECT_GT(*std::min_element(count.begin(), count.end()),
                100000 / partitions / 2);
    }
  }
}

TEST(PartitionMapTest, BlocksSpreadOverAllPartitionsInOrder) {
  const PartitionMap map = PartitionMap::Even(256, 4);
  for (uint32_t num_blocks : {1u, 3u, 100u, 256u, 100000u}) {
    uint32_t previous = 0;
    std::vector<uint32_t> share(4, 0);
    for (uint32_t b = 0; b < num_blocks; ++b) {
      const PartitionIndex p = map.PartitionOfBlock(BlockIndex(b), num_blocks);
      ASSERT_LT(p.value(), 256u);
      ASSERT_GE(p.value(), previous);
      previous = p.value();
      ++share[map.Owner(p).value()];
    }
    if (num_blocks >= 100) {
      const auto [least, most] =
          std::minmax_element(share.begin(), share.end());
      EXPECT_LE(*most - *least, 1 + num_blocks / 256) << num_blocks;
    }
  }
}

TEST(PartitionMapTest, ProtoComesBackTheSame) {
  v1::PartitionMap proto;
  proto.set_generation(9);
  proto.set_num_partitions(8);
  proto.set_num_servers(3);
  for (uint32_t owner : {2, 0, 1, 1, 2, 0, 0, 2}) proto.add_owners(owner);
  const auto map = PartitionMap::FromProto(proto);
  ASSERT_TRUE(map.ok()) << map.status();
  EXPECT_EQ(map->generation(), 9u);
  EXPECT_EQ(map->partition_bits(), 3);
  EXPECT_EQ(map->Owner(PartitionIndex(4)), ServerIndex(2));
  EXPECT_EQ(map->ToProto().SerializeAsString(), proto.SerializeAsString());
}

TEST(PartitionMapTest, EachMalformedProtoIsRefusedByItsField) {
  struct Case {
    const char* field;
    void (*spoil)(v1::PartitionMap*);
  };
  using Map = v1::PartitionMap*;
  const Case kCases[] = {
      {"num_partitions", [](Map m) { m->set_num_partitions(0); }},
      {"num_partitions", [](Map m) { m->set_num_partitions(6); }},
      {"num_partitions", [](Map m) { m->set_num_partitions(131072); }},
      {"num_servers", [](Map m) { m->set_num_servers(0); }},
      {"generation", [](Map m) { m->set_generation(0); }},
      {"owners", [](Map m) { m->add_owners(0); }},
      {"owners", [](Map m) { m->mutable_owners()->RemoveLast(); }},
      {"owners", [](Map m) { m->set_owners(3, 2); }},
  };
  for (const Case& c : kCases) {
    v1::PartitionMap proto = PartitionMap::Even(8, 2).ToProto();
    ASSERT_TRUE(PartitionMap::FromProto(proto).ok());
    c.spoil(&proto);
    const auto status = PartitionMap::FromProto(proto).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << c.field;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr(std::string("PartitionMap.") + c.field));
  }
}

TEST(PartitionMapDeathTest, AMapThatCannotBeCrashes) {
  EXPECT_DEATH(PartitionMap::Even(3, 1), "invariant broken");
  EXPECT_DEATH(PartitionMap::Even(4, 0), "invariant broken");
  EXPECT_DEATH(PartitionMap::Even(4, 2).Owner(PartitionIndex(4)),
               "invariant broken");
}

}  // namespace
}  // namespace oarlock::cluster
