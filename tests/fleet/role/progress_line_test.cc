#include "fleet/role/progress_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace oarlock {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

const absl::Time kStart = absl::FromUnixSeconds(1'000'000);

v1::JobStatusResponse StatusAt(uint64_t examples, uint64_t of = 1'000'000,
                               const std::string& phase = "train",
                               uint32_t epoch = 0) {
  v1::JobStatusResponse status;
  v1::PhaseStatus* added = status.add_phases();
  added->mutable_progress()->set_phase(phase);
  added->mutable_progress()->set_epoch(epoch);
  added->mutable_progress()->set_examples(examples);
  added->set_num_examples(of);
  added->set_auc(.7423);
  added->set_logloss(.48712);
  return status;
}

TEST(ProgressLineTest, NothingToSayBeforeAnythingBegan) {
  ProgressLine line(3);
  EXPECT_EQ(line.Update(v1::JobStatusResponse(), kStart), "");
}

TEST(ProgressLineTest, TellsShareRateLossAucAndTimeLeft) {
  ProgressLine line(3);
  line.Update(StatusAt(100'000), kStart);
  const std::string text =
      line.Update(StatusAt(600'000), kStart + absl::Seconds(5));
  EXPECT_THAT(text, StartsWith("epoch 1/3  60 %"));
  EXPECT_THAT(text, HasSubstr("  ============>  "));
  EXPECT_THAT(text, HasSubstr("100,000 examples/s"));
  EXPECT_THAT(text, HasSubstr("loss .4871"));
  EXPECT_THAT(text, HasSubstr("auc .7423"));
  EXPECT_THAT(text, HasSubstr("4 s left"));
  EXPECT_THAT(text, Not(HasSubstr("\n")));
}

TEST(ProgressLineTest, TellsStalenessWhereItIsMeasured) {
  ProgressLine line(1);
  v1::JobStatusResponse status = StatusAt(10);
  EXPECT_THAT(line.Update(status, kStart), Not(HasSubstr("staleness")));
  for (const uint64_t steps : {60, 30, 0, 10}) {
    status.mutable_phases(0)->mutable_progress()->add_staleness_histogram(
        steps);
  }
  EXPECT_THAT(line.Update(status, kStart),
              HasSubstr("auc .7423  staleness p50 0 p99 7"));
}

TEST(ProgressLineTest, RateIsThatOfTheLastSeconds) {
  ProgressLine line(1);
  line.Update(StatusAt(0), kStart);
  line.Update(StatusAt(100'000), kStart + absl::Seconds(10));
  EXPECT_THAT(line.Update(StatusAt(200'000), kStart + absl::Seconds(12)),
              HasSubstr("50,000 examples/s"));
}

TEST(ProgressLineTest, NewPhaseStartsItsRateAnew) {
  ProgressLine line(2);
  line.Update(StatusAt(0), kStart);
  line.Update(StatusAt(1'000'000), kStart + absl::Seconds(10));
  const absl::Time later = kStart + absl::Seconds(11);
  std::string text = line.Update(StatusAt(10, 1'000'000, "train", 1), later);
  EXPECT_THAT(text, StartsWith("epoch 2/2   0 %"));
  EXPECT_THAT(text, HasSubstr("  0 examples/s"));
  EXPECT_THAT(text, Not(HasSubstr("left")));
  text = line.Update(StatusAt(2010, 1'000'000, "train", 1),
                     later + absl::Seconds(2));
  EXPECT_THAT(text, HasSubstr("1,000 examples/s"));
}

TEST(ProgressLineTest, FinishedPhaseFillsTheBarAndHasNoTimeLeft) {
  ProgressLine line(1);
  line.Update(StatusAt(0), kStart);
  const std::string text =
      line.Update(StatusAt(1'000'000), kStart + absl::Seconds(5));
  EXPECT_THAT(text, HasSubstr("100 %"));
  EXPECT_THAT(text, HasSubstr(std::string(20, '=') + " "));
  EXPECT_THAT(text, Not(HasSubstr("left")));
}

TEST(ProgressLineTest, UnknownLengthCountsExamples) {
  ProgressLine line(1);
  const std::string text = line.Update(StatusAt(1'234'567, 0), kStart);
  EXPECT_THAT(text, HasSubstr("1,234,567 examples"));
  EXPECT_THAT(text, Not(HasSubstr("%")));
}

TEST(ProgressLineTest, EvaluationIsCalledTest) {
  ProgressLine line(2);
  EXPECT_THAT(line.Update(StatusAt(10, 100, "test", 1), kStart),
              StartsWith("test  2/2  10 %"));
}

TEST(ProgressLineTest, UnknownNumbersAreDashes) {
  ProgressLine line(1);
  v1::JobStatusResponse status = StatusAt(10);
  status.mutable_phases(0)->set_auc(std::numeric_limits<double>::quiet_NaN());
  EXPECT_THAT(line.Update(status, kStart), HasSubstr("auc -"));
}

TEST(ProgressLineTest, ClockThatStandsStillGivesNoRate) {
  ProgressLine line(1);
  line.Update(StatusAt(0), kStart);
  EXPECT_THAT(line.Update(StatusAt(500'000), kStart),
              HasSubstr("  0 examples/s"));
}

}  // namespace
}  // namespace oarlock
