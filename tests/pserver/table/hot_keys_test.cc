#include "pserver/table/hot_keys.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <set>
#include <thread>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "base/mix.h"
#include "base/random.h"
#include "tests/pserver/table/zipf_testing.h"

namespace oarlock::pserver {
namespace {

// Messages as workers send them: each key once, in the order of partitions,
// which is that of Mix.
std::vector<Key> Message(RandomSequence* random, size_t num_draws) {
  std::set<uint64_t> ranks;
  for (size_t i = 0; i < num_draws; ++i) ranks.insert(ZipfRank(random, 100000));
  std::vector<Key> keys;
  for (const uint64_t rank : ranks) keys.push_back(Key{rank});
  std::sort(keys.begin(), keys.end(),
            [](Key a, Key b) { return Mix(a) < Mix(b); });
  return keys;
}

struct Exact {
  std::map<Key, uint64_t> counts;
  uint64_t total = 0;
  void Add(const std::vector<Key>& keys) {
    for (const Key key : keys) ++counts[key];
    total += keys.size();
  }
  double Share(Key key) const {
    const auto found = counts.find(key);
    return found == counts.end() ? 0
                                 : static_cast<double>(found->second) /
                                       static_cast<double>(total);
  }
};

TEST(KeySamplerTest, WithoutSamplingTheBoundIsCertain) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    RandomSequence random(seed);
    KeySampler sampler({.sample_interval = 1, .capacity = 64, .seed = seed});
    Exact exact;
    for (int i = 0; i < 300; ++i) {
      const std::vector<Key> keys = Message(&random, 200);
      exact.Add(keys);
      sampler.Add(keys);
    }
    ASSERT_EQ(sampler.num_keys(), exact.total);
    ASSERT_EQ(sampler.num_samples(), exact.total);
    std::vector<Key> all;
    for (const auto& [key, count] : exact.counts) all.push_back(key);
    const std::vector<ShareEstimate> shares = sampler.Estimate(all);
    for (size_t i = 0; i < all.size(); ++i) {
      ASSERT_LE(std::abs(shares[i].share - exact.Share(all[i])),
                shares[i].error + 1e-12);
      ASSERT_LE(shares[i].error, 1.0 / 64);
    }
  }
}

TEST(KeySamplerTest, SampledSharesLieWithinTheirErrorInNineteenOfTwentyCases) {
  size_t num_checked = 0;
  size_t num_outside = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    RandomSequence random(seed);
    KeySampler sampler({.sample_interval = 16, .capacity = 512, .seed = seed});
    Exact exact;
    for (int i = 0; i < 400; ++i) {
      const std::vector<Key> keys = Message(&random, 300);
      exact.Add(keys);
      sampler.Add(keys);
    }
    // Those that are hot by the exact counts, so that luck chooses none, and
    // some that are not.
    std::vector<Key> keys;
    for (uint64_t rank = 1; rank <= 40; ++rank) keys.push_back(Key{rank});
    for (uint64_t rank = 1000; rank <= 1010; ++rank) keys.push_back(Key{rank});
    const std::vector<ShareEstimate> shares = sampler.Estimate(keys);
    for (size_t i = 0; i < keys.size(); ++i) {
      ++num_checked;
      num_outside +=
          std::abs(shares[i].share - exact.Share(keys[i])) > shares[i].error;
    }
  }
  EXPECT_LE(num_outside * 20, num_checked) << "of " << num_checked;
}

TEST(KeySamplerTest, TheErrorOfAHotKeyIsSmallAgainstItsShare) {
  RandomSequence random(11);
  KeySampler sampler({.sample_interval = 16, .capacity = 512, .seed = 11});
  Exact exact;
  for (int i = 0; i < 4000; ++i) {
    const std::vector<Key> keys = Message(&random, 300);
    exact.Add(keys);
    sampler.Add(keys);
  }
  const ShareEstimate hottest = sampler.Estimate({Key{1}})[0];
  EXPECT_GT(hottest.share, 0);
  EXPECT_LT(hottest.error, .25 * hottest.share);
}

// Sampling at a fixed distance would see the same key of every message.
TEST(KeySamplerTest, MessagesOfOneShapeAreSampledAtEveryPlace) {
  constexpr size_t kKeys = 512;
  constexpr uint32_t kInterval = 256;
  constexpr int kMessages = 20000;
  std::vector<Key> keys;
  for (uint64_t i = 0; i < kKeys; ++i) keys.push_back(Key{i});
  KeySampler sampler(
      {.sample_interval = kInterval, .capacity = 1024, .seed = 5});
  for (int i = 0; i < kMessages; ++i) sampler.Add(keys);
  EXPECT_EQ(sampler.num_samples(), uint64_t{kMessages} * kKeys / kInterval);
  // Each is expected 78 times; 6 standard deviations either way.
  for (const ShareEstimate& estimate : sampler.Estimate(keys)) {
    const double count =
        estimate.share * static_cast<double>(kMessages) * kKeys / kInterval;
    EXPECT_NEAR(count, 78, 53);
  }
}

TEST(KeySamplerTest, ShortMessagesAreSampledToo) {
  KeySampler sampler({.sample_interval = 64, .capacity = 16, .seed = 9});
  const std::vector<Key> keys = {Key{1}, Key{2}};
  constexpr int kMessages = 64000;
  for (int i = 0; i < kMessages; ++i) sampler.Add(keys);
  EXPECT_EQ(sampler.num_keys(), uint64_t{2 * kMessages});
  EXPECT_NEAR(static_cast<double>(sampler.num_samples()), 2000, 270);
}

TEST(KeySamplerTest, NothingSeenIsNothingClaimed) {
  KeySampler sampler({});
  EXPECT_TRUE(sampler.Top(10).empty());
  const ShareEstimate estimate = sampler.Estimate({Key{3}})[0];
  EXPECT_EQ(estimate.share, 0);
  EXPECT_EQ(estimate.error, 1);
}

TEST(HotKeysTest, TopIsOrderedByPullsAndPushesTogether) {
  HotKeys hot({.sample_interval = 1, .capacity = 16});
  const auto add = [](KeySampler& sampler, uint64_t key, int times) {
    const std::vector<Key> keys = {Key{key}};
    for (int i = 0; i < times; ++i) sampler.Add(keys);
  };
  add(hot.pulls(), 1, 60);
  add(hot.pulls(), 2, 50);
  add(hot.pulls(), 3, 10);
  add(hot.pushes(), 2, 30);
  add(hot.pushes(), 4, 70);
  const std::vector<HotKeys::HotKey> top = hot.Top(3);
  ASSERT_EQ(top.size(), 3u);
  EXPECT_EQ(top[0].key, Key{2});
  EXPECT_EQ(top[1].key, Key{4});
  EXPECT_EQ(top[2].key, Key{1});
  EXPECT_DOUBLE_EQ(top[0].pulls.share, 50.0 / 120);
  EXPECT_DOUBLE_EQ(top[0].pushes.share, .3);
  EXPECT_EQ(top[1].pulls.share, 0);
  EXPECT_EQ(top[0].pulls.error, 0);
}

TEST(HotKeysTest, SamplesOfPullsAndPushesAreIndependent) {
  constexpr size_t kInterval = 16;
  constexpr size_t kMessages = 16000;
  HotKeys hot(
      {.sample_interval = kInterval, .capacity = 2 * kMessages, .seed = 3});
  for (uint64_t i = 0; i < kMessages; ++i) {
    hot.pulls().Add({Key{i}});
    hot.pushes().Add({Key{i}});
  }
  const std::vector<Key> pulled = hot.pulls().Top(kMessages);
  const std::vector<Key> pushed = hot.pushes().Top(kMessages);
  const absl::flat_hash_set<Key> both(pulled.begin(), pulled.end());
  const auto common =
      std::count_if(pushed.begin(), pushed.end(),
                    [&both](const Key& key) { return both.contains(key); });
  // 62.5 expected, with a standard deviation of 8; all 1,000 if they were one.
  EXPECT_NEAR(static_cast<double>(common), 62.5, 50);
}

TEST(HotKeysTest, ThreadsMayFeedItWhileOthersAsk) {
  constexpr int kThreads = 4;
  constexpr int kMessages = 3000;
  HotKeys hot({.sample_interval = 4, .capacity = 32, .seed = 1});
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&hot, t] {
      // Key 0 is in every message.
      for (uint64_t i = 0; i < kMessages; ++i) {
        const std::vector<Key> keys = {Key{0}, Key{1 + i % 50},
                                       Key{100 + i + 10000 * uint64_t(t)}};
        hot.pulls().Add(keys);
        hot.pushes().Add(keys);
      }
    });
  }
  for (int i = 0; i < 200; ++i) {
    for (const HotKeys::HotKey& key : hot.Top(5)) {
      EXPECT_LE(key.pulls.share, 1);
    }
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(hot.pulls().num_keys(), uint64_t{3 * kThreads * kMessages});
  EXPECT_EQ(hot.pushes().num_keys(), uint64_t{3 * kThreads * kMessages});
  EXPECT_GT(hot.pulls().num_samples(), 0u);
  EXPECT_LE(hot.pulls().num_samples(), hot.pulls().num_keys() / 2);
  const std::vector<HotKeys::HotKey> top = hot.Top(1);
  ASSERT_EQ(top.size(), 1u);
  EXPECT_EQ(top[0].key, Key{0});
  EXPECT_NEAR(top[0].pulls.share, 1.0 / 3, top[0].pulls.error);
}

}  // namespace
}  // namespace oarlock::pserver
