#include "base/push_window.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <utility>

#include "base/random.h"

namespace oarlock {
namespace {

PushStamp Stamp(uint32_t worker, uint64_t generation, uint64_t sequence) {
  return {WorkerIndex(worker), Generation(generation), Sequence(sequence)};
}

TEST(PushWindowsTest, NothingIsAppliedAtFirst) {
  EXPECT_FALSE(PushWindows().Contains(Stamp(0, 1, 1)));
}

TEST(PushWindowsTest, OnlyWhatWasAddedIsApplied) {
  PushWindows windows;
  windows.Add(Stamp(3, 2, 5));
  EXPECT_TRUE(windows.Contains(Stamp(3, 2, 5)));
  EXPECT_FALSE(windows.Contains(Stamp(3, 2, 4)));
  EXPECT_FALSE(windows.Contains(Stamp(3, 2, 6)));
  EXPECT_FALSE(windows.Contains(Stamp(3, 1, 5)));
  EXPECT_FALSE(windows.Contains(Stamp(3, 3, 5)));
  EXPECT_FALSE(windows.Contains(Stamp(2, 2, 5)));
}

TEST(PushWindowsTest, SixtyFourBelowTheHighestIsFullyApplied) {
  PushWindows windows;
  windows.Add(Stamp(0, 1, 100));
  EXPECT_TRUE(windows.Contains(Stamp(0, 1, 36)));
  EXPECT_FALSE(windows.Contains(Stamp(0, 1, 37)));
  windows.Add(Stamp(0, 1, 101));
  EXPECT_TRUE(windows.Contains(Stamp(0, 1, 37)));
}

TEST(PushWindowsTest, ALateSequenceWithinTheWindowIsRemembered) {
  PushWindows windows;
  windows.Add(Stamp(0, 1, 64));
  windows.Add(Stamp(0, 1, 1));
  EXPECT_TRUE(windows.Contains(Stamp(0, 1, 1)));
  EXPECT_FALSE(windows.Contains(Stamp(0, 1, 2)));
  EXPECT_TRUE(windows.Contains(Stamp(0, 1, 64)));
}

TEST(PushWindowsTest, ForgetsGenerationsUpToOneOfThatWorkerOnly) {
  PushWindows windows;
  for (uint32_t worker : {1, 2}) {
    for (uint64_t generation : {1, 2, 3}) {
      windows.Add(Stamp(worker, generation, 9));
    }
  }
  EXPECT_TRUE(windows.Forget(WorkerIndex(1), Generation(2)));
  EXPECT_FALSE(windows.Forget(WorkerIndex(1), Generation(2)));
  EXPECT_FALSE(windows.Forget(WorkerIndex(3), Generation(9)));
  EXPECT_FALSE(windows.Contains(Stamp(1, 1, 9)));
  EXPECT_FALSE(windows.Contains(Stamp(1, 2, 9)));
  EXPECT_TRUE(windows.Contains(Stamp(1, 3, 9)));
  EXPECT_TRUE(windows.Contains(Stamp(2, 1, 9)));
  EXPECT_EQ(windows.windows().size(), 4u);
}

// The model keeps every sequence ever added.
class ModelWindows {
 public:
  bool Contains(const PushStamp& stamp) const {
    const auto found = applied_.find(NameOf(stamp));
    if (found == applied_.end()) return false;
    const uint64_t highest = *found->second.rbegin();
    return stamp.sequence.value() + 64 <= highest ||
           found->second.count(stamp.sequence.value()) > 0;
  }
  void Add(const PushStamp& stamp) {
    applied_[NameOf(stamp)].insert(stamp.sequence.value());
  }
  bool Forget(WorkerIndex worker, Generation last) {
    return std::erase_if(applied_, [&](const auto& entry) {
             return entry.first.first == worker && entry.first.second <= last;
           }) > 0;
  }
  size_t size() const { return applied_.size(); }

 private:
  using Name = std::pair<WorkerIndex, Generation>;
  static Name NameOf(const PushStamp& stamp) {
    return {stamp.worker, stamp.generation};
  }
  std::map<Name, std::set<uint64_t>> applied_;
};

TEST(PushWindowsTest, RandomPushesAgreeWithASetOfAllSequences) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    RandomSequence random(seed);
    PushWindows windows;
    ModelWindows model;
    std::map<std::pair<uint32_t, uint64_t>, uint64_t> newest;
    for (int step = 0; step < 20000; ++step) {
      const uint32_t worker = static_cast<uint32_t>(random.Below(4));
      const uint64_t generation = 1 + random.Below(3);
      uint64_t& next = newest[{worker, generation}];
      // Mostly near the newest, sometimes far ahead or far behind.
      uint64_t sequence = next + 1 + random.Below(3);
      if (random.Below(2) == 0) sequence = 1 + next - random.Below(next + 1);
      if (random.Below(50) == 0) sequence = next + 1 + random.Below(200);
      const PushStamp stamp = Stamp(worker, generation, sequence);
      ASSERT_EQ(windows.Contains(stamp), model.Contains(stamp))
          << "step " << step << ", sequence " << sequence;
      if (random.Below(3) > 0) {
        windows.Add(stamp);
        model.Add(stamp);
        next = std::max(next, sequence);
        ASSERT_TRUE(windows.Contains(stamp));
      }
      if (random.Below(2000) == 0) {
        ASSERT_EQ(windows.Forget(WorkerIndex(worker), Generation(generation)),
                  model.Forget(WorkerIndex(worker), Generation(generation)));
      }
      if (random.Below(500) == 0) {
        PushWindows restored;
        restored.Restore(windows.windows());
        windows = restored;
      }
      ASSERT_EQ(windows.windows().size(), model.size());
    }
  }
}

}  // namespace
}  // namespace oarlock
