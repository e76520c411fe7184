#include "client/key_batch.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/mix.h"
#include "base/random.h"

namespace oarlock::client {
namespace {

// The key whose Mix is `mix`.
Key KeyOfMix(uint64_t mix) {
  uint64_t z = mix;
  z = z ^ (z >> 31) ^ (z >> 62);
  z *= 0x319642b2d24d8ec3u;  // inverse of 0x94d049bb133111eb
  z = z ^ (z >> 27) ^ (z >> 54);
  z *= 0x96de1b173f119089u;  // inverse of 0xbf58476d1ce4e5b9
  z = z ^ (z >> 30) ^ (z >> 60);
  return Key{z - 0x9e3779b97f4a7c15u};
}

// Holds `batch`, built from `keys`, against what its header says.
void ExpectRight(const KeyBatch& batch, const std::vector<Key>& keys,
                 int partition_bits) {
  const std::set<Key> distinct(keys.begin(), keys.end());
  ASSERT_EQ(batch.keys().size(), distinct.size());
  EXPECT_EQ(std::set<Key>(batch.keys().begin(), batch.keys().end()), distinct);
  ASSERT_EQ(batch.row_of_key().size(), keys.size());
  for (size_t i = 0; i < keys.size(); ++i) {
    ASSERT_LT(batch.row_of_key()[i], batch.keys().size());
    ASSERT_EQ(batch.keys()[batch.row_of_key()[i]], keys[i]) << "key " << i;
  }
  size_t next = 0;
  for (size_t g = 0; g < batch.groups().size(); ++g) {
    const KeyGroup& group = batch.groups()[g];
    ASSERT_GT(group.num_keys, 0u);
    if (g > 0) {
      ASSERT_LT(batch.groups()[g - 1].partition, group.partition);
    }
    ASSERT_LE(next + group.num_keys, batch.keys().size());
    for (uint32_t i = 0; i < group.num_keys; ++i, ++next) {
      ASSERT_EQ(PartitionOfMix(Mix(batch.keys()[next]), partition_bits),
                group.partition);
    }
  }
  EXPECT_EQ(next, batch.keys().size());
}

TEST(KeyBatchTest, RandomBatchesOfEveryNumberOfPartitionsMatchASet) {
  const uint64_t seed = 20;
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  RandomSequence random(seed);
  // One object for all: what a batch leaves behind must not show in the next.
  KeyBatch batch;
  for (int bits = 0; bits <= 16; ++bits) {
    for (int repeat = 0; repeat < 4; ++repeat) {
      const size_t size = random.Below(3000);
      // From nearly all keys repeated to none.
      const uint64_t range = uint64_t{1} << (random.Below(4) * 16 + 4);
      std::vector<Key> keys(size);
      for (Key& key : keys) key = Key{random.Below(range)};
      batch.Build(keys, bits);
      SCOPED_TRACE(absl::StrCat(bits, " bits, ", size, " keys below ", range));
      ExpectRight(batch, keys, bits);
      if (HasFailure()) return;
    }
  }
}

TEST(KeyBatchTest, EmptyBatchHasNoGroups) {
  KeyBatch batch;
  batch.Build(std::vector<Key>{Key{1}, Key{2}}, 4);
  batch.Build({}, 4);
  EXPECT_TRUE(batch.keys().empty());
  EXPECT_TRUE(batch.groups().empty());
  EXPECT_TRUE(batch.row_of_key().empty());
}

TEST(KeyBatchTest, OneKeyManyTimesIsOneRow) {
  KeyBatch batch;
  const std::vector<Key> keys(1000, Key{~uint64_t{0}});
  batch.Build(keys, 8);
  ExpectRight(batch, keys, 8);
  EXPECT_EQ(batch.keys().size(), 1u);
  EXPECT_EQ(batch.groups().size(), 1u);
}

TEST(KeyBatchTest, ZeroIsAKeyLikeAnyOther) {
  KeyBatch batch;
  const std::vector<Key> keys = {Key{0}, Key{5}, Key{0}};
  batch.Build(keys, 3);
  ExpectRight(batch, keys, 3);
}

TEST(KeyBatchTest, KeysThatAllHashToOnePlaceAreKeptApart) {
  std::vector<Key> keys;
  for (uint64_t i = 0; i < 600; ++i) {
    const uint64_t mix = (i << 40) | 0xabcdef;
    ASSERT_EQ(Mix(KeyOfMix(mix)), mix);
    keys.push_back(KeyOfMix(mix));
    keys.push_back(keys[i / 2]);
  }
  KeyBatch batch;
  batch.Build(keys, 10);
  ExpectRight(batch, keys, 10);
}

TEST(KeyBatchTest, OrderDoesNotDependOnEarlierBatches) {
  RandomSequence random(5);
  std::vector<Key> keys(2000);
  for (Key& key : keys) key = Key{random.Below(1500)};
  KeyBatch fresh;
  fresh.Build(keys, 6);
  KeyBatch used;
  for (int i = 0; i < 3; ++i) {
    std::vector<Key> others(500 << (2 * i));
    for (Key& key : others) key = Key{random()};
    used.Build(others, 3 * i);
  }
  used.Build(keys, 6);
  EXPECT_EQ(used.keys(), fresh.keys());
  EXPECT_EQ(used.row_of_key(), fresh.row_of_key());
}

}  // namespace
}  // namespace oarlock::client
