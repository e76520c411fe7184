#include "client/acknowledged_pushes.h"

#include <gtest/gtest.h>

#include <cstdint>
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
    // Cuts of the pushes that each server acknowledged and did not lose.
    std::vector<uint64_t> model[2];
    uint64_t newest = 0;
    for (int i = 0; i < 300; ++i) {
      if (random.Below(20) == 0) ++newest;
      const auto server = static_cast<uint32_t>(random.Below(2));
      // A push may carry the number before the newest.
      const uint64_t cut = newest - (newest > 0 ? random.Below(2) : 0);
      pushes.Add(ServerIndex(server), cut);
      model[server].push_back(cut);
      if (random.Below(30) != 0) continue;
      const uint64_t restored = newest - (newest > 0 ? random.Below(2) : 0);
      uint64_t lost = 0;
      std::erase_if(model[server], [&](uint64_t number) {
        lost += number >= restored;
        return number >= restored;
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
  for (uint64_t cut = 0; cut < kCuts; ++cut) pushes.Add(kFirst, cut);
  EXPECT_EQ(pushes.CountFrom(kFirst, 0), kCuts);
  EXPECT_EQ(pushes.CountFrom(kFirst, kCuts - 2), 2u);
  EXPECT_EQ(pushes.CountFrom(kSecond, 0), 0u);
}

}  // namespace
}  // namespace oarlock::client
