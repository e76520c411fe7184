#include "nn/lifetimes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/random.h"

namespace oarlock::nn {
namespace {

TEST(LifetimesTest, ChainNeedsTwoArraysAtOnce) {
  const std::vector<Lifetime> chain = {
      {16, 8, 9}, {16, 7, 8}, {16, 6, 7}, {16, 5, 6}, {16, 4, 5}};
  const Places places = PlaceByLifetime(chain);
  EXPECT_EQ(places.begins, (std::vector<size_t>{0, 16, 0, 16, 0}));
  EXPECT_EQ(places.total, 32u);
}

TEST(LifetimesTest, NothingTakesNoRoom) {
  EXPECT_EQ(PlaceByLifetime({}).total, 0u);
  EXPECT_EQ(PlaceByLifetime({{0, 1, 5}}).total, 0u);
}

TEST(LifetimesTest, ArraysNeededAtTheSameTimeNeverOverlap) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    RandomSequence random(seed);
    std::vector<Lifetime> arrays(1 + random.Below(40));
    size_t sum = 0;
    for (Lifetime& array : arrays) {
      array.size = random.Below(20);
      array.begin = random.Below(30);
      array.end = array.begin + random.Below(10);
      sum += array.size;
    }
    const Places places = PlaceByLifetime(arrays);
    EXPECT_LE(places.total, sum);
    std::vector<size_t> needed(40);
    for (size_t i = 0; i < arrays.size(); ++i) {
      const Lifetime& a = arrays[i];
      EXPECT_LE(places.begins[i] + a.size, places.total);
      for (size_t t = a.begin; t <= a.end; ++t) needed[t] += a.size;
      for (size_t j = 0; j < i; ++j) {
        const Lifetime& b = arrays[j];
        const bool together = a.begin <= b.end && b.begin <= a.end;
        const bool overlap = places.begins[i] < places.begins[j] + b.size &&
                             places.begins[j] < places.begins[i] + a.size;
        EXPECT_FALSE(together && overlap && a.size > 0 && b.size > 0)
            << "arrays " << i << " and " << j << ", seed " << seed;
      }
    }
    EXPECT_GE(places.total, *std::max_element(needed.begin(), needed.end()));
  }
}

}  // namespace
}  // namespace oarlock::nn
