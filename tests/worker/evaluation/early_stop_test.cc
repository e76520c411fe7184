#include "worker/evaluation/early_stop.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/random.h"

namespace oarlock::worker {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
using Metric = EarlyStopOptions::Metric;

std::vector<v1::Evaluation> OfAucs(const std::vector<double>& aucs) {
  std::vector<v1::Evaluation> evaluations;
  for (size_t i = 0; i < aucs.size(); ++i) {
    v1::Evaluation& evaluation = evaluations.emplace_back();
    evaluation.set_work(absl::StrCat("test/", i));
    evaluation.set_auc(aucs[i]);
    // The other way round.
    evaluation.set_logloss(1 - aucs[i]);
    evaluation.set_trained_examples(1000 * (i + 1));
  }
  return evaluations;
}

TEST(EarlyStopTest, AnAucThatDoesNotRiseStopsAfterAsManyAsPatience) {
  const EarlyStopOptions options{Metric::kAuc, 2, 0};
  const std::vector<double> aucs = {.70, .72, .72, .71};
  for (size_t count = 1; count <= aucs.size(); ++count) {
    const EarlyStopVerdict verdict =
        JudgeEvaluations(options, OfAucs({aucs.begin(), aucs.begin() + count}));
    EXPECT_EQ(verdict.stop, count == 4) << count;
    EXPECT_EQ(verdict.newest_is_best, count <= 2) << count;
    EXPECT_EQ(verdict.best->work(), count == 1 ? "test/0" : "test/1");
  }
  EXPECT_EQ(JudgeEvaluations(options, OfAucs(aucs)).reason,
            "early stop: AUC of the test files was best, 0.7200, in test/1 "
            "after 2000 examples, and 2 evaluations since then were no better");
}

TEST(EarlyStopTest, ALoglossThatFallsGoesOn) {
  const EarlyStopOptions options{Metric::kLogloss, 1, 0};
  EXPECT_FALSE(JudgeEvaluations(options, OfAucs({.7, .71, .72})).stop);
  EXPECT_TRUE(JudgeEvaluations(options, OfAucs({.7, .71, .70})).stop);
}

TEST(EarlyStopTest, ARiseOfNoMoreThanMinDeltaIsNone) {
  const EarlyStopOptions options{Metric::kAuc, 2, .125};
  // Powers of two, so that differences are exact.
  const auto verdict = JudgeEvaluations(options, OfAucs({.5, .625, .5625}));
  EXPECT_TRUE(verdict.stop);
  EXPECT_EQ(verdict.best->work(), "test/0");
  EXPECT_FALSE(JudgeEvaluations(options, OfAucs({.5, .625, .75})).stop);
}

TEST(EarlyStopTest, WhatCannotBeComparedIsNoBetter) {
  const EarlyStopOptions options{Metric::kAuc, 2, 0};
  EXPECT_FALSE(JudgeEvaluations(options, OfAucs({kNan})).newest_is_best);
  EXPECT_TRUE(JudgeEvaluations(options, OfAucs({kNan, kNan})).stop);
  const auto verdict = JudgeEvaluations(options, OfAucs({kNan, .5, kNan}));
  EXPECT_FALSE(verdict.stop);
  EXPECT_EQ(verdict.best->work(), "test/1");
}

TEST(EarlyStopTest, FilesThatArePredictedDoNotCount) {
  const EarlyStopOptions options{Metric::kAuc, 1, 0};
  std::vector<v1::Evaluation> evaluations = OfAucs({.7, .6, .5});
  for (int i : {1, 2}) evaluations[i].set_work(absl::StrCat("predict/", i));
  EXPECT_FALSE(JudgeEvaluations(options, evaluations).stop);
}

TEST(EarlyStopTest, WithoutAMetricNothingIsJudged) {
  const auto verdict =
      JudgeEvaluations(EarlyStopOptions(), OfAucs({.7, .1, .1, .1, .1}));
  EXPECT_FALSE(verdict.stop || verdict.newest_is_best);
  EXPECT_FALSE(verdict.best.has_value());
}

// Without min_delta the best one is the first that is largest, and patience is
// counted from there.
TEST(EarlyStopTest, AgreesWithANaiveLoop) {
  constexpr uint64_t kSeed = 5;
  RandomSequence random(kSeed);
  for (int trial = 0; trial < 500; ++trial) {
    std::vector<double> aucs(1 + random.Below(12));
    for (double& auc : aucs) auc = random.Below(6) / 8.;
    const int patience = 1 + static_cast<int>(random.Below(4));
    const auto best = std::max_element(aucs.begin(), aucs.end());
    const auto verdict =
        JudgeEvaluations({Metric::kAuc, patience, 0}, OfAucs(aucs));
    EXPECT_EQ(verdict.best->work(), absl::StrCat("test/", best - aucs.begin()))
        << "seed " << kSeed << " trial " << trial;
    EXPECT_EQ(verdict.stop, aucs.end() - best - 1 >= patience);
  }
}

}  // namespace
}  // namespace oarlock::worker
