// What a job did in all, for people and for programs.

#ifndef OARLOCK_WORKER_REPORT_SUMMARY_H_
#define OARLOCK_WORKER_REPORT_SUMMARY_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/v1/coordinator_job.pb.h"
#include "proto/v1/coordinator_training.pb.h"

namespace oarlock::worker {

// What the job did in all, over all workers.
struct TrainingSummary {
  // Of Oarlock, with the commit that it was built from.
  std::string version;
  // Every flag with the value that it had, defaults too.
  std::vector<std::pair<std::string, std::string>> flags;
  // Of the training and the test files, see fleet/role/input_digest.h.
  std::string train_files_digest;
  std::string test_files_digest;
  std::string model;
  std::string mode;
  uint32_t servers = 0;  // 0: a local run
  uint32_t workers = 0;
  int epochs = 0;
  // Of all epochs.
  uint64_t examples = 0;
  double seconds = 0;
  // Of the last epoch: each example is predicted before it is learned
  // from. NaN where there is nothing to tell.
  double train_auc = 0;
  double train_logloss = 0;
  double train_label_mean = 0;
  uint64_t last_epoch_examples = 0;
  // Of the last evaluation.
  double test_auc = 0;
  double test_logloss = 0;
  double test_label_mean = 0;
  uint64_t test_examples = 0;
  uint64_t bad_lines = 0;
  double staleness_p50 = 0;
  double staleness_p99 = 0;
  double dense_staleness_p50 = 0;
  double dense_staleness_p99 = 0;
  // Of the rows that the last epoch needed, the share that compute
  // threads had; NaN without a cache of rows.
  double row_cache_hit_rate = 0;
  // In the order in which they were concluded.
  std::vector<v1::Evaluation> evaluations;
  // What a user should look at: phases that predict worse than a constant.
  std::vector<std::string> warnings;
  // Why training was stopped before its data ended; empty: it was not.
  std::string stop_reason;
  // Seconds per stage and step of the last epoch, by stage name.
  std::vector<std::pair<std::string, double>> stage_seconds_per_step;
};

// Everything that the coordinator knows; model, mode and seconds are the
// caller's.
TrainingSummary SummaryOf(const v1::JobStatusResponse& status);

// One line of JSON, as it stands in the summary.
std::string EvaluationJson(const v1::Evaluation& evaluation);

// The summary as one JSON object; what is not known is null.
std::string SummaryJson(const TrainingSummary& summary);
// Writes it to `path`: whole or not at all.
absl::Status WriteSummary(const TrainingSummary& summary,
                          const std::string& path);
// What WriteSummary wrote. NotFound or DataLoss names the file.
absl::StatusOr<TrainingSummary> ReadSummary(const std::string& path);
// A few aligned lines for a terminal.
std::string SummaryTable(const TrainingSummary& summary);

}  // namespace oarlock::worker

#endif  // OARLOCK_WORKER_REPORT_SUMMARY_H_
