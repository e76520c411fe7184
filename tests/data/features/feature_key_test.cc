#include "data/features/feature_key.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

namespace oarlock::data {
namespace {

// Computed with python-xxhash.
TEST(FeatureKeysTest, TestVectors) {
  const FeatureKeys user("user", 1);
  EXPECT_EQ(user.OfInteger(42), Key{0x0001bd434681181e});
  EXPECT_EQ(user.OfInteger(-1), Key{0x0001c15b7c951582});
  EXPECT_EQ(user.OfNull(), Key{0x0001499c898331e3});
  const FeatureKeys item("item", 2);
  EXPECT_EQ(item.OfText("abc"), Key{0x000201b93c889d48});
  EXPECT_EQ(item.OfText(""), Key{0x0002a7abd1f559b0});
  EXPECT_EQ(FeatureKeys("größe", 65534).OfText("ä"), Key{0xfffed97eca2197e6});
  EXPECT_EQ(FeatureKeys("user", 3).OfText("42"), Key{0x0003ae9f2fc8cfd2});
}

TEST(FeatureKeysTest, AFeatureIsToldFromItsKeys) {
  for (const uint32_t number : {1u, 77u, FeatureKeys::kMaxNumber}) {
    const FeatureKeys keys("a", number);
    for (const Key key :
         {keys.OfText("x"), keys.OfInteger(INT64_MIN), keys.OfNull()}) {
      EXPECT_EQ(FeatureKeys::NumberOf(key), number);
    }
  }
}

TEST(FeatureKeysTest, NullTextAndIntegersAreDifferentValues) {
  const FeatureKeys keys("a", 1);
  EXPECT_NE(keys.OfNull(), keys.OfText(""));
  EXPECT_NE(keys.OfNull(), keys.OfInteger(0));
  EXPECT_NE(keys.OfNull(), keys.OfInteger(INT64_MIN));
  EXPECT_NE(keys.OfText("7"), keys.OfInteger(7));
  // Another feature's values are others, even under its number.
  EXPECT_NE(keys.OfText("x"), FeatureKeys("b", 1).OfText("x"));
}

}  // namespace
}  // namespace oarlock::data
