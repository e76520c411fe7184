#include "fleet/data_parallel/training_summary.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/time/time.h"

namespace oarlock {
namespace {

nlohmann::json Written(const ClassificationSummary& summary) {
  const std::string path = ::testing::TempDir() + "/summary.json";
  const absl::Status status = WriteClassificationSummary(summary, path);
  EXPECT_TRUE(status.ok()) << status;
  std::ifstream file(path);
  return nlohmann::json::parse(file);
}

TEST(TrainingSummaryTest, TimesAreSecondsOfTheRunAndFinalsMeansOfAStep) {
  ClassificationSummary summary;
  summary.name = "mnist";
  summary.gradient_bytes = 4000;
  summary.times.updates = 10;
  summary.times.forward = absl::Seconds(2);
  summary.times.backward = absl::Seconds(4);
  summary.times.update = absl::Milliseconds(500);
  summary.times.exchange.communication = absl::Seconds(3);
  summary.times.exchange.exposed = absl::Seconds(1);
  summary.times.finals = {{600, absl::Seconds(1), 10},
                          {0, absl::Seconds(4), 10}};
  const nlohmann::json json = Written(summary);
  EXPECT_EQ(json["updates"], 10);
  EXPECT_EQ(json["gradient_bytes"], 4000);
  EXPECT_EQ(json["forward_seconds"], 2.0);
  EXPECT_EQ(json["backward_seconds"], 4.0);
  EXPECT_EQ(json["update_seconds"], 0.5);
  EXPECT_EQ(json["communication_seconds"], 3.0);
  EXPECT_EQ(json["exposed_communication_seconds"], 1.0);
  EXPECT_EQ(json["gradients_final"],
            nlohmann::json::parse(R"([{"first_byte": 2400, "seconds": 0.1},
                                      {"first_byte": 0, "seconds": 0.4}])"));
}

TEST(TrainingSummaryTest, ARunWithoutUpdatesHasNoGradients) {
  const nlohmann::json json = Written({});
  EXPECT_EQ(json["updates"], 0);
  EXPECT_EQ(json["gradients_final"], nlohmann::json::array());
  EXPECT_FALSE(json.contains("test_accuracy"));
}

}  // namespace
}  // namespace oarlock
