#include "examples/images/args.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "optim/rate_schedule.h"

namespace images {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<Args> Parse(std::vector<std::string> words,
                           const v1::ImageConfig& defaults = {}) {
  words.insert(words.begin(), "train");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  return ParseArgs({.name = "train", .description = "Trains."}, defaults,
                   static_cast<int>(argv.size()), argv.data());
}

std::string ErrorOf(const std::vector<std::string>& words) {
  const absl::Status status = Parse(words).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message().find('\n'), std::string::npos) << status;
  return std::string(status.message());
}

// What the flags make of the learning rate in step number `step`, from 1.
double RateOf(const v1::ImageConfig& config, uint64_t updates, uint64_t step,
              uint64_t update_images = 1) {
  const oarlock::v1::OptimizerConfig optimizer =
      OptimizerOf(config, updates, update_images);
  const auto schedule = oarlock::optim::RateSchedule::Create(optimizer);
  EXPECT_TRUE(schedule.ok()) << schedule.status();
  return optimizer.learning_rate() * schedule->Factor(step);
}

TEST(ImageArgsTest, TheStepScheduleDecaysAfterEachMilestone) {
  const auto args =
      Parse({"--learning_rate_schedule", "step", "--milestones", "3,6,8",
             "--decay_rate", "0.5", "--epochs", "9", "--learning_rate", "0.8"});
  ASSERT_TRUE(args.ok()) << args.status();
  constexpr uint64_t kStepsPerEpoch = 7;
  for (uint64_t step = 1; step <= 9 * kStepsPerEpoch; ++step) {
    const uint64_t epoch = (step - 1) / kStepsPerEpoch;  // from 0
    const int decays = (epoch >= 3) + (epoch >= 6) + (epoch >= 8);
    EXPECT_NEAR(RateOf(args->config, 9 * kStepsPerEpoch, step),
                0.8 * std::pow(0.5, decays), 1e-6)
        << "step " << step;
  }
}

TEST(ImageArgsTest, AShortRunLeavesOutMilestonesThatItDoesNotReach) {
  const auto args =
      Parse({"--learning_rate_schedule", "step", "--milestones", "30,60,80",
             "--epochs", "2", "--learning_rate", "0.1"});
  ASSERT_TRUE(args.ok()) << args.status();
  for (uint64_t step = 1; step <= 3; ++step) {
    EXPECT_FLOAT_EQ(RateOf(args->config, 3, step), 0.1);
  }
  // Two milestones within the first step of all, one within the second.
  const auto coarse =
      Parse({"--learning_rate_schedule", "step", "--milestones", "2,3,10",
             "--epochs", "20", "--learning_rate", "1"});
  ASSERT_TRUE(coarse.ok()) << coarse.status();
  EXPECT_NEAR(RateOf(coarse->config, 2, 1), 0.01, 1e-6);
  EXPECT_NEAR(RateOf(coarse->config, 2, 2), 0.001, 1e-7);
}

TEST(ImageArgsTest, WarmUpMayBeGivenInEpochs) {
  const auto args = Parse(
      {"--warmup_epochs", "1.5", "--epochs", "6", "--learning_rate", "0.3"});
  ASSERT_TRUE(args.ok()) << args.status();
  for (uint64_t step = 1; step <= 60; ++step) {
    EXPECT_NEAR(RateOf(args->config, 60, step),
                0.3 * std::min(1.0, step / 15.0), 1e-6);
  }
  const auto steps = Parse({"--warmup_steps", "4"});
  ASSERT_TRUE(steps.ok()) << steps.status();
  EXPECT_EQ(OptimizerOf(steps->config, 60, 1).warmup_steps(), 4u);
}

TEST(ImageArgsTest, TheLearningRateGrowsWithTheBatchOfAllWorkers) {
  const auto args =
      Parse({"--learning_rate", "0.1", "--base_batch_size", "256"});
  ASSERT_TRUE(args.ok()) << args.status();
  EXPECT_FLOAT_EQ(RateOf(args->config, 10, 5, 256), 0.1);
  EXPECT_FLOAT_EQ(RateOf(args->config, 10, 5, 8192), 3.2);
  EXPECT_FLOAT_EQ(RateOf(args->config, 10, 5, 32), 0.0125);
  const auto fixed = Parse({"--learning_rate", "0.1"});
  ASSERT_TRUE(fixed.ok()) << fixed.status();
  EXPECT_FLOAT_EQ(RateOf(fixed->config, 10, 5, 8192), 0.1);
}

TEST(ImageArgsTest, AZeroThatIsGivenIsAZero) {
  for (const char* const rule : {"adamw", "lars", "momentum"}) {
    const auto args =
        Parse({"--optimizer", rule, "--weight_decay", "0", "--momentum", "0"});
    ASSERT_TRUE(args.ok()) << args.status();
    const oarlock::v1::OptimizerConfig optimizer =
        OptimizerOf(args->config, /*updates=*/1, /*update_images=*/1);
    SCOPED_TRACE(optimizer.ShortDebugString());
    EXPECT_EQ(optimizer.has_adamw(), optimizer.adamw().has_weight_decay());
    EXPECT_EQ(optimizer.adamw().weight_decay(), 0);
    EXPECT_EQ(optimizer.has_lars(), optimizer.lars().has_weight_decay());
    EXPECT_EQ(optimizer.has_lars(), optimizer.lars().has_momentum());
    EXPECT_EQ(optimizer.has_momentum(), optimizer.momentum().has_momentum());
    EXPECT_EQ(optimizer.momentum().momentum(), 0);
  }
}

TEST(ImageArgsTest, FlagsThatDoNotFitEachOtherAreRefused) {
  EXPECT_THAT(ErrorOf({"--learning_rate_schedule", "step"}),
              HasSubstr("--milestones is empty"));
  for (const char* const milestones :
       {"30,x", "0", "-3", "30,30", "60,30", "nan", "inf"}) {
    EXPECT_THAT(ErrorOf({"--milestones", milestones}),
                HasSubstr("ascending numbers of epochs"))
        << milestones;
  }
  EXPECT_THAT(ErrorOf({"--warmup_steps", "5", "--warmup_epochs", "1"}),
              HasSubstr("legal is one of them"));
  for (const char* const format : {"float16", "bfloat16"}) {
    EXPECT_THAT(
        ErrorOf({"--collective_backend", "nccl", "--gradient_format", format}),
        HasSubstr("legal with nccl is float32"));
    EXPECT_TRUE(Parse({"--gradient_format", format}).ok());
  }
  EXPECT_TRUE(Parse({"--collective_backend", "nccl"}).ok());
  // A file's milestones may stay when another schedule overrides it.
  EXPECT_TRUE(
      Parse({"--learning_rate_schedule", "cosine", "--milestones", "30"}).ok());
}

TEST(ImageArgsTest, WhatIsNoDeviceIsRefusedInOneLine) {
  for (const char* const device : {"gpu:x", "tpu", "cuda"}) {
    EXPECT_THAT(ErrorOf({"--device", device}),
                HasSubstr(std::string("--device is \"") + device +
                          "\"; legal are cpu, gpu, gpu:N"));
  }
  EXPECT_THAT(ErrorOf({"--math", "tf32"}),
              HasSubstr("choose one, or --device"));
  // Whether there is one is seen by who computes on it.
  for (const char* const device : {"auto", "gpu", "gpu:3"}) {
    EXPECT_TRUE(Parse({"--device", device, "--math", "tf32"}).ok()) << device;
  }
}

}  // namespace
}  // namespace images
