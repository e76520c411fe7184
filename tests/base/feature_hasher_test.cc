#include "base/feature_hasher.h"

#include <cstring>
#include <iostream>
#include <string>

#include "base/mix.h"
#include "base/random.h"
#include "gtest/gtest.h"

namespace oarlock {
namespace {

constexpr uint64_t kSeed = 5;

TEST(FixedModuloTest, IsTheRemainderForAllNumbers) {
  std::cout << "seed " << kSeed << "\n";
  RandomSequence random(kSeed);
  for (int i = 0; i < 300'000; ++i) {
    const uint64_t divisor = (random() >> random.Below(64)) | 1;
    const FixedModulo modulo(divisor);
    const uint64_t multiple = divisor * (random() % 1000);
    for (const uint64_t n :
         {random(), ~uint64_t{0}, multiple, multiple - 1, uint64_t{0},
          divisor - 1, ~uint64_t{0} - random.Below(1000)}) {
      ASSERT_EQ(modulo.Of(n), n % divisor) << n << " " << divisor;
    }
  }
  EXPECT_EQ(FixedModulo(0).Of(~uint64_t{0}), ~uint64_t{0});
  EXPECT_EQ(FixedModulo(1).Of(~uint64_t{0}), 0u);
  EXPECT_EQ(FixedModulo(~uint64_t{0}).Of(~uint64_t{0}), 0u);
}

TEST(FeatureHasherTest, AgreesWithFeatureHash) {
  std::cout << "seed " << kSeed << "\n";
  RandomSequence random(kSeed);
  for (const uint64_t dim :
       {uint64_t{0}, uint64_t{10'000'001}, uint64_t{1} << 40,
        uint64_t{9'000'000'000'000'000'000}}) {
    const FeatureHasher hasher(dim);
    for (int i = 0; i < 10'000; ++i) {
      std::string text(random.Below(70), ' ');
      for (char& c : text) c = static_cast<char>(random());
      const auto slot = static_cast<uint32_t>(random.Below(64));
      ASSERT_EQ(hasher.Hash(text.data(), text.size(), slot),
                FeatureHash(text, slot, dim));
      text.resize(8);
      uint64_t lane;
      std::memcpy(&lane, text.data(), 8);
      ASSERT_EQ(hasher.HashOf8(lane, slot), FeatureHash(text, slot, dim));
    }
  }
  // A test vector of base/mix.h.
  uint64_t lane;
  std::memcpy(&lane, "68fd1e64", 8);
  EXPECT_EQ(Xxh64Of8(lane, 1), 0xd2e5a37bb032083cu);
}

}  // namespace
}  // namespace oarlock
