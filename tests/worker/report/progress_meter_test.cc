#include "worker/report/progress_meter.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/random.h"

namespace oarlock::worker {
namespace {

const PhaseId kTrain{"train", 2};
const PhaseId kTest{"test", 2};

// What the reports of one phase add up to.
struct Sum {
  uint64_t examples = 0;
  uint64_t steps = 0;
  uint64_t bad_lines = 0;
  double loss = 0;
  double labels = 0;
  double predictions = 0;
  AucHistogram auc;
  std::map<std::string, double> seconds;
  std::vector<uint64_t> staleness;

  void Add(const v1::PhaseProgress& report) {
    examples += report.examples();
    steps += report.steps();
    bad_lines += report.bad_lines();
    loss += report.loss_sum();
    labels += report.label_sum();
    predictions += report.prediction_sum();
    ASSERT_EQ(report.buckets_size(), report.positives_size());
    ASSERT_EQ(report.buckets_size(), report.negatives_size());
    for (int i = 0; i < report.buckets_size(); ++i) {
      ASSERT_TRUE(auc.AddBucket(report.buckets(i), report.positives(i),
                                report.negatives(i)));
    }
    for (const v1::StageTime& stage : report.stages()) {
      seconds[stage.stage()] += stage.seconds();
    }
    for (int i = 0; i < report.staleness_histogram_size(); ++i) {
      if (staleness.size() <= static_cast<size_t>(i)) staleness.resize(i + 1);
      staleness[i] += report.staleness_histogram(i);
    }
  }
};

TEST(ProgressMeterTest, ReportsAddUpToWhatHappened) {
  const uint64_t seed = 11;
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  RandomSequence random(seed);
  ProgressMeter meter;
  Sum expected;
  Sum reported;
  PhaseTotals totals;
  for (int step = 0; step < 200; ++step) {
    std::vector<float> labels;
    std::vector<float> predictions;
    double loss = 0;
    for (uint64_t i = random.Below(20); i > 0; --i) {
      labels.push_back(static_cast<float>(random.Below(2)));
      // Better than chance, so that the AUC is not .5.
      predictions.push_back(
          static_cast<float>((random.Uniform() + labels.back()) / 2));
      loss += static_cast<double>(random.Below(1 << 24)) * kLossUnit;
      expected.labels += labels.back();
      expected.predictions += predictions.back();
      expected.auc.Add(predictions.back(), labels.back() == 1);
    }
    expected.examples += labels.size();
    expected.steps += 1;
    expected.loss += loss;
    totals = meter.AddStep(kTrain, labels, predictions, loss);
    EXPECT_EQ(totals.examples, expected.examples);
    EXPECT_EQ(totals.steps, expected.steps);
    EXPECT_EQ(totals.loss_sum, expected.loss);
    if (random.Below(10) != 0) continue;
    for (const v1::PhaseProgress& report : meter.Take()) {
      EXPECT_EQ(report.phase(), "train");
      EXPECT_EQ(report.epoch(), 2u);
      reported.Add(report);
    }
  }
  // Over what is reported and what is not.
  EXPECT_EQ(meter.Auc(kTrain), expected.auc.Auc());
  EXPECT_GT(meter.Auc(kTrain), .7);
  for (const v1::PhaseProgress& report : meter.Take()) reported.Add(report);
  EXPECT_EQ(reported.examples, expected.examples);
  EXPECT_EQ(reported.steps, expected.steps);
  EXPECT_EQ(reported.loss, expected.loss);
  EXPECT_EQ(reported.labels, expected.labels);
  EXPECT_NEAR(reported.predictions, expected.predictions, 1e-9);
  EXPECT_EQ(reported.auc.Auc(), expected.auc.Auc());
}

TEST(ProgressMeterTest, LossesAddUpToTheSameBitsHoweverTheyAreReported) {
  constexpr size_t kSteps = 500;
  const uint64_t seed = 12;
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  RandomSequence random(seed);
  std::vector<double> losses;
  double sum = 0;
  for (size_t step = 0; step < kSteps; ++step) {
    losses.push_back(100 * random.Uniform());
    sum += losses.back();
  }
  std::vector<double> reported;
  for (int job = 0; job < 20; ++job) {
    // Steps in any order, on either of two workers, reported now and then.
    for (size_t i = losses.size(); i > 1; --i) {
      std::swap(losses[i - 1], losses[random.Below(i)]);
    }
    ProgressMeter meters[2];
    double total = 0;
    const auto report = [&total](ProgressMeter* meter) {
      for (const v1::PhaseProgress& progress : meter->Take()) {
        total += progress.loss_sum();
      }
    };
    for (const double loss : losses) {
      ProgressMeter* const meter = &meters[random.Below(2)];
      meter->AddStep(kTrain, {}, {}, loss);
      if (random.Below(30) == 0) report(meter);
    }
    for (ProgressMeter& meter : meters) report(&meter);
    reported.push_back(total);
  }
  EXPECT_EQ(reported, std::vector<double>(reported.size(), reported[0]));
  EXPECT_NEAR(reported[0], sum, kSteps * kLossUnit / 2 + 1e-9);
}

TEST(ProgressMeterTest, NothingIsReportedTwice) {
  ProgressMeter meter;
  EXPECT_TRUE(meter.Take().empty());
  meter.AddStep(kTrain, std::vector<float>{1}, std::vector<float>{.5f}, 1);
  EXPECT_EQ(meter.Take().size(), 1u);
  EXPECT_TRUE(meter.Take().empty());
  // Asking is not moving.
  EXPECT_TRUE(std::isnan(meter.Auc(kTrain)));
  EXPECT_TRUE(meter.Take().empty());
}

TEST(ProgressMeterTest, PhasesAreKeptApart) {
  ProgressMeter meter;
  meter.AddStep(kTrain, std::vector<float>{1}, std::vector<float>{.5f}, 1);
  meter.AddBadLines(kTest, 4);
  const std::vector<v1::PhaseProgress> reports = meter.Take();
  ASSERT_EQ(reports.size(), 2u);
  for (const v1::PhaseProgress& report : reports) {
    const bool train = report.phase() == "train";
    EXPECT_EQ(report.examples(), train ? 1u : 0u);
    EXPECT_EQ(report.bad_lines(), train ? 0u : 4u);
  }
}

TEST(ProgressMeterTest, TimesAreReportedByStage) {
  ProgressMeter meter;
  meter.AddTime(kTrain, Stage::kRead, absl::Milliseconds(250));
  meter.AddTime(kTrain, Stage::kRead, absl::Milliseconds(250));
  meter.AddTime(kTrain, Stage::kWaitPush, absl::Seconds(2));
  Sum sum;
  for (const v1::PhaseProgress& report : meter.Take()) sum.Add(report);
  EXPECT_EQ(sum.seconds,
            (std::map<std::string, double>{{"read", .5}, {"wait_push", 2}}));
}

TEST(ProgressMeterTest, StalenessOfDenseParametersIsCountedByItself) {
  ProgressMeter meter;
  meter.AddStaleness(kTrain, 5);
  for (const uint64_t pushes : {0, 2, 3}) {
    meter.AddDenseStaleness(kTrain, pushes);
  }
  EXPECT_EQ(meter.Staleness(kTrain), (std::vector<uint64_t>{0, 0, 0, 1}));
  const KindTotals totals = meter.Totals().at("train");
  EXPECT_EQ(totals.dense_staleness, (std::vector<uint64_t>{1, 0, 2}));
  EXPECT_EQ(totals.dense_staleness_sum, 5u);
  const std::vector<v1::PhaseProgress> reports = meter.Take();
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports[0].dense_staleness_histogram_size(), 3);
  EXPECT_EQ(reports[0].dense_staleness_histogram(2), 2u);
  EXPECT_EQ(reports[0].staleness_histogram(3), 1u);
}

TEST(ProgressMeterTest, StalenessIsCountedByPowersOfTwo) {
  ProgressMeter meter;
  for (uint64_t pushes : {0, 1, 2, 3, 4, 7, 8}) {
    meter.AddStaleness(kTrain, pushes);
  }
  Sum sum;
  for (const v1::PhaseProgress& report : meter.Take()) sum.Add(report);
  EXPECT_EQ(sum.staleness, (std::vector<uint64_t>{1, 1, 2, 2, 1}));
}

TEST(ProgressMeterTest, ConcurrentStepsAndReportsLoseNothing) {
  constexpr int kThreads = 4;
  constexpr int kSteps = 200;
  ProgressMeter meter;
  Sum sum;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&meter] {
      const std::vector<float> labels = {0, 1};
      const std::vector<float> predictions = {.25f, .75f};
      for (int i = 0; i < kSteps; ++i) {
        meter.AddStep(kTrain, labels, predictions, 1);
        meter.AddTime(kTrain, Stage::kCompute, absl::Seconds(1));
      }
    });
  }
  while (sum.steps < kThreads * kSteps / 2) {
    for (const v1::PhaseProgress& report : meter.Take()) sum.Add(report);
  }
  for (std::thread& thread : threads) thread.join();
  for (const v1::PhaseProgress& report : meter.Take()) sum.Add(report);
  EXPECT_EQ(sum.examples, 2u * kThreads * kSteps);
  EXPECT_EQ(sum.auc.num_positives(), uint64_t{kThreads * kSteps});
  EXPECT_EQ(sum.seconds["compute"], kThreads * kSteps);
}

TEST(ProgressMeterTest, TotalsAddUpOverPhasesAndDoNotMindReports) {
  ProgressMeter meter;
  EXPECT_TRUE(meter.Totals().empty());
  const std::vector<float> labels = {0, 1, 0};
  const std::vector<float> predictions = {.1f, .9f, .3f};
  for (uint32_t epoch = 0; epoch < 3; ++epoch) {
    for (const char* phase : {"train", "test"}) {
      const PhaseId id{phase, epoch};
      meter.AddStep(id, labels, predictions, /*loss_sum=*/.5);
      meter.AddTime(id, Stage::kCompute, absl::Seconds(2));
      meter.AddBadLines(id, 1);
      meter.AddStaleness(id, epoch * 3);
      meter.Take();
    }
  }
  // Somebody is behind.
  meter.AddStep(PhaseId{"train", 1}, labels, predictions, .25);

  const std::map<std::string, KindTotals> totals = meter.Totals();
  ASSERT_EQ(totals.size(), 2u);
  const KindTotals& train = totals.at("train");
  EXPECT_EQ(train.examples, 12u);
  EXPECT_EQ(train.steps, 4u);
  EXPECT_EQ(train.bad_lines, 3u);
  EXPECT_EQ(train.loss_sum, 1.75);
  EXPECT_EQ(train.stage_seconds[static_cast<size_t>(Stage::kCompute)], 6);
  EXPECT_EQ(train.staleness, (std::vector<uint64_t>{1, 0, 1, 1}));
  EXPECT_EQ(train.staleness_sum, 9u);
  EXPECT_EQ(train.newest, (PhaseId{"train", 2}));
  EXPECT_EQ(train.newest_totals.examples, 3u);
  EXPECT_EQ(train.newest_totals.loss_sum, .5);
  EXPECT_EQ(totals.at("test").examples, 9u);
}

}  // namespace
}  // namespace oarlock::worker
