#include "worker/report/progress_meter.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "base/log2_histogram.h"

namespace oarlock::worker {
namespace {

// By bucket.
void CountIn(uint64_t value, std::vector<uint64_t>* counts) {
  const size_t bucket = Log2Bucket(value);
  if (counts->size() <= bucket) counts->resize(bucket + 1);
  ++(*counts)[bucket];
}
void CountIn(uint64_t value,
             google::protobuf::RepeatedField<uint64_t>* counts) {
  const auto bucket = static_cast<int>(Log2Bucket(value));
  if (counts->size() <= bucket) counts->Resize(bucket + 1, 0);
  ++*counts->Mutable(bucket);
}

}  // namespace

std::string StageName(Stage stage) {
  switch (stage) {
    case Stage::kRead:
      return "read";
    case Stage::kPull:
      return "pull";
    case Stage::kWaitPull:
      return "wait_pull";
    case Stage::kCompute:
      return "compute";
    case Stage::kPush:
      return "push";
    case Stage::kWaitPush:
      return "wait_push";
    case Stage::kNumStages:
      break;
  }
  OARLOCK_CHECK(false);
}

ProgressMeter::PhaseCounts& ProgressMeter::Moved(const PhaseId& phase) {
  PhaseCounts& counts = phases_[phase];
  counts.moved = true;
  if (counts.kind == nullptr) {
    counts.kind = &kinds_[phase.phase];
    // Of another kind, or none, before the first phase.
    counts.kind->newest = std::max(counts.kind->newest, phase);
  }
  return counts;
}

std::map<std::string, KindTotals> ProgressMeter::Totals() const {
  absl::MutexLock lock(&mutex_);
  std::map<std::string, KindTotals> kinds = kinds_;
  for (auto& [name, kind] : kinds) {
    kind.newest_totals = phases_.at(kind.newest).totals;
  }
  return kinds;
}

PhaseTotals ProgressMeter::AddStep(const PhaseId& phase,
                                   absl::Span<const float> labels,
                                   absl::Span<const float> predictions,
                                   double loss_sum) {
  OARLOCK_CHECK(labels.size() == predictions.size());
  loss_sum = std::nearbyint(loss_sum / kLossUnit) * kLossUnit;
  absl::MutexLock lock(&mutex_);
  PhaseCounts& counts = Moved(phase);
  double label_sum = 0;
  double prediction_sum = 0;
  for (size_t i = 0; i < labels.size(); ++i) {
    label_sum += labels[i];
    prediction_sum += predictions[i];
    counts.auc_since_report.Add(predictions[i], labels[i] > 0.5f);
  }
  v1::PhaseProgress& report = counts.since_report;
  report.set_examples(report.examples() + labels.size());
  report.set_steps(report.steps() + 1);
  report.set_loss_sum(report.loss_sum() + loss_sum);
  report.set_label_sum(report.label_sum() + label_sum);
  report.set_prediction_sum(report.prediction_sum() + prediction_sum);
  counts.totals.examples += labels.size();
  counts.totals.steps += 1;
  counts.totals.loss_sum += loss_sum;
  counts.totals.label_sum += label_sum;
  counts.kind->examples += labels.size();
  counts.kind->steps += 1;
  counts.kind->loss_sum += loss_sum;
  return counts.totals;
}

void ProgressMeter::ObserveDense(absl::Span<const float> dense,
                                 size_t num_examples) {
  if (dense.empty()) return;
  size_t largest = 0;
  for (size_t i = 1; i < dense.size(); ++i) {
    if (std::abs(dense[i]) > std::abs(dense[largest])) largest = i;
  }
  absl::MutexLock lock(&mutex_);
  const float magnitude = std::abs(dense[largest]);
  if (magnitude > largest_dense_.magnitude) {
    largest_dense_ = {magnitude, largest % (dense.size() / num_examples)};
  }
}

ProgressMeter::LargestDense ProgressMeter::largest_dense() const {
  absl::MutexLock lock(&mutex_);
  return largest_dense_;
}

double ProgressMeter::Auc(const PhaseId& phase) const {
  AucHistogram all;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = phases_.find(phase);
    if (found == phases_.end()) return all.Auc();
    all = found->second.auc_total;
    all.Merge(found->second.auc_since_report);
  }
  return all.Auc();
}

void ProgressMeter::AddTime(const PhaseId& phase, Stage stage,
                            absl::Duration time) {
  absl::MutexLock lock(&mutex_);
  PhaseCounts& counts = Moved(phase);
  const double seconds = absl::ToDoubleSeconds(time);
  counts.seconds[static_cast<size_t>(stage)] += seconds;
  counts.kind->stage_seconds[static_cast<size_t>(stage)] += seconds;
}

void ProgressMeter::AddBadLines(const PhaseId& phase, uint64_t lines) {
  absl::MutexLock lock(&mutex_);
  PhaseCounts& counts = Moved(phase);
  v1::PhaseProgress& report = counts.since_report;
  report.set_bad_lines(report.bad_lines() + lines);
  counts.kind->bad_lines += lines;
}

void ProgressMeter::AddStaleness(const PhaseId& phase, uint64_t pushes) {
  absl::MutexLock lock(&mutex_);
  PhaseCounts& counts = Moved(phase);
  CountIn(pushes, counts.since_report.mutable_staleness_histogram());
  CountIn(pushes, &counts.staleness);
  CountIn(pushes, &counts.kind->staleness);
  counts.kind->staleness_sum += pushes;
}

void ProgressMeter::AddDenseStaleness(const PhaseId& phase, uint64_t pushes) {
  absl::MutexLock lock(&mutex_);
  PhaseCounts& counts = Moved(phase);
  CountIn(pushes, counts.since_report.mutable_dense_staleness_histogram());
  CountIn(pushes, &counts.kind->dense_staleness);
  counts.kind->dense_staleness_sum += pushes;
}

void ProgressMeter::AddRowCache(const PhaseId& phase, uint64_t rows,
                                uint64_t pulled) {
  absl::MutexLock lock(&mutex_);
  PhaseCounts& counts = Moved(phase);
  v1::PhaseProgress& report = counts.since_report;
  report.set_row_cache_lookups(report.row_cache_lookups() + rows);
  report.set_row_cache_hits(report.row_cache_hits() + rows - pulled);
  counts.kind->row_cache_lookups += rows;
  counts.kind->row_cache_hits += rows - pulled;
}

std::vector<uint64_t> ProgressMeter::Staleness(const PhaseId& phase) const {
  absl::MutexLock lock(&mutex_);
  const auto found = phases_.find(phase);
  if (found == phases_.end()) return {};
  return found->second.staleness;
}

std::vector<v1::PhaseProgress> ProgressMeter::Take() {
  absl::MutexLock lock(&mutex_);
  std::vector<v1::PhaseProgress> reports;
  for (auto& [id, counts] : phases_) {
    if (!counts.moved) continue;
    v1::PhaseProgress report = std::move(counts.since_report);
    report.set_phase(id.phase);
    report.set_epoch(id.epoch);
    counts.auc_since_report.VisitNonEmpty(
        [&](uint32_t bucket, uint64_t positives, uint64_t negatives) {
          report.add_buckets(bucket);
          report.add_positives(positives);
          report.add_negatives(negatives);
        });
    for (size_t s = 0; s < counts.seconds.size(); ++s) {
      if (counts.seconds[s] == 0) continue;
      v1::StageTime* stage = report.add_stages();
      stage->set_stage(StageName(static_cast<Stage>(s)));
      stage->set_seconds(counts.seconds[s]);
    }
    counts.auc_total.Merge(counts.auc_since_report);
    counts.auc_since_report.Clear();
    counts.since_report.Clear();
    counts.seconds.fill(0);
    counts.moved = false;
    reports.push_back(std::move(report));
  }
  return reports;
}

}  // namespace oarlock::worker
