#include "coordinator/job_metrics.h"

#include <algorithm>
#include <map>
#include <string>

#include "absl/strings/ascii.h"
#include "base/log2_histogram.h"
#include "proto/v1/coordinator_job.pb.h"
#include "proto/v1/coordinator_progress.pb.h"
#include "proto/v1/coordinator_workers.pb.h"

namespace oarlock::coordinator {
namespace {

constexpr Metric kWorkers = {
    MetricKind::kGauge, "oarlock_coordinator_workers", "workers", "life",
    "Workers by what the coordinator knows of them: waiting (not registered "
    "yet), alive, lost, finished or failed."};
constexpr Metric kAliveServers = {
    MetricKind::kGauge, "oarlock_coordinator_alive_servers", "servers", "",
    "Servers that are alive, the coordinator included."};
constexpr Metric kExamples = {
    MetricKind::kCounter, "oarlock_coordinator_examples_total", "examples",
    "phase", "Examples that all workers have reported, of all epochs."};
constexpr Metric kBadLines = {
    MetricKind::kCounter, "oarlock_coordinator_bad_lines_total", "lines",
    "phase", "Malformed lines that all workers have skipped."};
constexpr Metric kEpoch = {MetricKind::kGauge, "oarlock_coordinator_epoch",
                           "epoch", "phase", "The newest epoch, from 1."};
constexpr Metric kEpochExamples = {
    MetricKind::kGauge, "oarlock_coordinator_epoch_examples", "examples",
    "phase", "Examples of the newest epoch that have been reported."};
constexpr Metric kLogloss = {
    MetricKind::kGauge, "oarlock_coordinator_logloss", "nats", "phase",
    "Mean loss of the newest epoch so far, over all workers."};
constexpr Metric kAuc = {
    MetricKind::kGauge, "oarlock_coordinator_auc", "ratio", "phase",
    "AUC of the newest epoch so far, over all workers; NaN while a class is "
    "missing."};
constexpr Metric kStaleness = {
    MetricKind::kGauge, "oarlock_coordinator_staleness_pushes", "pushes",
    "phase, of, quantile",
    "Half of the steps of the newest epoch (quantile .5), or all but a "
    "hundredth "
    "(.99), were at most so stale; of rows or dense parameters. Upper end of a "
    "bucket that doubles in size."};

void CollectStaleness(const std::string& phase, const std::string& of,
                      const google::protobuf::RepeatedField<uint64_t>& counts,
                      MetricsSnapshot* snapshot) {
  if (counts.empty()) return;
  snapshot->Add(kStaleness, Log2Quantile(counts, .5),
                {{"phase", phase}, {"of", of}, {"quantile", ".5"}});
  snapshot->Add(kStaleness, Log2Quantile(counts, .99),
                {{"phase", phase}, {"of", of}, {"quantile", ".99"}});
}

void CollectWorkers(const v1::JobStatusResponse& job,
                    MetricsSnapshot* snapshot) {
  // Each life is always reported: a gap in a graph would not mean zero.
  std::map<v1::WorkerState::Life, uint32_t> workers = {
      {v1::WorkerState::ALIVE, 0},
      {v1::WorkerState::LOST, 0},
      {v1::WorkerState::FINISHED, 0},
      {v1::WorkerState::FAILED, 0}};
  uint32_t registered = 0;
  for (const v1::WorkerState& worker : job.workers()) {
    const auto found = workers.find(worker.life());
    if (found == workers.end()) continue;
    ++found->second;
    ++registered;
  }
  for (const auto& [life, count] : workers) {
    snapshot->Add(
        kWorkers, count,
        {{"life", absl::AsciiStrToLower(v1::WorkerState::Life_Name(life))}});
  }
  snapshot->Add(kWorkers, job.num_workers() - registered,
                {{"life", "waiting"}});
}

}  // namespace

void CollectJobMetrics(const Coordinator& coordinator,
                       MetricsSnapshot* snapshot) {
  const v1::JobStatusResponse job = coordinator.JobStatus({});
  CollectWorkers(job, snapshot);
  snapshot->Add(kAliveServers, job.num_servers_alive());

  struct Phase {
    uint64_t examples = 0;
    uint64_t bad_lines = 0;
    const v1::PhaseStatus* newest = nullptr;
  };
  std::map<std::string, Phase> phases;
  for (const v1::PhaseStatus& status : job.phases()) {
    const v1::PhaseProgress& progress = status.progress();
    Phase& phase = phases[progress.phase()];
    phase.examples += progress.examples();
    phase.bad_lines += progress.bad_lines();
    if (phase.newest == nullptr ||
        phase.newest->progress().epoch() <= progress.epoch()) {
      phase.newest = &status;
    }
  }
  for (const auto& [name, phase] : phases) {
    const MetricsSnapshot::Labels labels = {{"phase", name}};
    const v1::PhaseProgress& newest = phase.newest->progress();
    snapshot->Add(kExamples, static_cast<double>(phase.examples), labels);
    snapshot->Add(kBadLines, static_cast<double>(phase.bad_lines), labels);
    snapshot->Add(kEpoch, newest.epoch() + 1, labels);
    snapshot->Add(kEpochExamples, static_cast<double>(newest.examples()),
                  labels);
    snapshot->Add(kLogloss, phase.newest->logloss(), labels);
    snapshot->Add(kAuc, phase.newest->auc(), labels);
    CollectStaleness(name, "rows", newest.staleness_histogram(), snapshot);
    CollectStaleness(name, "dense", newest.dense_staleness_histogram(),
                     snapshot);
  }
}

MetricList JobMetricsList() {
  static constexpr const Metric* kAll[] = {
      &kWorkers,       &kAliveServers, &kExamples, &kBadLines, &kEpoch,
      &kEpochExamples, &kLogloss,      &kAuc,      &kStaleness};
  return kAll;
}

}  // namespace oarlock::coordinator
