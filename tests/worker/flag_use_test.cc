#include "worker/flag_use.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"

namespace oarlock {
namespace {

// What is said of a configuration; empty when it is legal.
std::string MessageOf(const std::function<void(v1::JobConfig&)>& set) {
  v1::JobConfig config;
  set(config);
  const absl::Status status = CheckFlagUse(config);
  EXPECT_TRUE(status.ok() || absl::IsInvalidArgument(status)) << status;
  return std::string(status.message());
}

TEST(FlagUseTest, DefaultsAreLegalWithEveryModeModelAndSchedule) {
  for (const char* mode : {"async", "half_async", "ssp", "sync", "geo"}) {
    EXPECT_EQ(MessageOf([&](auto& c) { c.set_mode(mode); }), "");
  }
  for (const char* model : {"lr", "fm", "deepfm"}) {
    EXPECT_EQ(MessageOf([&](auto& c) { c.set_model(model); }), "");
  }
  EXPECT_EQ(
      MessageOf([](auto& c) { c.set_learning_rate_schedule("piecewise"); }),
      "");
}

TEST(FlagUseTest, AFlagWithoutEffectIsRefusedWithWhatWouldGiveItOne) {
  EXPECT_EQ(MessageOf([](auto& c) { c.set_staleness_bound(2); }),
            "--staleness_bound is set, but --mode is async; legal is with "
            "--mode ssp; leave --staleness_bound out, or change --mode");
  EXPECT_EQ(MessageOf([](auto& c) { c.set_schedule_steps(2); }),
            "--schedule_steps is set, but --learning_rate_schedule is "
            "constant; legal is with --learning_rate_schedule exponential, "
            "polynomial, cosine, step; leave --schedule_steps out, or change "
            "--learning_rate_schedule");
}

TEST(FlagUseTest, EachIsRefusedInOneCaseAndLegalInTheOther) {
  using Set = std::function<void(v1::JobConfig&)>;
  struct Case {
    Set flag, without, with;
  };
  const auto mode = [](const char* name) {
    return Set([name](v1::JobConfig& c) { c.set_mode(name); });
  };
  const auto model = [](const char* name) {
    return Set([name](v1::JobConfig& c) { c.set_model(name); });
  };
  const auto schedule = [](const char* name) {
    return Set(
        [name](v1::JobConfig& c) { c.set_learning_rate_schedule(name); });
  };
  const std::vector<Case> cases = {
      {[](auto& c) { c.set_staleness_bound(4); }, mode("sync"), mode("ssp")},
      {[](auto& c) { c.set_dense_quorum(0); }, mode("sync"), mode("async")},
      {[](auto& c) { c.set_dense_quorum(1); }, mode("geo"),
       mode("half_async")},
      {[](auto& c) { c.set_row_cache_rows(9); }, mode("sync"), mode("async")},
      {[](auto& c) { c.set_row_cache_rows(9); }, mode("geo"),
       mode("half_async")},
      {[](auto& c) { c.set_row_cache_rows(9); }, mode("ssp"), mode("async")},
      {[](auto& c) { c.set_row_cache_steps(9); },
       [](auto& c) { c.set_row_cache_rows(0); },
       [](auto& c) { c.set_row_cache_rows(9); }},
      {[](auto& c) { c.set_hidden_sizes("8"); }, model("lr"),
       model("autoint")},
      {[](auto& c) { c.set_hidden_sizes("8"); }, model("ffm"), model("dlrm")},
      {[](auto& c) { c.set_schedule_steps(8); }, schedule("piecewise"),
       schedule("cosine")},
      {[](auto& c) { c.set_schedule_decay_rate(.5); }, schedule("cosine"),
       schedule("step")},
      {[](auto& c) { c.set_schedule_end_factor(.5); }, schedule("step"),
       schedule("polynomial")},
      {[](auto& c) { c.set_schedule_power(2); }, schedule("cosine"),
       schedule("polynomial")},
      {[](auto& c) { c.set_schedule_pieces("1:1"); }, schedule("constant"),
       schedule("piecewise")},
  };
  for (const Case& c : cases) {
    const auto both = [&](const Set& other) {
      return MessageOf([&](v1::JobConfig& config) {
        c.flag(config);
        other(config);
      });
    };
    const std::string message = both(c.without);
    EXPECT_NE(message.find(" is set, but --"), std::string::npos) << message;
    EXPECT_EQ(both(c.with), "");
  }
}

TEST(FlagUseTest, AQuorumIsAShareOrAutomatic) {
  for (const double legal : {-1., 0., .75, 1.}) {
    EXPECT_EQ(MessageOf([&](auto& c) { c.set_dense_quorum(legal); }), "");
  }
  EXPECT_EQ(MessageOf([](auto& c) { c.set_dense_quorum(-.5); }),
            "--dense_quorum is -0.5; legal is 0 to 1, a share of the workers, "
            "or -1; leave it out, and it is chosen by the number of threads");
}

}  // namespace
}  // namespace oarlock
