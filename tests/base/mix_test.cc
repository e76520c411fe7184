#include "base/mix.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "base/random.h"

namespace oarlock {
namespace {

// The vectors of base/mix.h and docs/wire_protocol.md.
TEST(MixTest, TestVectors) {
  EXPECT_EQ(Mix(0), 0xe220a8397b1dcdafu);
  EXPECT_EQ(Mix(1), 0x910a2dec89025cc1u);
  EXPECT_EQ(Mix(2), 0x975835de1c9756ceu);
  EXPECT_EQ(Mix(12345678901234567890u), 0xf959d46356afd6e8u);
  EXPECT_EQ(Mix(0xffffffffffffffffu), 0xe4d971771b652c20u);
  EXPECT_EQ(Mix(Key{1}), Mix(1));
}

TEST(MixTest, EveryInputBitMovesAboutHalfOfTheOutput) {
  RandomSequence r(11);
  for (int bit = 0; bit < 64; ++bit) {
    int flips = 0;
    for (int i = 0; i < 1000; ++i) {
      const uint64_t x = r();
      flips += __builtin_popcountll(Mix(x) ^ Mix(x ^ (uint64_t{1} << bit)));
    }
    EXPECT_NEAR(flips / 1000.0, 32.0, 1.5) << "bit " << bit;
  }
}

TEST(MixTest, PartitionsAreTheHighestBits) {
  EXPECT_EQ(PartitionOfMix(0xe220a8397b1dcdafu, 8), PartitionIndex(0xe2));
  EXPECT_EQ(PartitionOfMix(0xe220a8397b1dcdafu, 1), PartitionIndex(1));
  EXPECT_EQ(PartitionOfMix(0xe220a8397b1dcdafu, 32),
            PartitionIndex(0xe220a839u));
  EXPECT_EQ(PartitionOfMix(~uint64_t{0}, 0), PartitionIndex(0));
}

TEST(FeatureHashTest, TestVectors) {
  struct Vector {
    const char* text;
    uint32_t slot;
    uint64_t feature_dim;
    uint64_t key;
  };
  const Vector kVectors[] = {
      {"", 0, 0, 0xef46db3751d8e999u},
      {"", 5, 0, 0x4be1d406981cfd3bu},
      {"a", 0, 0, 0xd24ec4f1a98c6e5bu},
      {"abc", 0, 0, 0x44bc2cf5ad770999u},
      {"default", 0, 0, 0xcb14bd8a5c561c96u},
      {"68fd1e64", 0, 0, 0x5d3ccd85c9c22fe4u},
      {"68fd1e64", 1, 0, 0xd2e5a37bb032083cu},
      {"68fd1e64", 25, 0, 0xf54f339d6568df6cu},
      {"68fd1e64", 0, 10000001, 2223838},
      {"80e26c9b", 1, 10000001, 6174230},
  };
  for (const Vector& v : kVectors) {
    EXPECT_EQ(FeatureHash(v.text, v.slot, v.feature_dim), Key{v.key})
        << "'" << v.text << "' slot " << v.slot;
  }
}

TEST(FeatureHashTest, AFeatureDimBoundsTheKeys) {
  std::set<uint64_t> seen;
  for (int i = 0; i < 1000; ++i) {
    const auto key =
        static_cast<uint64_t>(FeatureHash(std::to_string(i), 3, 10));
    EXPECT_LT(key, 10u);
    seen.insert(key);
  }
  EXPECT_EQ(seen.size(), 10u);
}

}  // namespace
}  // namespace oarlock
