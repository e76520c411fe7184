#include "cli/auc_curve.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "worker/report/summary.h"

namespace oarlock::cli {
namespace {

void Add(uint64_t trained_examples, double auc,
         worker::TrainingSummary* summary) {
  summary->evaluations.emplace_back();
  summary->evaluations.back().set_trained_examples(trained_examples);
  summary->evaluations.back().set_auc(auc);
}

TEST(AucCurveTest, BarsGrowFromGuessingToTheBest) {
  worker::TrainingSummary summary;
  Add(0, 0.5, &summary);
  Add(50000, 0.65, &summary);
  Add(100000, 0.8, &summary);
  const std::string half(25, '=');
  EXPECT_EQ(AucCurve(summary, 0.8),
            "           0  0.5000  |" + std::string(50, ' ') + "|\n" +
                "       50000  0.6500  |" + half + std::string(25, ' ') +
                "|\n" + "      100000  0.8000  |" + half + half + "|\n");
}

TEST(AucCurveTest, WhatIsBeyondTheEndsStaysInTheBar) {
  worker::TrainingSummary summary;
  Add(1, 0.4, &summary);
  Add(2, 0.9, &summary);
  EXPECT_EQ(AucCurve(summary, 0.8),
            "           1  0.4000  |" + std::string(50, ' ') + "|\n" +
                "           2  0.9000  |" + std::string(50, '=') + "|\n");
}

TEST(AucCurveTest, WhatHasNoAucIsLeftOut) {
  worker::TrainingSummary summary;
  Add(1, std::numeric_limits<double>::quiet_NaN(), &summary);
  EXPECT_EQ(AucCurve(summary, 0.8), "");
}

}  // namespace
}  // namespace oarlock::cli
