#include "worker/evaluation/early_stop.h"

#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace oarlock::worker {
namespace {

using StopMetric = EarlyStopOptions::Metric;

// The larger the better.
double ScoreOf(StopMetric metric, const v1::Evaluation& evaluation) {
  return metric == StopMetric::kAuc ? evaluation.auc() : -evaluation.logloss();
}

}  // namespace

EarlyStopOptions EarlyStopOptionsOf(const v1::JobConfig& config) {
  EarlyStopOptions options;
  options.metric = config.early_stop_metric() == "auc" ? StopMetric::kAuc
                   : config.early_stop_metric() == "logloss"
                       ? StopMetric::kLogloss
                       : StopMetric::kNone;
  options.patience = config.early_stop_patience();
  options.min_delta = config.early_stop_min_delta();
  return options;
}

EarlyStopVerdict JudgeEvaluations(
    const EarlyStopOptions& options,
    absl::Span<const v1::Evaluation> evaluations) {
  EarlyStopVerdict verdict;
  if (options.metric == StopMetric::kNone) return verdict;
  int since_best = 0;
  for (const v1::Evaluation& evaluation : evaluations) {
    if (absl::StartsWith(evaluation.work(), "predict/")) continue;
    const double score = ScoreOf(options.metric, evaluation);
    verdict.newest_is_best =
        !std::isnan(score) &&
        (!verdict.best.has_value() ||
         score > ScoreOf(options.metric, *verdict.best) + options.min_delta);
    if (verdict.newest_is_best) {
      verdict.best = evaluation;
      since_best = 0;
    } else {
      ++since_best;
    }
  }
  if (since_best < options.patience) return verdict;
  verdict.stop = true;
  const bool auc = options.metric == StopMetric::kAuc;
  verdict.reason = absl::StrCat(
      "early stop: ", auc ? "AUC" : "logloss", " of the test files ",
      verdict.best.has_value()
          ? absl::StrFormat("was best, %.4f, in %s after %d examples",
                            auc ? verdict.best->auc() : verdict.best->logloss(),
                            verdict.best->work(),
                            verdict.best->trained_examples())
          : "could not be told",
      ", and ", since_best, " evaluation", since_best == 1 ? "" : "s",
      " since then ", since_best == 1 ? "was" : "were", " no better",
      options.min_delta > 0 ? absl::StrCat(" by more than ", options.min_delta)
                            : "");
  return verdict;
}

}  // namespace oarlock::worker
