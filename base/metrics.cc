#include "base/metrics.h"

#include <algorithm>
#include <bit>

#include "absl/strings/str_join.h"
#include "base/check.h"

namespace oarlock {
namespace {

constexpr uint64_t kNanosPerSecond = 1000000000;

}  // namespace

const char* MetricKindName(MetricKind kind) {
  switch (kind) {
    case MetricKind::kCounter:
      return "counter";
    case MetricKind::kGauge:
      return "gauge";
    case MetricKind::kHistogram:
      return "histogram";
  }
  OARLOCK_CHECK(false);
}

void LatencyHistogram::Add(absl::Duration time) {
  const uint64_t ns = std::max<int64_t>(0, absl::ToInt64Nanoseconds(time));
  // The smallest i with ns <= kFirstBoundNs * 2^i.
  const size_t bucket =
      ns <= kFirstBoundNs ? 0 : std::bit_width((ns - 1) / kFirstBoundNs);
  counts_[std::min(bucket, kNumBounds)].fetch_add(1, std::memory_order_relaxed);
  sum_ns_.fetch_add(ns, std::memory_order_relaxed);
}

HistogramValues LatencyHistogram::Values() const {
  HistogramValues values;
  for (size_t i = 0; i < kNumBounds; ++i) {
    values.bounds.push_back(static_cast<double>(kFirstBoundNs << i) /
                            kNanosPerSecond);
  }
  for (const std::atomic<uint64_t>& count : counts_) {
    values.counts.push_back(count.load(std::memory_order_relaxed));
  }
  values.sum = static_cast<double>(sum_ns_.load(std::memory_order_relaxed)) /
               kNanosPerSecond;
  return values;
}

void MetricsSnapshot::Add(const Metric& metric, double value, Labels labels) {
  OARLOCK_CHECK(metric.kind != MetricKind::kHistogram);
  std::vector<Sample>& samples = SamplesOf(metric, labels);
  samples.push_back({std::move(labels), value, {}});
}

void MetricsSnapshot::Add(const Metric& metric, HistogramValues values,
                          Labels labels) {
  OARLOCK_CHECK(metric.kind == MetricKind::kHistogram);
  OARLOCK_CHECK(values.counts.size() == values.bounds.size() + 1);
  std::vector<Sample>& samples = SamplesOf(metric, labels);
  samples.push_back({std::move(labels), 0, std::move(values)});
}

std::vector<MetricsSnapshot::Sample>& MetricsSnapshot::SamplesOf(
    const Metric& metric, const Labels& labels) {
  const std::string names = absl::StrJoin(
      labels, ", ",
      [](std::string* out, const auto& label) { out->append(label.first); });
  OARLOCK_CHECK(names == metric.labels);
  Family& family = families_[metric.name];
  OARLOCK_CHECK(family.metric == nullptr || family.metric == &metric);
  family.metric = &metric;
  return family.samples;
}

}  // namespace oarlock
