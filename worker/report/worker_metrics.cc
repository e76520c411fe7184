#include "worker/report/worker_metrics.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/log2_histogram.h"

namespace oarlock::worker {
namespace {

constexpr Metric kExamples = {
    MetricKind::kCounter, "oarlock_worker_examples_total", "examples", "phase",
    "Examples that this worker has trained or predicted; the phase is train or "
    "test."};
constexpr Metric kSteps = {MetricKind::kCounter, "oarlock_worker_steps_total",
                           "steps", "phase", "Batches of all its threads."};
constexpr Metric kBadLines = {
    MetricKind::kCounter, "oarlock_worker_bad_lines_total", "lines", "phase",
    "Malformed lines that it has skipped; told at the end of a phase."};
constexpr Metric kLoss = {
    MetricKind::kCounter, "oarlock_worker_loss_total", "nats", "phase",
    "Sum of the examples' losses; its rate over that of the examples is the "
    "mean loss."};
constexpr Metric kEpoch = {MetricKind::kGauge, "oarlock_worker_epoch", "epoch",
                           "phase", "The newest epoch, from 1."};
constexpr Metric kLogloss = {
    MetricKind::kGauge, "oarlock_worker_logloss", "nats", "phase",
    "Mean loss of the newest epoch so far; NaN before its first batch."};
constexpr Metric kAuc = {
    MetricKind::kGauge, "oarlock_worker_auc", "ratio", "phase",
    "AUC of the newest epoch so far; NaN while a class is missing."};
constexpr Metric kStageSeconds = {
    MetricKind::kCounter, "oarlock_worker_stage_seconds_total", "seconds",
    "phase, stage",
    "Time of each stage of a step, over all threads: read, pull, wait_pull, "
    "compute, push, wait_push."};
constexpr Metric kStaleness = {
    MetricKind::kHistogram, "oarlock_worker_staleness_pushes", "pushes",
    "phase",
    "Pushes of other steps that the model's first table of rows applied "
    "between a step's pull and its push."};
constexpr Metric kDenseStaleness = {
    MetricKind::kHistogram, "oarlock_worker_dense_staleness_pushes", "pushes",
    "phase",
    "Pushes of others that the dense table applied between two exchanges of a "
    "dense copy."};
constexpr Metric kStalenessQuantile = {
    MetricKind::kGauge, "oarlock_worker_staleness_quantile_pushes", "pushes",
    "phase, of, quantile",
    "Half of the steps (quantile .5), or all but a hundredth (.99), were at "
    "most so stale; of rows or dense parameters. Upper end of a bucket that "
    "doubles in size."};

constexpr Metric kRowCacheLookups = {
    MetricKind::kCounter, "oarlock_worker_row_cache_lookups_total", "rows",
    "phase",
    "Distinct rows that batches needed, with --row_cache_rows; 0 without."};
constexpr Metric kRowCacheHits = {
    MetricKind::kCounter, "oarlock_worker_row_cache_hits_total", "rows",
    "phase",
    "Those of them that were not pulled, since their thread had them."};

void AddQuantiles(const std::string& phase, const std::string& of,
                  const std::vector<uint64_t>& counts,
                  MetricsSnapshot* snapshot) {
  if (counts.empty()) return;
  snapshot->Add(kStalenessQuantile, Log2Quantile(counts, .5),
                {{"phase", phase}, {"of", of}, {"quantile", ".5"}});
  snapshot->Add(kStalenessQuantile, Log2Quantile(counts, .99),
                {{"phase", phase}, {"of", of}, {"quantile", ".99"}});
}

// staleness[i] counts what is at most 2^i - 1.
HistogramValues StalenessOf(const std::vector<uint64_t>& staleness,
                            uint64_t sum) {
  // Always the same bounds, 0 to 1023.
  constexpr size_t kNumBounds = 11;
  HistogramValues values;
  for (size_t i = 0; i < kNumBounds; ++i) {
    values.bounds.push_back(static_cast<double>((uint64_t{1} << i) - 1));
  }
  values.counts.resize(kNumBounds + 1);
  for (size_t i = 0; i < staleness.size(); ++i) {
    values.counts[std::min(i, kNumBounds)] += staleness[i];
  }
  values.sum = static_cast<double>(sum);
  return values;
}

}  // namespace

void CollectWorkerMetrics(const ProgressMeter& progress,
                          MetricsSnapshot* snapshot) {
  for (const auto& [name, phase] : progress.Totals()) {
    const auto add = [&, &name = name](const Metric& metric, double value) {
      snapshot->Add(metric, value, {{"phase", name}});
    };
    add(kExamples, static_cast<double>(phase.examples));
    add(kSteps, static_cast<double>(phase.steps));
    add(kBadLines, static_cast<double>(phase.bad_lines));
    add(kLoss, phase.loss_sum);
    add(kEpoch, phase.newest.epoch + 1);
    // 0 / 0 is NaN.
    add(kLogloss, phase.newest_totals.loss_sum /
                      static_cast<double>(phase.newest_totals.examples));
    add(kAuc, progress.Auc(phase.newest));
    for (size_t s = 0; s < phase.stage_seconds.size(); ++s) {
      snapshot->Add(
          kStageSeconds, phase.stage_seconds[s],
          {{"phase", name}, {"stage", StageName(static_cast<Stage>(s))}});
    }
    snapshot->Add(kStaleness, StalenessOf(phase.staleness, phase.staleness_sum),
                  {{"phase", name}});
    snapshot->Add(kDenseStaleness,
                  StalenessOf(phase.dense_staleness, phase.dense_staleness_sum),
                  {{"phase", name}});
    add(kRowCacheLookups, static_cast<double>(phase.row_cache_lookups));
    add(kRowCacheHits, static_cast<double>(phase.row_cache_hits));
    AddQuantiles(name, "rows", phase.staleness, snapshot);
    AddQuantiles(name, "dense", phase.dense_staleness, snapshot);
  }
}

MetricList WorkerMetricsList() {
  static constexpr const Metric* kAll[] = {&kExamples,
                                           &kSteps,
                                           &kBadLines,
                                           &kLoss,
                                           &kEpoch,
                                           &kLogloss,
                                           &kAuc,
                                           &kStageSeconds,
                                           &kStaleness,
                                           &kDenseStaleness,
                                           &kStalenessQuantile,
                                           &kRowCacheLookups,
                                           &kRowCacheHits};
  return kAll;
}

}  // namespace oarlock::worker
