#include "base/metrics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/random.h"

namespace oarlock {
namespace {

constexpr Metric kPlain = {MetricKind::kCounter, "oarlock_test_rows_total",
                           "rows", "", "Rows."};
constexpr Metric kLabelled = {MetricKind::kGauge, "oarlock_test_bytes", "bytes",
                              "table, kind", "Bytes."};
constexpr Metric kSameName = {MetricKind::kCounter, "oarlock_test_rows_total",
                              "rows", "", "Other rows."};

TEST(LatencyHistogramTest, EveryValueIsInTheFirstBucketThatHoldsIt) {
  const uint64_t seed = 5;
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  RandomSequence random(seed);
  // Around every bound, beyond the last one, below zero, and anywhere.
  std::vector<int64_t> values = {-5, 0, 1};
  for (size_t i = 0; i <= LatencyHistogram::kNumBounds; ++i) {
    const int64_t bound =
        static_cast<int64_t>(LatencyHistogram::kFirstBoundNs << i);
    values.insert(values.end(), {bound - 1, bound, bound + 1});
  }
  for (int i = 0; i < 2000; ++i) {
    values.push_back(static_cast<int64_t>(random() >> (20 + i % 40)));
  }

  LatencyHistogram histogram;
  const std::vector<double> bounds = histogram.Values().bounds;
  std::vector<uint64_t> expected(bounds.size() + 1);
  double sum = 0;
  for (const int64_t ns : values) {
    histogram.Add(absl::Nanoseconds(ns));
    const double seconds = static_cast<double>(std::max<int64_t>(ns, 0)) / 1e9;
    size_t bucket = 0;
    while (bucket < bounds.size() && seconds > bounds[bucket]) ++bucket;
    ++expected[bucket];
    sum += seconds;
  }
  EXPECT_EQ(histogram.Values().counts, expected);
  EXPECT_NEAR(histogram.Values().sum, sum, 1e-9 * sum);
}

TEST(LatencyHistogramTest, ThreadsLoseNothing) {
  constexpr int kThreads = 4;
  constexpr uint64_t kEach = 20000;
  LatencyHistogram histogram;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (uint64_t i = 0; i < kEach; ++i) {
        histogram.Add(absl::Microseconds(i % 100));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  uint64_t count = 0;
  for (const uint64_t c : histogram.Values().counts) count += c;
  EXPECT_EQ(count, kThreads * kEach);
  EXPECT_NEAR(histogram.Values().sum, kThreads * kEach * 49.5e-6, 1e-6);
}

TEST(MetricsSnapshotTest, SamplesOfAMetricAreAFamily) {
  MetricsSnapshot snapshot;
  snapshot.Add(kLabelled, 1, {{"table", "a"}, {"kind", "sparse"}});
  snapshot.Add(kPlain, 7);
  snapshot.Add(kLabelled, 2, {{"table", "b"}, {"kind", "dense"}});
  ASSERT_EQ(snapshot.families().size(), 2u);
  const auto& labelled = snapshot.families().at("oarlock_test_bytes");
  EXPECT_EQ(labelled.metric, &kLabelled);
  ASSERT_EQ(labelled.samples.size(), 2u);
  EXPECT_EQ(labelled.samples[1].labels[0].second, "b");
  EXPECT_EQ(labelled.samples[1].value, 2);
}

TEST(MetricsSnapshotDeathTest, WhatIsNotDeclaredCrashes) {
  MetricsSnapshot snapshot;
  EXPECT_DEATH(snapshot.Add(kPlain, 1, {{"table", "a"}}), "names");
  EXPECT_DEATH(snapshot.Add(kLabelled, 1, {{"table", "a"}}), "names");
  EXPECT_DEATH(snapshot.Add(kPlain, HistogramValues()), "kind");
  snapshot.Add(kPlain, 1);
  EXPECT_DEATH(snapshot.Add(kSameName, 1), "metric");
}

}  // namespace
}  // namespace oarlock
