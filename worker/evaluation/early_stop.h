// Whether training has stopped getting better.

#ifndef OARLOCK_WORKER_EVALUATION_EARLY_STOP_H_
#define OARLOCK_WORKER_EVALUATION_EARLY_STOP_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "proto/config/job_config.pb.h"
#include "proto/v1/coordinator_training.pb.h"

namespace oarlock::worker {

struct EarlyStopOptions {
  enum class Metric { kNone, kAuc, kLogloss };
  Metric metric = Metric::kNone;
  // At least 1.
  int patience = 3;
  // Of the metric; at least 0.
  double min_delta = 0;
};

EarlyStopOptions EarlyStopOptionsOf(const v1::JobConfig& config);

// A function of the job's list of evaluations and nothing else: whoever has the
// list, after a restart too, judges the same.
struct EarlyStopVerdict {
  // The best one: the first that nothing after it is better than by more than
  // min_delta; nothing when none of them can be compared.
  std::optional<v1::Evaluation> best;
  // It is the last one.
  bool newest_is_best = false;
  // As many as patience came after the best one.
  bool stop = false;
  // Why, one sentence.
  std::string reason;
};

// Of evaluations of the test files, oldest first; those of other examples
// ("predict/7") are left out. One whose metric is NaN is no better than any.
EarlyStopVerdict JudgeEvaluations(const EarlyStopOptions& options,
                                  absl::Span<const v1::Evaluation> evaluations);

}  // namespace oarlock::worker

#endif  // OARLOCK_WORKER_EVALUATION_EARLY_STOP_H_
