#include "optim/rate_schedule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

namespace oarlock::optim {
namespace {

using Schedule = v1::LearningRateSchedule;

RateSchedule Make(const std::function<void(Schedule*)>& set,
                  uint32_t warmup_steps = 0) {
  v1::OptimizerConfig config;
  config.set_warmup_steps(warmup_steps);
  set(config.mutable_schedule());
  absl::StatusOr<RateSchedule> schedule = RateSchedule::Create(config);
  EXPECT_TRUE(schedule.ok()) << schedule.status();
  return *schedule;
}

void AddPiece(uint64_t until_step, float factor, Schedule* schedule) {
  auto* piece = schedule->mutable_piecewise()->add_pieces();
  piece->set_until_step(until_step);
  piece->set_factor(factor);
}

TEST(RateScheduleTest, NothingConfiguredIsTheLearningRateItself) {
  const RateSchedule schedule = Make([](Schedule*) {});
  for (const uint64_t step : {uint64_t{1}, uint64_t{2}, ~uint64_t{0}}) {
    EXPECT_EQ(schedule.Factor(step), 1);
  }
}

TEST(RateScheduleTest, WarmUpRisesLinearlyAndThenStops) {
  const RateSchedule schedule = Make([](Schedule*) {}, 4);
  std::vector<float> factors;
  for (uint64_t step = 1; step <= 6; ++step) {
    factors.push_back(schedule.Factor(step));
  }
  EXPECT_EQ(factors, (std::vector<float>{.25f, .5f, .75f, 1, 1, 1}));
}

TEST(RateScheduleTest, ExponentialFallsByItsRateInItsSteps) {
  const RateSchedule schedule = Make([](Schedule* s) {
    s->mutable_exponential()->set_steps(100);
    s->mutable_exponential()->set_rate(0.5f);
  });
  EXPECT_FLOAT_EQ(schedule.Factor(50), std::sqrt(0.5f));
  EXPECT_FLOAT_EQ(schedule.Factor(100), 0.5f);
  EXPECT_FLOAT_EQ(schedule.Factor(300), 0.125f);
}

TEST(RateScheduleTest, StepHoldsForItsStepsAndThenFallsByItsRate) {
  const RateSchedule schedule = Make([](Schedule* s) {
    s->mutable_step()->set_steps(100);
    s->mutable_step()->set_rate(0.5f);
  });
  EXPECT_EQ(schedule.Factor(1), 1);
  EXPECT_EQ(schedule.Factor(100), 1);
  EXPECT_EQ(schedule.Factor(101), 0.5f);
  EXPECT_EQ(schedule.Factor(200), 0.5f);
  EXPECT_EQ(schedule.Factor(201), 0.25f);
}

TEST(RateScheduleTest, PolynomialEndsAtItsFactorAndStaysThere) {
  const RateSchedule line = Make([](Schedule* s) {
    s->mutable_polynomial()->set_steps(10);
    s->mutable_polynomial()->set_end_factor(0.2f);
  });
  EXPECT_FLOAT_EQ(line.Factor(1), 0.92f);
  EXPECT_FLOAT_EQ(line.Factor(5), 0.6f);
  EXPECT_FLOAT_EQ(line.Factor(10), 0.2f);
  EXPECT_FLOAT_EQ(line.Factor(1000), 0.2f);
  const RateSchedule square = Make([](Schedule* s) {
    s->mutable_polynomial()->set_steps(10);
    s->mutable_polynomial()->set_power(2);
  });
  EXPECT_FLOAT_EQ(square.Factor(5), 0.25f);
  EXPECT_EQ(square.Factor(10), 0);
  const RateSchedule none = Make([](Schedule* s) {
    s->mutable_polynomial()->set_steps(10);
    s->mutable_polynomial()->set_power(0);
  });
  EXPECT_EQ(none.Factor(5), 1);
}

TEST(RateScheduleTest, CosineIsHalfWayDownAtHalfOfItsSteps) {
  const RateSchedule schedule = Make([](Schedule* s) {
    s->mutable_cosine()->set_steps(200);
    s->mutable_cosine()->set_end_factor(0.1f);
  });
  EXPECT_NEAR(schedule.Factor(1), 1, 1e-3);
  EXPECT_FLOAT_EQ(schedule.Factor(100), 0.55f);
  EXPECT_FLOAT_EQ(schedule.Factor(200), 0.1f);
  EXPECT_FLOAT_EQ(schedule.Factor(201), 0.1f);
}

TEST(RateScheduleTest, APieceHoldsUpToItsStepAndTheLastOneForEver) {
  const RateSchedule schedule = Make([](Schedule* s) {
    AddPiece(10, 1, s);
    AddPiece(20, 0.5f, s);
    AddPiece(21, 0.25f, s);
  });
  EXPECT_EQ(schedule.Factor(1), 1);
  EXPECT_EQ(schedule.Factor(10), 1);
  EXPECT_EQ(schedule.Factor(11), 0.5f);
  EXPECT_EQ(schedule.Factor(20), 0.5f);
  EXPECT_EQ(schedule.Factor(21), 0.25f);
  EXPECT_EQ(schedule.Factor(22), 0.25f);
}

TEST(RateScheduleTest, WarmUpAndScheduleAreMultiplied) {
  const RateSchedule schedule =
      Make([](Schedule* s) { s->mutable_polynomial()->set_steps(8); }, 4);
  EXPECT_FLOAT_EQ(schedule.Factor(2), 0.5f * 0.75f);
  EXPECT_FLOAT_EQ(schedule.Factor(4), 0.5f);
}

TEST(RateScheduleTest, WhatIsOutOfRangeIsRefusedByName) {
  const auto refused = [](const std::function<void(Schedule*)>& set,
                          const std::string& name) {
    v1::OptimizerConfig config;
    set(config.mutable_schedule());
    const absl::Status status = RateSchedule::Create(config).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << name;
    EXPECT_NE(status.message().find(name), std::string::npos) << status;
  };
  refused([](Schedule* s) { s->mutable_exponential()->set_rate(1); },
          "exponential.steps");
  refused([](Schedule* s) { s->mutable_exponential()->set_steps(1); },
          "exponential.rate");
  refused([](Schedule* s) { s->mutable_step()->set_rate(1); }, "step.steps");
  refused([](Schedule* s) { s->mutable_step()->set_steps(1); }, "step.rate");
  refused([](Schedule* s) { s->mutable_polynomial(); }, "polynomial.steps");
  refused(
      [](Schedule* s) {
        s->mutable_polynomial()->set_steps(1);
        s->mutable_polynomial()->set_end_factor(-1);
      },
      "polynomial.end_factor");
  refused(
      [](Schedule* s) {
        s->mutable_polynomial()->set_steps(1);
        s->mutable_polynomial()->set_power(-1);
      },
      "polynomial.power");
  refused([](Schedule* s) { s->mutable_cosine(); }, "cosine.steps");
  refused(
      [](Schedule* s) {
        s->mutable_cosine()->set_steps(1);
        s->mutable_cosine()->set_end_factor(
            std::numeric_limits<float>::infinity());
      },
      "cosine.end_factor");
  refused([](Schedule* s) { s->mutable_piecewise(); }, "piecewise.pieces");
  refused([](Schedule* s) { AddPiece(0, 1, s); }, "until_step is 0");
  refused(
      [](Schedule* s) {
        AddPiece(5, 1, s);
        AddPiece(5, 0.5f, s);
      },
      "until_step is 5 after 5");
  refused([](Schedule* s) { AddPiece(5, -1, s); }, "factor");
}

}  // namespace
}  // namespace oarlock::optim
