// Evaluations: each worker's sums, and the outcome over all of them.

#include <cmath>
#include <limits>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "capi/json.h"
#include "capi/session.h"
#include "proto/v1/coordinator_training.pb.h"

namespace oarlock::capi {
namespace {

// Nothing: nobody has told it.
std::optional<v1::Evaluation> Find(const v1::JobStatusResponse& status,
                                   const std::string& name) {
  for (const v1::Evaluation& evaluation : status.evaluations()) {
    if (evaluation.work() == name) return evaluation;
  }
  return std::nullopt;
}

v1::Evaluation Conclude(const v1::JobStatusResponse& status,
                        const WorkId& work) {
  v1::Evaluation evaluation;
  evaluation.set_work(NameOf(work));
  evaluation.set_auc(std::numeric_limits<double>::quiet_NaN());
  evaluation.set_logloss(std::numeric_limits<double>::quiet_NaN());
  for (const v1::PhaseStatus& phase : status.phases()) {
    const v1::PhaseProgress& progress = phase.progress();
    if (progress.phase() == "train") {
      evaluation.set_trained_examples(evaluation.trained_examples() +
                                      progress.examples());
      evaluation.set_trained_steps(evaluation.trained_steps() +
                                   progress.steps());
    }
    if (progress.phase() != work.first || progress.epoch() != work.second) {
      continue;
    }
    evaluation.set_examples(progress.examples());
    evaluation.set_auc(phase.auc());
    evaluation.set_logloss(phase.logloss());
    if (progress.examples() > 0) {
      evaluation.set_label_mean(progress.label_sum() /
                                static_cast<double>(progress.examples()));
    }
  }
  return evaluation;
}

}  // namespace

absl::Status Session::AddPredictions(const WorkId& evaluation,
                                     absl::Span<const float> labels,
                                     absl::Span<const float> predictions) {
  OARLOCK_RETURN_IF_ERROR(CheckWorker());
  {
    absl::MutexLock lock(&mutex_);
    if (epochs_.contains(NameOf(evaluation))) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", NameOf(evaluation),
                       "' is a work, whose parts are leased; give the "
                       "evaluation another name"));
    }
  }
  return progress_.AddPredictions(evaluation, labels, predictions);
}

absl::StatusOr<std::string> Session::SumEvaluation(const WorkId& work) {
  OARLOCK_RETURN_IF_ERROR(CheckWorker());
  const std::string name = NameOf(work);
  {
    absl::MutexLock lock(&mutex_);
    if (!summed_evaluations_.insert(name).second) {
      return absl::FailedPreconditionError(
          absl::StrCat("evaluation '", name,
                       "' was summed up before; give another epoch or another "
                       "name"));
    }
  }
  OARLOCK_ASSIGN_OR_RETURN(v1::JobStatusResponse status, job_->GetJobStatus());
  if (const auto told = Find(status, name)) {
    // By this worker's predecessor and the others.
    progress_.EndEvaluation(work, /*report=*/false);
    return ToJson(*told);
  }
  progress_.EndEvaluation(work, /*report=*/true);
  OARLOCK_RETURN_IF_ERROR(job_->Report());
  OARLOCK_RETURN_IF_ERROR(job_->Barrier(absl::StrCat(name, "/predicted")));
  OARLOCK_ASSIGN_OR_RETURN(status, job_->GetJobStatus());
  v1::Evaluation evaluation = Conclude(status, work);
  evaluation.set_unix_seconds(
      absl::ToDoubleSeconds(servers_->wall_clock().Now() - absl::UnixEpoch()));
  const absl::Status told = job_->ReportEvaluation(evaluation);
  // The first one to tell it has told it for all.
  if (!absl::IsAlreadyExists(told)) OARLOCK_RETURN_IF_ERROR(told);
  OARLOCK_ASSIGN_OR_RETURN(status, job_->GetJobStatus());
  return ToJson(Find(status, name).value_or(evaluation));
}

}  // namespace oarlock::capi
