#include "coordinator/job_progress.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "base/random.h"
#include "base/types.h"
#include "proto/state/coordinator_state.pb.h"

namespace oarlock::coordinator {
namespace {

using Phases = google::protobuf::RepeatedPtrField<v1::PhaseStatus>;

v1::PhaseProgress Report(const std::string& phase, uint32_t epoch) {
  v1::PhaseProgress progress;
  progress.set_phase(phase);
  progress.set_epoch(epoch);
  return progress;
}

v1::PhaseProgress Report(const std::string& phase, uint32_t epoch,
                         const AucHistogram& histogram) {
  v1::PhaseProgress progress = Report(phase, epoch);
  histogram.VisitNonEmpty([&](uint32_t bucket, uint64_t pos, uint64_t neg) {
    progress.add_buckets(bucket);
    progress.add_positives(pos);
    progress.add_negatives(neg);
  });
  progress.set_examples(histogram.num_positives() + histogram.num_negatives());
  return progress;
}

Phases Describe(const JobProgress& progress, bool with_histograms = false) {
  Phases phases;
  progress.Describe(with_histograms, &phases);
  return phases;
}

absl::Time At(int seconds) {
  return absl::UnixEpoch() + absl::Seconds(seconds);
}

TEST(JobProgressTest, ReportsAddUpPerPhaseAndEpoch) {
  JobProgress progress;
  v1::PhaseProgress a = Report("train", 0);
  a.set_examples(10);
  a.set_steps(2);
  a.set_loss_sum(5);
  a.add_stages()->set_stage("pull");
  a.mutable_stages(0)->set_seconds(1);
  a.add_staleness_histogram(3);
  v1::PhaseProgress b = a;
  b.add_staleness_histogram(4);
  b.add_stages()->set_stage("push");
  b.mutable_stages(1)->set_seconds(2);
  progress.Add(a, At(10));
  progress.Add(b, At(14));
  progress.Add(Report("train", 1), At(20));
  const Phases phases = Describe(progress);
  ASSERT_EQ(phases.size(), 2);
  EXPECT_EQ(phases[0].progress().phase(), "train");
  EXPECT_EQ(phases[0].progress().epoch(), 0u);
  EXPECT_EQ(phases[1].progress().epoch(), 1u);
  EXPECT_EQ(phases[0].progress().examples(), 20u);
  EXPECT_EQ(phases[0].progress().steps(), 4u);
  EXPECT_DOUBLE_EQ(phases[0].logloss(), 0.5);
  EXPECT_DOUBLE_EQ(phases[0].seconds(), 4);
  ASSERT_EQ(phases[0].progress().stages_size(), 2);
  EXPECT_DOUBLE_EQ(phases[0].progress().stages(0).seconds(), 2);
  EXPECT_EQ(phases[0].progress().staleness_histogram(0), 6u);
  EXPECT_EQ(phases[0].progress().staleness_histogram(1), 4u);
  EXPECT_TRUE(std::isnan(phases[1].logloss()));
  EXPECT_TRUE(std::isnan(phases[0].auc()));
}

TEST(JobProgressTest, SecondsCountFromTheFirstLease) {
  JobProgress progress;
  progress.SetNumExamples("train/0", 99);
  EXPECT_TRUE(Describe(progress).empty());
  progress.RecordStart("train/0", At(100));
  progress.RecordStart("train/0", At(200));
  progress.Add(Report("train", 0), At(130));
  const Phases phases = Describe(progress);
  ASSERT_EQ(phases.size(), 1);
  EXPECT_DOUBLE_EQ(phases[0].seconds(), 30);
  EXPECT_EQ(phases[0].num_examples(), 99u);
}

TEST(JobProgressTest, AucIsThatOfAllWorkersTogether) {
  RandomSequence random(3);
  AucHistogram whole, parts[3];
  for (int i = 0; i < 3000; ++i) {
    const auto p = static_cast<float>(random.Uniform());
    const bool positive = random.Uniform() < p;
    whole.Add(p, positive);
    parts[i % 3].Add(p, positive);
  }
  JobProgress progress;
  for (const AucHistogram& part : parts) {
    progress.Add(Report("test", 0, part), At(1));
  }
  const Phases phases = Describe(progress, /*with_histograms=*/true);
  ASSERT_EQ(phases.size(), 1);
  EXPECT_EQ(phases[0].auc(), whole.Auc());
  // What is told can be added up again.
  JobProgress copy;
  copy.Add(phases[0].progress(), At(2));
  EXPECT_EQ(Describe(copy)[0].auc(), whole.Auc());
}

TEST(JobProgressTest, OldHistogramsAreDroppedButTheirAucStays) {
  AucHistogram histogram;
  histogram.Add(0.9f, true);
  histogram.Add(0.1f, false);
  JobProgress progress;
  const int epochs = JobProgress::kMaxHistograms + 5;
  for (int epoch = 0; epoch < epochs; ++epoch) {
    progress.Add(Report("train", epoch, histogram), At(epoch));
  }
  const Phases phases = Describe(progress, /*with_histograms=*/true);
  ASSERT_EQ(phases.size(), epochs);
  for (int epoch = 0; epoch < epochs; ++epoch) {
    EXPECT_EQ(phases[epoch].auc(), 1.0) << epoch;
    EXPECT_EQ(phases[epoch].progress().buckets_size(), epoch < 5 ? 0 : 2);
  }
}

AucHistogram HistogramOf(float positive, float negative) {
  AucHistogram histogram;
  histogram.Add(positive, true);
  histogram.Add(negative, false);
  return histogram;
}

TEST(JobProgressTest, WhatIsOpenCountsUntilItsWorkerIsWithdrawn) {
  const AucHistogram right = HistogramOf(0.9f, 0.1f);
  const AucHistogram wrong = HistogramOf(0.2f, 0.8f);
  JobProgress progress;
  progress.AddOpen(WorkerIndex(0), Report("test", 0, wrong), At(1));
  progress.AddOpen(WorkerIndex(1), Report("test", 0, right), At(2));
  EXPECT_EQ(Describe(progress)[0].progress().examples(), 4u);
  EXPECT_EQ(Describe(progress)[0].auc(), 0.75);
  progress.Withdraw(WorkerIndex(0));
  progress.Withdraw(WorkerIndex(7));
  const Phases phases = Describe(progress, /*with_histograms=*/true);
  ASSERT_EQ(phases.size(), 1);
  EXPECT_EQ(phases[0].progress().examples(), 2u);
  EXPECT_EQ(phases[0].progress().buckets_size(), 2);
  EXPECT_EQ(phases[0].auc(), 1.0);
}

TEST(JobProgressTest, WhatIsKeptStaysWhenItsWorkerIsWithdrawn) {
  const AucHistogram right = HistogramOf(0.9f, 0.1f);
  JobProgress progress;
  progress.AddOpen(WorkerIndex(0), Report("test", 0, right), At(1));
  progress.AddOpen(WorkerIndex(0), Report("test", 1, right), At(1));
  progress.Keep(WorkerIndex(0), "test/0");
  progress.Keep(WorkerIndex(0), "test/7");
  progress.AddOpen(WorkerIndex(0), Report("test", 0, right), At(2));
  progress.Withdraw(WorkerIndex(0));
  Phases phases = Describe(progress);
  ASSERT_EQ(phases.size(), 2);
  EXPECT_EQ(phases[0].progress().examples(), 2u);
  EXPECT_EQ(phases[0].auc(), 1.0);
  EXPECT_EQ(phases[1].progress().examples(), 0u);
  progress.AddOpen(WorkerIndex(0), Report("test", 0, right), At(3));
  progress.AddOpen(WorkerIndex(0), Report("test", 1, right), At(3));
  progress.KeepAll(WorkerIndex(0));
  progress.Withdraw(WorkerIndex(0));
  phases = Describe(progress);
  EXPECT_EQ(phases[0].progress().examples(), 4u);
  EXPECT_EQ(phases[1].progress().examples(), 2u);
}

TEST(JobProgressTest, ASuccessorKnowsWhatIsOpen) {
  JobProgress progress;
  progress.Add(Report("test", 0, HistogramOf(0.9f, 0.1f)), At(1));
  progress.AddOpen(WorkerIndex(3), Report("test", 0, HistogramOf(0.2f, 0.8f)),
                   At(2));
  google::protobuf::RepeatedPtrField<v1::PhaseState> state;
  progress.Save(&state);
  JobProgress successor;
  successor.Load(state);
  const Phases reported = Describe(progress, /*with_histograms=*/true);
  const Phases known = Describe(successor, /*with_histograms=*/true);
  ASSERT_EQ(known.size(), 1);
  EXPECT_EQ(known[0].SerializeAsString(), reported[0].SerializeAsString());
  successor.Withdraw(WorkerIndex(3));
  EXPECT_EQ(Describe(successor)[0].progress().examples(), 2u);
  EXPECT_EQ(Describe(successor)[0].auc(), 1.0);
}

TEST(JobProgressTest, OnlyTheNewestPhasesAreKeptAndTheSumOfOlderOnes) {
  JobProgress progress;
  uint64_t examples = 0;
  for (size_t epoch = 0; epoch < JobProgress::kMaxPhases + 3; ++epoch) {
    v1::PhaseProgress report = Report("train", epoch);
    report.set_examples(epoch + 1);
    report.set_loss_sum(1);
    examples += report.examples();
    progress.Add(report, At(epoch));
  }
  // Nobody has come to it, so there is nothing to tell of it.
  progress.SetNumExamples("test/0", 10);
  google::protobuf::RepeatedPtrField<v1::PhaseState> state;
  progress.Save(&state);
  JobProgress successor;
  successor.Load(state);
  for (const JobProgress* const known : {&progress, &successor}) {
    const Phases phases = Describe(*known);
    ASSERT_EQ(phases.size(), JobProgress::kMaxPhases);
    // Phases 0 to 3.
    EXPECT_EQ(phases[0].progress().phase(), "train");
    EXPECT_EQ(phases[0].progress().epoch(), 3u);
    EXPECT_EQ(phases[0].progress().examples(), 1u + 2 + 3 + 4);
    EXPECT_DOUBLE_EQ(phases[0].logloss(), .4);
    EXPECT_DOUBLE_EQ(phases[0].seconds(), 3);
    EXPECT_TRUE(std::isnan(phases[0].auc()));
    EXPECT_EQ(phases[1].progress().epoch(), 4u);
    uint64_t sum = 0;
    for (const v1::PhaseStatus& phase : phases) {
      sum += phase.progress().examples();
    }
    EXPECT_EQ(sum, examples);
  }
}

TEST(JobProgressTest, IllegalReportsAreInvalidArgument) {
  v1::PhaseProgress unequal = Report("train", 0);
  unequal.add_buckets(1);
  v1::PhaseProgress beyond = Report("train", 0);
  beyond.add_buckets(AucHistogram::kNumBuckets);
  beyond.add_positives(1);
  beyond.add_negatives(1);
  v1::PhaseProgress stale = Report("train", 0);
  for (int i = 0; i <= JobProgress::kMaxStalenessBuckets; ++i) {
    stale.add_staleness_histogram(1);
  }
  for (const v1::PhaseProgress& report :
       {unequal, beyond, stale, Report("", 0)}) {
    EXPECT_EQ(JobProgress::Validate(report).code(),
              absl::StatusCode::kInvalidArgument)
        << report.ShortDebugString();
  }
  EXPECT_TRUE(JobProgress::Validate(Report("train", 0)).ok());
}

}  // namespace
}  // namespace oarlock::coordinator
