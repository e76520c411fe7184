#include "client/acknowledged_pushes.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/random.h"

namespace oarlock::client {
namespace {

constexpr ServerIndex kFirst(0);
constexpr ServerIndex kSecond(1);

TEST(AcknowledgedPushesTest, CountsWhatARestoredServerLacks) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    RandomSequence random(seed);
    AcknowledgedPushes pushes(2);
    // Cut and sequence of the pushes that each server acknowledged and did not
    // lose.
    std::vector<std::pair<uint64_t, uint64_t>> model[2];
    uint64_t newest = 0;
    for (int i = 0; i < 300; ++i) {
      if (random.Below(20) == 0) ++newest;
      const auto server = static_cast<uint32_t>(random.Below(2));
      // A push may carry the number before the newest.
      const uint64_t cut = newest - (newest > 0 ? random.Below(2) : 0);
      // Answers come in another order than pushes were sent in.
      const uint64_t sequence = (i + 1) ^ 1;
      pushes.Add(ServerIndex(server), cut, sequence, 1);
      model[server].emplace_back(cut, sequence);
      if (random.Below(30) != 0) continue;
      const uint64_t restored = newest - (newest > 0 ? random.Below(2) : 0);
      uint64_t lost = 0;
      std::erase_if(model[server], [&](const auto& push) {
        lost += push.first >= restored;
        return push.first >= restored;
      });
      ASSERT_EQ(pushes.CountFrom(ServerIndex(server), restored), lost);
      pushes.ForgetFrom(ServerIndex(server), restored);
      ASSERT_EQ(pushes.CountFrom(ServerIndex(server), restored), 0u);
    }
  }
}

TEST(AcknowledgedPushesTest, OldCutsCountWithTheOldestThatIsKept) {
  AcknowledgedPushes pushes(2);
  constexpr uint64_t kCuts = 3 * AcknowledgedPushes::kMaxCuts;
  for (uint64_t cut = 0; cut < kCuts; ++cut) {
    pushes.Add(kFirst, cut, cut + 1, 1);
  }
  EXPECT_EQ(pushes.CountFrom(kFirst, 0), kCuts);
  EXPECT_EQ(pushes.CountFrom(kFirst, kCuts - 2), 2u);
  EXPECT_EQ(pushes.CountFrom(kSecond, 0), 0u);
}

TEST(AcknowledgedPushesTest, TellsWhatALogLacksTheEndOf) {
  AcknowledgedPushes pushes(1);
  // Every third one has two messages.
  for (uint64_t s = 1; s <= 300; ++s) {
    pushes.Add(kFirst, s <= 200 ? 4 : 5, s, s % 3 == 0 ? 2 : 1);
  }
  AcknowledgedPushes::Messages replayed;
  for (uint64_t s = 240; s <= 290; ++s) replayed[s] = s % 3 == 0 ? 2 : 1;
  EXPECT_EQ(pushes.CountLost(kFirst, 4, replayed), 10u);
  EXPECT_EQ(pushes.CountLost(kFirst, 6, replayed), 0u);
  replayed[288] = 1;
  EXPECT_EQ(pushes.CountLost(kFirst, 4, replayed), 11u) << "a message of it";
  replayed.erase(287);
  EXPECT_EQ(pushes.CountLost(kFirst, 4, replayed), 12u) << "one between others";
  replayed[302] = 1;
  EXPECT_EQ(pushes.CountLost(kFirst, 4, replayed), 12u) << "none was answered";
  EXPECT_EQ(pushes.CountLost(kFirst, 5, {}), 100u) << "nothing is left";
}

}  // namespace
}  // namespace oarlock::client
