#include "pserver/checkpoint/checkpoint_metrics.h"

#include "absl/time/time.h"

namespace oarlock::pserver {
namespace {

constexpr Metric kCheckpointCut = {
    MetricKind::kGauge, "oarlock_server_checkpoint_cut", "cut", "",
    "Cut of the newest checkpoint that this server is part of; 0: none."};
constexpr Metric kCheckpointTime = {
    MetricKind::kGauge, "oarlock_server_checkpoint_time_seconds", "seconds", "",
    "Unix time at which that checkpoint became current; 0: before this process "
    "began."};
constexpr Metric kCuts = {
    MetricKind::kCounter, "oarlock_server_cuts_total", "cuts", "outcome",
    "Cuts that were opened here and are over: published or given_up."};
constexpr Metric kHeldSeconds = {
    MetricKind::kCounter, "oarlock_server_cut_held_seconds_total", "seconds",
    "",
    "From the opening of cuts, from when on pushes behind them are held, to "
    "the end of their freezes."};
constexpr Metric kFreezeSeconds = {
    MetricKind::kCounter, "oarlock_server_cut_freeze_seconds_total", "seconds",
    "", "During which no push was applied since tables were being frozen."};
constexpr Metric kSaveSeconds = {
    MetricKind::kCounter, "oarlock_server_cut_save_seconds_total", "seconds",
    "", "Writing and publishing this server's parts of checkpoints."};
constexpr Metric kWrittenBytes = {
    MetricKind::kCounter, "oarlock_server_cut_written_bytes_total", "bytes", "",
    "Written of this server's parts of checkpoints."};
constexpr Metric kLogBytes = {MetricKind::kGauge, "oarlock_server_log_bytes",
                              "bytes", "",
                              "Size of this server's log of pushes."};
constexpr Metric kReplaySeconds = {
    MetricKind::kGauge, "oarlock_server_log_replay_seconds", "seconds", "",
    "Reading and applying the log when this process began."};
constexpr Metric kReplayedPushes = {
    MetricKind::kGauge, "oarlock_server_log_replayed_pushes", "pushes", "",
    "Messages of pushes that were applied again then."};
constexpr Metric kCheckpointSeconds = {
    MetricKind::kGauge, "oarlock_coordinator_checkpoint_seconds", "seconds", "",
    "From the opening of the newest checkpoint's cut to its end on all "
    "servers."};
constexpr Metric kFailures = {
    MetricKind::kCounter, "oarlock_coordinator_failed_checkpoints_total",
    "checkpoints", "", "Checkpoints that were begun and could not be made."};

}  // namespace

void CollectCheckpointMetrics(const ServerCheckpoints& checkpoints,
                              MetricsSnapshot* snapshot) {
  const CutCounters cuts = checkpoints.cuts().stats();
  snapshot->Add(kCheckpointCut, static_cast<double>(cuts.current));
  snapshot->Add(
      kCheckpointTime,
      cuts.current_since == absl::InfinitePast()
          ? 0
          : absl::ToDoubleSeconds(cuts.current_since - absl::UnixEpoch()));
  snapshot->Add(kCuts, static_cast<double>(cuts.num_published),
                {{"outcome", "published"}});
  snapshot->Add(kCuts, static_cast<double>(cuts.num_given_up),
                {{"outcome", "given_up"}});
  snapshot->Add(kHeldSeconds, absl::ToDoubleSeconds(cuts.held));
  snapshot->Add(kFreezeSeconds, absl::ToDoubleSeconds(cuts.freezing));
  snapshot->Add(kSaveSeconds, absl::ToDoubleSeconds(cuts.saving));
  snapshot->Add(kWrittenBytes, static_cast<double>(cuts.written_bytes));
  if (const ServerLog* const log = checkpoints.log()) {
    snapshot->Add(kLogBytes, static_cast<double>(log->bytes()));
    snapshot->Add(kReplaySeconds, absl::ToDoubleSeconds(log->replay_time()));
    snapshot->Add(kReplayedPushes, static_cast<double>(log->replayed_pushes()));
  }
  if (const CheckpointLoop* const loop = checkpoints.loop()) {
    snapshot->Add(kCheckpointSeconds, absl::ToDoubleSeconds(loop->last_time()));
    snapshot->Add(kFailures, static_cast<double>(loop->num_failed()));
  }
}

MetricList CheckpointMetricsList() {
  static constexpr const Metric* kAll[] = {
      &kCheckpointCut,  &kCheckpointTime,    &kCuts,
      &kHeldSeconds,    &kFreezeSeconds,     &kSaveSeconds,
      &kWrittenBytes,   &kLogBytes,          &kReplaySeconds,
      &kReplayedPushes, &kCheckpointSeconds, &kFailures};
  return kAll;
}

}  // namespace oarlock::pserver
