#include "worker/epoch/merged_gradients.h"

#include <gtest/gtest.h>

#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/random.h"

namespace oarlock::worker {
namespace {

// A compute thread's distinct keys and their gradients.
struct Addend {
  client::KeyBatch keys;
  std::vector<float> gradients;
};

MergedGradients::Source SourceOf(const Addend& addend) {
  return {&addend.keys, addend.gradients.data()};
}

Addend AddendOf(const std::vector<Key>& keys,
                const std::vector<float>& gradients, int bits) {
  Addend addend;
  addend.keys.Build(keys, bits);
  addend.gradients = gradients;
  return addend;
}

TEST(MergedGradientsTest, SumsEqualAMapFilledInTheOrderOfTheSources) {
  const uint64_t seed = 31;
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  RandomSequence random(seed);
  MergedGradients merged;
  for (int repeat = 0; repeat < 20; ++repeat) {
    const size_t dim = 1 + random.Below(9);
    const int bits = static_cast<int>(random.Below(9));
    std::vector<Addend> addends(random.Below(5));
    std::map<Key, std::vector<float>> expected;
    std::vector<MergedGradients::Source> sources;
    for (Addend& addend : addends) {
      std::vector<Key> keys(random.Below(400));
      for (Key& key : keys) key = Key{random.Below(300)};
      addend.keys.Build(keys, bits);
      for (Key key : addend.keys.keys()) {
        std::vector<float>& sum = expected[key];
        sum.resize(dim);
        for (size_t d = 0; d < dim; ++d) {
          const float value = static_cast<float>(random.Uniform() - 0.5);
          addend.gradients.push_back(value);
          sum[d] += value;
        }
      }
      sources.push_back(SourceOf(addend));
    }
    merged.Merge(sources, dim, bits);
    ASSERT_EQ(merged.keys().keys().size(), expected.size());
    for (size_t i = 0; i < merged.keys().keys().size(); ++i) {
      const std::vector<float>& sum = expected.at(merged.keys().keys()[i]);
      for (size_t d = 0; d < dim; ++d) {
        // Bit for bit: the same additions in the same order.
        ASSERT_EQ(merged.gradients()[i * dim + d], sum[d]);
      }
    }
  }
}

TEST(MergedGradientsTest, AdditionFollowsTheOrderOfTheSources) {
  const Addend big = AddendOf({Key{7}}, {1e8f}, 2);
  const Addend one = AddendOf({Key{7}}, {1.0f}, 2);
  const Addend less = AddendOf({Key{7}}, {-1e8f}, 2);
  MergedGradients merged;
  merged.Merge({SourceOf(big), SourceOf(less), SourceOf(one)}, 1, 2);
  EXPECT_EQ(merged.gradients()[0], 1.0f);
  // 1 is lost beside 1e8.
  merged.Merge({SourceOf(big), SourceOf(one), SourceOf(less)}, 1, 2);
  EXPECT_EQ(merged.gradients()[0], 0.0f);
}

TEST(MergedGradientsTest, NoSourcesLeaveNothing) {
  const Addend addend = AddendOf({Key{7}}, {1.0f}, 2);
  MergedGradients merged;
  merged.Merge({SourceOf(addend)}, 1, 2);
  merged.Merge({}, 1, 2);
  EXPECT_TRUE(merged.keys().keys().empty());
  EXPECT_TRUE(merged.keys().groups().empty());
}

TEST(MergedGradientsTest, ShowsAndClicksOfAKeyAddUp) {
  const Addend a = AddendOf({Key{1}, Key{2}}, {1, 1}, 0);
  const Addend b = AddendOf({Key{2}, Key{3}}, {1, 1}, 0);
  const std::vector<float> shows_a = {4, 5}, clicks_a = {1, 2};
  const std::vector<float> shows_b = {6, 7}, clicks_b = {0, 3};
  MergedGradients merged;
  for (int again = 0; again < 2; ++again) {
    merged.Merge(
        {{&a.keys, a.gradients.data(), shows_a.data(), clicks_a.data()},
         {&b.keys, b.gradients.data(), shows_b.data(), clicks_b.data()}},
        /*dim=*/1, /*partition_bits=*/0);
    std::map<Key, std::pair<float, float>> sums;
    for (size_t i = 0; i < merged.keys().keys().size(); ++i) {
      sums[merged.keys().keys()[i]] = {merged.shows()[i], merged.clicks()[i]};
    }
    EXPECT_EQ(sums,
              (std::map<Key, std::pair<float, float>>{
                  {Key{1}, {4, 1}}, {Key{2}, {11, 2}}, {Key{3}, {7, 3}}}));
  }
}

}  // namespace
}  // namespace oarlock::worker
