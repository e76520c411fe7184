// Scores of files against those of each line by itself.

#include "fleet/serving/inference.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/random.h"
#include "data/parse/line_parser.h"
#include "fleet/local_cluster.h"
#include "tests/data/test_files.h"
#include "worker/config/table_plan.h"
#include "worker/dense/dense_parameters.h"
#include "worker/step/step_buffer.h"
#include "worker/trainer.h"

namespace oarlock {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class InferenceTest : public ::testing::Test {
 protected:
  InferenceTest() {
    config_.set_model("deepfm");
    config_.set_embedding_size(3);
    config_.set_init_range(0.5);
    model_ = *worker::ModelOf(config_);
    plan_ = *worker::PlanTables(model_->spec(), config_, /*num_workers=*/1);
    for (const v1::TableConfig& table : plan_.tables) {
      EXPECT_TRUE(client_.CreateTable(table).ok());
    }
    tables_ = {&client_, plan_.sparse_tables, plan_.dense_table};
    options_.data.sparse_feature_dim = 1000;
    options_.data.clocks.monotonic = &clock_;
  }

  // What the model says to each line alone; NaN where it is no example.
  std::vector<float> OneByOne(const std::vector<std::string>& lines) {
    worker::DenseParameters dense(&client_, plan_.dense_table);
    EXPECT_TRUE(dense.Pull().ok());
    const auto executor = model_->NewExecutor(1);
    const auto parser = data::NewLineParser(options_.data);
    std::vector<float> scores;
    std::string reason;
    for (const std::string& line : lines) {
      auto step = std::make_shared<worker::StepBuffer>(&model_->spec(), clock_);
      if (!parser->Append(line, &step->batch, &reason)) {
        scores.push_back(NAN);
        continue;
      }
      step->BuildKeys(client_.partition_bits());
      step->StartPull(&client_, plan_.sparse_tables, step);
      EXPECT_TRUE(step->WaitForPull().ok());
      nn::StepOutput output;
      executor->Predict(step->ModelInput(dense.Current()->values.data(), 1),
                        &output);
      scores.push_back(output.predictions[0]);
    }
    return scores;
  }

  absl::StatusOr<InferenceReport> Run(std::vector<float>* scores) {
    return Infer(*model_, tables_, options_,
                 [scores](absl::Span<const float> next) {
                   scores->insert(scores->end(), next.begin(), next.end());
                   return absl::OkStatus();
                 });
  }

  static void ExpectSame(const std::vector<float>& a,
                         const std::vector<float>& b) {
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) {
      if (std::isnan(a[i])) {
        EXPECT_TRUE(std::isnan(b[i])) << i;
      } else {
        EXPECT_NEAR(a[i], b[i], 1e-6) << i;
      }
    }
  }

  const SkippingClock clock_;
  TestFolder folder_;
  v1::JobConfig config_;
  std::unique_ptr<models::Model> model_;
  worker::TablePlan plan_;
  LocalParameterClient client_{16};
  InferenceTables tables_;
  InferenceOptions options_;
};

TEST_F(InferenceTest, ScoresAreThoseOfEachLineInTheOrderOfTheInput) {
  const uint64_t seed = ::testing::UnitTest::GetInstance()->random_seed() + 7;
  std::cout << "seed " << seed << "\n";
  RandomSequence random(seed);
  for (const int threads : {1, 4}) {
    for (const size_t batch_size : {1, 7, 512}) {
      std::vector<std::string> lines;
      options_.files.clear();
      for (int f = 0; f < 4; ++f) {
        std::string text;
        // An empty file, too.
        const uint64_t num_lines = f == 2 ? 0 : random.Below(200);
        for (uint64_t i = 0; i < num_lines; ++i) {
          lines.push_back(random.Below(10) == 0
                              ? "no line"
                              : data::RandomCriteoLine(random));
          absl::StrAppend(&text, lines.back(), "\n");
        }
        options_.files.push_back(folder_.Write(absl::StrCat("f", f), text));
      }
      options_.num_threads = threads;
      options_.batch_size = batch_size;
      std::vector<float> scores;
      const auto report = Run(&scores);
      ASSERT_TRUE(report.ok()) << report.status();
      ExpectSame(OneByOne(lines), scores);
      EXPECT_EQ(report->num_lines, lines.size());
      uint64_t bad = 0;
      for (const float score : scores) bad += std::isnan(score);
      EXPECT_EQ(report->num_bad_lines, bad);
    }
  }
  // Nobody got a row.
  for (const TableId table : plan_.sparse_tables) {
    EXPECT_EQ((*client_.tables().Find(table))->sparse->Stats().rows, 0u);
  }
}

TEST_F(InferenceTest, LinesWithoutLabelsHaveTheSameScoresAndNoAuc) {
  RandomSequence random(3);
  std::string labelled;
  std::string bare;
  for (int i = 0; i < 100; ++i) {
    const std::string line = data::RandomCriteoLine(random);
    absl::StrAppend(&labelled, line, "\n");
    absl::StrAppend(&bare, line.substr(2), "\n");
  }
  options_.files = {folder_.Write("labelled", labelled)};
  std::vector<float> expected;
  const auto with = Run(&expected);
  ASSERT_TRUE(with.ok());
  EXPECT_GT(with->auc, 0);
  EXPECT_GT(with->logloss, 0);
  options_.files = {folder_.Write("bare", bare)};
  options_.has_labels = false;
  std::vector<float> scores;
  const auto without = Run(&scores);
  ASSERT_TRUE(without.ok());
  EXPECT_EQ(scores, expected);
  EXPECT_TRUE(std::isnan(without->auc));
  EXPECT_TRUE(std::isnan(without->logloss));
}

TEST_F(InferenceTest, LabelThatIsThereOrNotAgainstTheFlagIsReported) {
  using Format = data::DataOptions::Format;
  options_.data.bad_lines_max = 0;
  options_.data.multi_slot_dense_dim = 1;
  options_.data.multi_slot_num_slots = 1;
  const auto message_of = [&](Format format, bool has_labels,
                              const std::string& line) {
    options_.data.format = format;
    options_.has_labels = has_labels;
    options_.files = {folder_.Write("line", line + "\n")};
    std::vector<float> scores;
    const absl::Status status = Run(&scores).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    return std::string(status.message());
  };
  const std::string labelled_criteo = data::NumberedLine(1);
  const struct {
    Format format;
    std::string labelled;
    std::string bare;
  } cases[] = {
      {Format::kCriteo, labelled_criteo, labelled_criteo.substr(2)},
      {Format::kLibsvm, "1 3:1 5:0.5", "3:1 5:0.5"},
      {Format::kMultiSlot, "1 0.5 2 7 8 1 1", "1 0.5 2 7 8"},
  };
  for (const auto& lines : cases) {
    EXPECT_THAT(message_of(lines.format, /*has_labels=*/true, lines.bare),
                HasSubstr("where lines have none, add --labels false"));
    EXPECT_THAT(message_of(lines.format, /*has_labels=*/false, lines.labelled),
                HasSubstr("line:1: the line has a label, and --labels is "
                          "false; where lines have labels, leave it out"));
  }
  EXPECT_THAT(message_of(Format::kCriteo, /*has_labels=*/true,
                         labelled_criteo.substr(2)),
              HasSubstr("39 fields"));
  // What is wrong in both ways has nothing to do with the flag.
  EXPECT_THAT(message_of(Format::kCriteo, /*has_labels=*/true, "no line"),
              Not(HasSubstr("--labels")));
  EXPECT_THAT(message_of(Format::kLibsvm, /*has_labels=*/true, ""),
              Not(HasSubstr("--labels")));
  EXPECT_THAT(message_of(Format::kCriteo, /*has_labels=*/false, "no line"),
              HasSubstr("2 fields, a Criteo line has 40 (label, 13 integers, "
                        "26 categories) between tabs (counting the label, "
                        "which --labels false puts there)"));
}

TEST_F(InferenceTest, CommentsOfLibsvmHaveNoScoreAndAreNotMalformed) {
  config_.set_model("lr");
  config_.set_data_format("libsvm");
  model_ = *worker::ModelOf(config_);
  // Its rows have the width of another model's: it gets a client of its own.
  LocalParameterClient client{16};
  plan_ = *worker::PlanTables(model_->spec(), config_, /*num_workers=*/1);
  for (const v1::TableConfig& table : plan_.tables) {
    ASSERT_TRUE(client.CreateTable(table).ok());
  }
  tables_ = {&client, plan_.sparse_tables, plan_.dense_table};
  options_.data.format = data::DataOptions::Format::kLibsvm;
  options_.data.bad_lines_max = 0;
  options_.batch_size = 2;
  for (const bool has_labels : {true, false}) {
    SCOPED_TRACE(has_labels);
    options_.has_labels = has_labels;
    const char* const label = has_labels ? "1 " : "";
    options_.files = {folder_.Write(
        "lines", absl::StrCat("# by a tool\n", label, "3:1\n  # more\n", label,
                              "4:0.5 # behind\n#\n", label, "5:1\n#\n"))};
    std::vector<float> scores;
    const auto report = Run(&scores);
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(report->num_lines, 7u);
    EXPECT_EQ(report->num_comments, 4u);
    EXPECT_EQ(report->num_bad_lines, 0u);
    // Nothing was trained.
    ExpectSame({NAN, .5f, NAN, .5f, NAN, .5f, NAN}, scores);
    EXPECT_EQ(std::isnan(report->logloss), !has_labels);
  }
}

TEST_F(InferenceTest, LinesThatAreAllMalformedAreAnError) {
  options_.files = {folder_.Write("empty", ""), folder_.Write("bad", "a\nb\n")};
  std::vector<float> scores;
  const absl::Status status = Run(&scores).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("all that was read are 2 malformed lines"));
  // An empty file has no scores.
  options_.files = {options_.files[0]};
  scores.clear();
  ASSERT_TRUE(Run(&scores).ok());
  EXPECT_EQ(scores.size(), 0u);
}

TEST_F(InferenceTest, TheFirstErrorEndsItOnAllThreads) {
  RandomSequence random(5);
  std::string text;
  for (int i = 0; i < 500; ++i) {
    absl::StrAppend(&text, data::RandomCriteoLine(random), "\n");
  }
  options_.files = {folder_.Write("lines", text)};
  options_.num_threads = 4;
  options_.batch_size = 10;
  int calls = 0;
  const auto full = Infer(*model_, tables_, options_,
                          [&](absl::Span<const float>) -> absl::Status {
                            if (++calls < 5) return absl::OkStatus();
                            return absl::ResourceExhaustedError("disk full");
                          });
  EXPECT_TRUE(absl::IsResourceExhausted(full.status())) << full.status();
  EXPECT_EQ(calls, 5);
  std::vector<float> scores;
  options_.files.push_back(folder_.Path("missing"));
  EXPECT_TRUE(absl::IsNotFound(Run(&scores).status()));
  options_.files = {folder_.Write("bad", "no\nline\n" + text)};
  options_.data.bad_lines_max = 1;
  const absl::Status bad = Run(&scores).status();
  EXPECT_TRUE(absl::IsInvalidArgument(bad));
  EXPECT_THAT(std::string(bad.message()), HasSubstr("--bad_lines_max"));
}

}  // namespace
}  // namespace oarlock
