#include "worker/report/summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"

namespace oarlock::worker {
namespace {

using ::testing::HasSubstr;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

std::string PathOf(const std::string& name) {
  return absl::StrCat(::testing::TempDir(), "/summary_test_", name);
}

std::string WriteFile(const std::string& name, const std::string& content) {
  const std::string path = PathOf(name);
  std::ofstream(path) << content;
  return path;
}

TrainingSummary Example() {
  TrainingSummary summary;
  summary.model = "deepfm";
  summary.mode = "async";
  summary.servers = 2;
  summary.workers = 3;
  summary.epochs = 4;
  summary.examples = 123'456'789'012;
  summary.seconds = 12.5;
  summary.train_auc = .75;
  summary.train_logloss = .49;
  summary.test_auc = .7411;
  summary.test_logloss = 1. / 3;
  summary.test_examples = 13'714;
  summary.bad_lines = 7;
  summary.staleness_p50 = 1;
  summary.staleness_p99 = 15;
  summary.dense_staleness_p50 = 0;
  summary.dense_staleness_p99 = 3;
  summary.row_cache_hit_rate = .25;
  // Not in the order of the alphabet.
  summary.stage_seconds_per_step = {
      {"read", .001}, {"pull", .002}, {"compute", .006}, {"push", .0005}};
  return summary;
}

void ExpectSame(double a, double b) {
  EXPECT_TRUE(a == b || (std::isnan(a) && std::isnan(b))) << a << " " << b;
}

void ExpectSame(const TrainingSummary& a, const TrainingSummary& b) {
  EXPECT_EQ(a.model, b.model);
  EXPECT_EQ(a.mode, b.mode);
  EXPECT_EQ(a.servers, b.servers);
  EXPECT_EQ(a.workers, b.workers);
  EXPECT_EQ(a.epochs, b.epochs);
  EXPECT_EQ(a.examples, b.examples);
  EXPECT_EQ(a.seconds, b.seconds);
  ExpectSame(a.train_auc, b.train_auc);
  ExpectSame(a.train_logloss, b.train_logloss);
  ExpectSame(a.test_auc, b.test_auc);
  ExpectSame(a.test_logloss, b.test_logloss);
  EXPECT_EQ(a.test_examples, b.test_examples);
  EXPECT_EQ(a.bad_lines, b.bad_lines);
  ExpectSame(a.staleness_p50, b.staleness_p50);
  ExpectSame(a.staleness_p99, b.staleness_p99);
  ExpectSame(a.dense_staleness_p50, b.dense_staleness_p50);
  ExpectSame(a.dense_staleness_p99, b.dense_staleness_p99);
  ExpectSame(a.row_cache_hit_rate, b.row_cache_hit_rate);
  EXPECT_EQ(a.stage_seconds_per_step, b.stage_seconds_per_step);
}

TEST(SummaryTest, WrittenSummaryIsReadBack) {
  const std::string path = PathOf("round_trip.json");
  const TrainingSummary summary = Example();
  ASSERT_TRUE(WriteSummary(summary, path).ok());
  const absl::StatusOr<TrainingSummary> read = ReadSummary(path);
  ASSERT_TRUE(read.ok()) << read.status();
  ExpectSame(*read, summary);
  EXPECT_EQ(SummaryTable(*read), SummaryTable(summary));
  EXPECT_FALSE(std::filesystem::exists(path + ".tmp"));
}

TEST(SummaryTest, UnknownNumbersAreNullAndComeBackUnknown) {
  TrainingSummary summary = Example();
  summary.test_auc = summary.test_logloss = kNan;
  summary.staleness_p50 = summary.staleness_p99 = kNan;
  summary.stage_seconds_per_step.clear();
  const auto json = nlohmann::json::parse(SummaryJson(summary));
  EXPECT_TRUE(json.at("test_auc").is_null());
  EXPECT_TRUE(json.at("staleness_p99").is_null());
  const std::string path = PathOf("unknown.json");
  ASSERT_TRUE(WriteSummary(summary, path).ok());
  const absl::StatusOr<TrainingSummary> read = ReadSummary(path);
  ASSERT_TRUE(read.ok()) << read.status();
  ExpectSame(*read, summary);
}

TEST(SummaryTest, JsonHasEveryPromisedField) {
  const auto json = nlohmann::json::parse(SummaryJson(Example()));
  for (const char* field :
       {"examples", "examples_per_second", "seconds", "train_auc",
        "train_logloss", "test_auc", "test_logloss", "servers", "workers",
        "mode", "model"}) {
    EXPECT_TRUE(json.contains(field)) << field;
  }
  EXPECT_DOUBLE_EQ(json.at("examples_per_second").get<double>(),
                   123'456'789'012 / 12.5);
}

TEST(SummaryTest, NoTimeIsNoSpeed) {
  TrainingSummary summary = Example();
  summary.seconds = 0;
  const auto json = nlohmann::json::parse(SummaryJson(summary));
  EXPECT_EQ(json.at("examples_per_second").get<double>(), 0);
}

TEST(SummaryTest, MissingFileIsNamed) {
  const absl::Status status = ReadSummary(PathOf("missing.json")).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("missing.json"));
}

TEST(SummaryTest, FileThatIsNoSummaryIsNamed) {
  for (const char* content : {"", "{\"model\": ", "[1]", "\xff\xfe"}) {
    const std::string path = WriteFile("broken.json", content);
    const absl::Status status = ReadSummary(path).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << content;
    EXPECT_THAT(std::string(status.message()), HasSubstr(path));
  }
}

TEST(SummaryTest, FieldsOfAnotherTypeCountAsUnknown) {
  const std::string path = WriteFile(
      "types.json",
      R"({"model": 3, "mode": null, "examples": "many", "test_auc": [],
          "stage_seconds_per_step": {"read": "long", "push": 0.5}})");
  const absl::StatusOr<TrainingSummary> read = ReadSummary(path);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->model, "");
  EXPECT_EQ(read->mode, "");
  EXPECT_EQ(read->examples, 0u);
  EXPECT_TRUE(std::isnan(read->test_auc));
  ASSERT_EQ(read->stage_seconds_per_step.size(), 1u);
  EXPECT_EQ(read->stage_seconds_per_step[0].first, "push");
}

TEST(SummaryTest, TheNewestWarningIsShownAndAllAreKept) {
  TrainingSummary summary = Example();
  summary.warnings = {"train/0: bad", "test/0: \"worse\""};
  ASSERT_TRUE(WriteSummary(summary, PathOf("warnings.json")).ok());
  const auto read = ReadSummary(PathOf("warnings.json"));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->warnings, summary.warnings);
  EXPECT_THAT(SummaryTable(*read), HasSubstr("warning   test/0: \"worse\"\n"));
}

TEST(SummaryTest, LabelsThatAreAllTheSameHaveNoAuc) {
  TrainingSummary summary = Example();
  summary.test_auc = std::nan("");
  summary.test_label_mean = 1;
  summary.test_examples = 4000;
  ASSERT_TRUE(WriteSummary(summary, PathOf("one_class.json")).ok());
  const auto read = ReadSummary(PathOf("one_class.json"));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_THAT(SummaryTable(*read),
              HasSubstr("test      AUC cannot be told: all 4000 labels are 1"));
}

TEST(SummaryTest, FolderThatIsMissingIsNamed) {
  const absl::Status status =
      WriteSummary(Example(), PathOf("no/such/folder/summary.json"));
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("no/such/folder"));
}

v1::PhaseStatus* AddPhase(v1::JobStatusResponse* status,
                          const std::string& phase, uint32_t epoch,
                          uint64_t examples, double auc) {
  v1::PhaseStatus* added = status->add_phases();
  added->mutable_progress()->set_phase(phase);
  added->mutable_progress()->set_epoch(epoch);
  added->mutable_progress()->set_examples(examples);
  added->mutable_progress()->set_bad_lines(1);
  added->mutable_progress()->set_steps(10);
  added->set_auc(auc);
  added->set_logloss(1 - auc);
  return added;
}

TEST(SummaryTest, LastPhasesCountAndExamplesOfAllEpochsAddUp) {
  v1::JobStatusResponse status;
  AddPhase(&status, "train", 0, 100, .6);
  AddPhase(&status, "test", 0, 20, .61);
  v1::PhaseStatus* last = AddPhase(&status, "train", 1, 100, .7);
  AddPhase(&status, "test", 1, 20, .71);
  v1::StageTime* stage = last->mutable_progress()->add_stages();
  stage->set_stage("compute");
  stage->set_seconds(5);
  const TrainingSummary summary = SummaryOf(status);
  EXPECT_EQ(summary.examples, 200u);
  EXPECT_EQ(summary.test_examples, 20u);
  EXPECT_EQ(summary.bad_lines, 4u);
  EXPECT_EQ(summary.train_auc, .7);
  EXPECT_EQ(summary.test_auc, .71);
  EXPECT_DOUBLE_EQ(summary.train_logloss, 1 - .7);
  ASSERT_EQ(summary.stage_seconds_per_step.size(), 1u);
  EXPECT_EQ(summary.stage_seconds_per_step[0].second, .5);
}

TEST(SummaryTest, StalenessQuantilesAreUpperEndsOfBuckets) {
  v1::JobStatusResponse status;
  v1::PhaseProgress* progress =
      AddPhase(&status, "train", 0, 100, .6)->mutable_progress();
  // 60 steps at 0, 38 at 1, 2 at 4 to 7.
  for (uint64_t steps : {60, 38, 0, 2}) {
    progress->add_staleness_histogram(steps);
  }
  const TrainingSummary summary = SummaryOf(status);
  EXPECT_EQ(summary.staleness_p50, 0);
  EXPECT_EQ(summary.staleness_p99, 7);
}

TEST(SummaryTest, JobWithoutPhasesKnowsNothing) {
  const TrainingSummary summary = SummaryOf(v1::JobStatusResponse());
  EXPECT_EQ(summary.examples, 0u);
  EXPECT_TRUE(std::isnan(summary.train_auc));
  EXPECT_TRUE(std::isnan(summary.test_auc));
  EXPECT_TRUE(std::isnan(summary.staleness_p50));
}

}  // namespace
}  // namespace oarlock::worker
