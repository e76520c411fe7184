#include "worker/config/training_mode.h"

#include <gtest/gtest.h>

#include <set>

#include "flags/message_flags.h"

namespace oarlock::worker {
namespace {

TEST(TrainingModeTest, EveryLegalTextIsAModeOfItsOwn) {
  std::set<TrainingMode> modes;
  const auto* const field =
      v1::JobConfig::descriptor()->FindFieldByName("mode");
  for (const std::string& text : flags::FlagChoices(field)) {
    v1::JobConfig config;
    config.set_mode(text);
    EXPECT_TRUE(modes.insert(ModeOf(config)).second) << text;
  }
  EXPECT_EQ(modes.size(), 5u);
}

TEST(TrainingModeTest, AsyncIsTheDefault) {
  EXPECT_EQ(ModeOf(v1::JobConfig()), TrainingMode::kAsync);
}

}  // namespace
}  // namespace oarlock::worker
