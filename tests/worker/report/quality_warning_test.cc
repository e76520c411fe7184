#include "worker/report/quality_warning.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace oarlock::worker {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(QualityWarningTest, AConstantHasTheEntropyOfTheLabels) {
  EXPECT_DOUBLE_EQ(ConstantLogloss(0.5), std::log(2));
  EXPECT_NEAR(ConstantLogloss(0.03), 0.13474, 1e-5);
  EXPECT_EQ(ConstantLogloss(0), 0);
  EXPECT_EQ(ConstantLogloss(1), 0);
}

TEST(QualityWarningTest, OnlyMoreThanATenthAboveItIsBad) {
  const double constant = ConstantLogloss(0.2);
  const auto warns = [](double logloss, double rate, uint64_t steps) {
    return !QualityWarning({"train/0", logloss, rate, steps}, {}, 1).empty();
  };
  EXPECT_FALSE(warns(1.0999 * constant, 0.2, 0));
  EXPECT_TRUE(warns(1.1001 * constant, 0.2, 0));
  EXPECT_TRUE(warns(1.1001 * constant, 0.2, 100));
  // Training begins at 1/2.
  EXPECT_FALSE(warns(1.0999 * std::log(2), 0.2, 99));
  EXPECT_TRUE(warns(1.1001 * std::log(2), 0.2, 99));
  // Nothing to compare with; there is no AUC either.
  EXPECT_EQ(QualityWarning({"train/0", 5, 1, 0}, {}, 1), "");
  EXPECT_EQ(QualityWarning({"train/0", 5, 0, 0}, {}, 1), "");
  // Nothing was predicted.
  EXPECT_EQ(
      QualityWarning(
          {"train/0", std::numeric_limits<double>::quiet_NaN(), 0.2, 0}, {}, 1),
      "");
}

TEST(QualityWarningTest, TheLikeliestReasonIsNamed) {
  const Quality bad = {"test/3", 2e16, 0.25, 0};
  const std::string feature = QualityWarning(bad, {1.7e9f, 4, 5e6f}, 10);
  EXPECT_THAT(feature, StartsWith("test/3: logloss 2e+16 is worse than 0.5623, "
                                  "that of predicting the rate of clicks, "
                                  "0.25, for every example; dense feature 4 "
                                  "has values up to 1.7e+09"));
  EXPECT_THAT(feature, HasSubstr("scale it, or give --dense_norm batch"));
  EXPECT_THAT(QualityWarning(bad, {1.7e9f, 4, 5e6f, true}, 10),
              HasSubstr("give --dense_transform log1p or --dense_norm batch"));
  EXPECT_THAT(QualityWarning(bad, {1000, 4, 1001}, 10),
              HasSubstr("weights are up to 1e+03: lower --learning_rate, which "
                        "is 10"));
  EXPECT_THAT(QualityWarning(bad, {1000, 4, 1000}, 10),
              HasSubstr("; lower --learning_rate, which is 10"));
}

}  // namespace
}  // namespace oarlock::worker
