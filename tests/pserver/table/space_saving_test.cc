#include "pserver/table/space_saving.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/random.h"
#include "tests/pserver/table/zipf_testing.h"

namespace oarlock::pserver {
namespace {

// Exact counts beside the sketch, and the promises of its header.
class Model {
 public:
  explicit Model(size_t capacity) : capacity_(capacity), sketch_(capacity) {}

  void Add(Key key) {
    ++exact_[key];
    ++total_;
    sketch_.Add(key);
  }

  void Check() const {
    ASSERT_EQ(sketch_.total(), total_);
    ASSERT_LE(sketch_.least_count(), total_ / capacity_);
    const std::vector<SpaceSaving::Count> all = sketch_.Top(capacity_ + 1);
    ASSERT_EQ(all.size(), std::min(capacity_, exact_.size()));
    uint64_t sum = 0;
    std::map<Key, SpaceSaving::Count> counted;
    for (size_t i = 0; i < all.size(); ++i) {
      sum += all[i].count;
      counted[all[i].key] = all[i];
      if (i > 0) {
        ASSERT_LE(all[i].count, all[i - 1].count);
      }
      const uint64_t exact = exact_.at(all[i].key);
      ASSERT_LE(exact, all[i].count);
      ASSERT_GE(exact + all[i].error, all[i].count);
    }
    // Nothing is lost, nothing is counted twice.
    ASSERT_EQ(sum, total_);
    ASSERT_EQ(counted.size(), all.size());
    for (const auto& [key, exact] : exact_) {
      const SpaceSaving::Count found = sketch_.Find(key);
      if (counted.contains(key)) {
        ASSERT_EQ(found.count, counted[key].count);
        ASSERT_EQ(found.error, counted[key].error);
      } else {
        ASSERT_LE(exact, sketch_.least_count());
        ASSERT_EQ(found.count, sketch_.least_count());
        ASSERT_EQ(found.error, sketch_.least_count());
      }
      if (exact > total_ / capacity_) {
        ASSERT_TRUE(counted.contains(key));
      }
    }
  }

 private:
  const size_t capacity_;
  SpaceSaving sketch_;
  std::map<Key, uint64_t> exact_;
  uint64_t total_ = 0;
};

struct Stream {
  const char* name;
  std::function<uint64_t(RandomSequence*, uint64_t)> key;
};

const Stream kStreams[] = {
    {"Zipf", [](RandomSequence* r, uint64_t) { return ZipfRank(r, 100000); }},
    {"uniform", [](RandomSequence* r, uint64_t) { return r->Below(500); }},
    // Each newcomer takes the counter of the last one.
    {"round robin", [](RandomSequence*, uint64_t i) { return i % 101; }},
    {"all new", [](RandomSequence*, uint64_t i) { return i; }},
    {"one key", [](RandomSequence*, uint64_t) { return uint64_t{7}; }},
    {"one key among new ones",
     [](RandomSequence*, uint64_t i) { return i % 3 == 0 ? 7 : 1000 + i; }},
    {"falling frequency",
     [](RandomSequence* r, uint64_t i) { return r->Below(1 + i / 50); }},
};

TEST(SpaceSavingTest, BoundsHoldForEveryStreamAndCapacity) {
  constexpr uint64_t kSteps = 20000;
  for (const Stream& stream : kStreams) {
    for (const size_t capacity : {1, 2, 10, 100, 1000}) {
      for (uint64_t seed = 1; seed <= 3; ++seed) {
        SCOPED_TRACE(absl::StrCat(stream.name, ", capacity ", capacity,
                                  ", seed ", seed));
        RandomSequence random(seed);
        Model model(capacity);
        for (uint64_t i = 0; i < kSteps; ++i) {
          model.Add(Key{stream.key(&random, i)});
          if (i % 2503 == 0 || i < 20) {
            ASSERT_NO_FATAL_FAILURE(model.Check());
          }
        }
        ASSERT_NO_FATAL_FAILURE(model.Check());
      }
    }
  }
}

TEST(SpaceSavingTest, FewKeysAreCountedExactly) {
  SpaceSaving sketch(3);
  for (const uint64_t key : {5, 9, 5, 5, 9, 1}) sketch.Add(Key{key});
  const std::vector<SpaceSaving::Count> top = sketch.Top(2);
  ASSERT_EQ(top.size(), 2u);
  EXPECT_EQ(top[0].key, Key{5});
  EXPECT_EQ(top[0].count, 3u);
  EXPECT_EQ(top[0].error, 0u);
  EXPECT_EQ(top[1].key, Key{9});
  EXPECT_EQ(top[1].count, 2u);
}

TEST(SpaceSavingTest, NewKeyTakesTheSmallestCounterWithItsCountAsError) {
  SpaceSaving sketch(2);
  for (const uint64_t key : {5, 5, 5, 9, 9, 1}) sketch.Add(Key{key});
  EXPECT_EQ(sketch.Find(Key{1}).count, 3u);
  EXPECT_EQ(sketch.Find(Key{1}).error, 2u);
  // Gone: at most the least count.
  EXPECT_EQ(sketch.Find(Key{9}).count, 3u);
  EXPECT_EQ(sketch.Find(Key{9}).error, 3u);
}

}  // namespace
}  // namespace oarlock::pserver
