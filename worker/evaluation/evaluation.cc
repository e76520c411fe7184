#include "worker/evaluation/evaluation.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "base/auc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "worker/epoch/pipelined_epoch.h"
#include "worker/evaluation/early_stop.h"

namespace oarlock::worker {
namespace {

constexpr WorkerIndex kFirstWorker(0);
constexpr char kPeriodicEvaluation[] = "evaluation";
constexpr char kTest[] = "test";
// Between two looks at how much the job has trained.
constexpr absl::Duration kPoll = absl::Milliseconds(100);
constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();

// Makes a checkpoint that stays, and tells where. One that fails is a warning.
absl::Status KeepBest(client::JobClient* job, v1::Evaluation evaluation) {
  const absl::StatusOr<std::string> kept = job->CheckpointBest();
  if (!kept.ok()) {
    Log().warn("no checkpoint of the best evaluation: {}",
               std::string(kept.status().message()));
    return absl::OkStatus();
  }
  evaluation.set_checkpoint(*kept);
  return job->ReportEvaluation(evaluation);
}

// This very evaluation was told as the best one, by a worker 0 that died before
// its checkpoint was kept, and nothing was trained since.
bool LacksItsCheckpoint(const EarlyStopVerdict& verdict,
                        const v1::Evaluation& evaluation) {
  return verdict.newest_is_best && verdict.best->best() &&
         verdict.best->checkpoint().empty() &&
         verdict.best->work() == evaluation.work() &&
         verdict.best->trained_examples() == evaluation.trained_examples();
}

// FailedPrecondition for an evaluation of test files that no other can be
// better or worse than.
absl::Status CheckComparable(const EarlyStopOptions& options,
                             const v1::Evaluation& evaluation) {
  if (options.metric != EarlyStopOptions::Metric::kAuc ||
      !std::isnan(evaluation.auc()) ||
      absl::StartsWith(evaluation.work(), "predict/")) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "AUC of the test files ",
      AucText(evaluation.auc(), /*digits=*/4, evaluation.label_mean(),
              evaluation.examples()),
      ", and --early_stop_metric is auc; name test files with both, or give "
      "--early_stop_metric logloss"));
}

double LabelMean(double label_sum, uint64_t num_examples) {
  return num_examples == 0 ? 0 : label_sum / static_cast<double>(num_examples);
}

void LogEvaluation(const v1::Evaluation& evaluation) {
  Log().info(
      "{}{} after {} trained examples: auc {}  logloss {:.4f}  "
      "{} examples{}",
      evaluation.work(),
      evaluation.file().empty() ? std::string()
                                : absl::StrCat(" (", evaluation.file(), ")"),
      evaluation.trained_examples(),
      AucText(evaluation.auc(), 4, evaluation.label_mean(),
              evaluation.examples()),
      evaluation.logloss(), evaluation.examples(),
      evaluation.best() ? ", the best so far" : "");
}

}  // namespace

TrainedTotals TrainedTotalsOf(const v1::JobStatusResponse& status) {
  TrainedTotals totals;
  for (const v1::PhaseStatus& phase : status.phases()) {
    if (phase.progress().phase() != "train") continue;
    totals.examples += phase.progress().examples();
    totals.steps += phase.progress().steps();
  }
  return totals;
}

absl::Status CheckEvaluation(const v1::JobConfig& config) {
  if (!config.test_files().empty()) return absl::OkStatus();
  const std::string needs =
      " needs test files, and there are none; name them with --test_files";
  if (config.evaluate_period() > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("--evaluate_period ", config.evaluate_period(), needs));
  }
  if (config.early_stop_metric() != "none") {
    return absl::InvalidArgumentError(absl::StrCat(
        "--early_stop_metric ", config.early_stop_metric(), needs));
  }
  return absl::OkStatus();
}

bool HasTestExamples(const v1::JobStatusResponse& status) {
  return std::any_of(status.phases().begin(), status.phases().end(),
                     [](const v1::PhaseStatus& phase) {
                       return phase.progress().phase() == kTest &&
                              phase.progress().examples() > 0;
                     });
}

absl::Status NoTestExamples(const v1::JobConfig& config) {
  return absl::FailedPreconditionError(absl::StrCat(
      "--test_files ", absl::StrJoin(config.test_files(), ","),
      " has no examples, so there are no metrics",
      NeedsTestExamples(config)
          ? absl::StrCat(" and --early_stop_metric ",
                         config.early_stop_metric(), " would never stop")
          : "",
      "; name files that have some"));
}

bool NeedsTestExamples(const v1::JobConfig& config) {
  return config.early_stop_metric() != "none";
}

absl::Status ConcludeEvaluation(const v1::JobConfig& config,
                                client::JobClient* job,
                                v1::Evaluation evaluation,
                                const Clock& wall_clock) {
  OARLOCK_ASSIGN_OR_RETURN(const v1::JobStatusResponse status,
                           job->GetJobStatus());
  const EarlyStopOptions options = EarlyStopOptionsOf(config);
  const std::vector<v1::Evaluation> earlier(status.evaluations().begin(),
                                            status.evaluations().end());
  // Before the job was resumed; nothing was trained since, so it stands.
  bool is_known =
      evaluation.trained_examples() == 0 &&
      std::any_of(earlier.begin(), earlier.end(), [&](const v1::Evaluation& e) {
        return e.work() == evaluation.work();
      });
  EarlyStopVerdict verdict;
  if (!is_known) {
    evaluation.set_unix_seconds(
        absl::ToDoubleSeconds(wall_clock.Now() - absl::UnixEpoch()));
    std::vector<v1::Evaluation> evaluations = earlier;
    evaluations.push_back(evaluation);
    verdict = JudgeEvaluations(options, evaluations);
    evaluation.set_best(verdict.newest_is_best &&
                        !absl::StartsWith(evaluation.work(), "predict/"));
    const absl::Status reported = job->ReportEvaluation(evaluation);
    // By a worker 0 that has died since, whose successor comes by here again.
    is_known = absl::IsAlreadyExists(reported);
    if (!is_known) OARLOCK_RETURN_IF_ERROR(reported);
  }
  if (is_known) {
    verdict = JudgeEvaluations(options, earlier);
    if (LacksItsCheckpoint(verdict, evaluation) && job->takes_cuts()) {
      OARLOCK_RETURN_IF_ERROR(KeepBest(job, *verdict.best));
    }
  } else {
    LogEvaluation(evaluation);
    OARLOCK_RETURN_IF_ERROR(CheckComparable(options, evaluation));
    if (evaluation.best() && job->takes_cuts()) {
      OARLOCK_RETURN_IF_ERROR(KeepBest(job, std::move(evaluation)));
    }
  }
  return verdict.stop ? job->StopTraining(verdict.reason) : absl::OkStatus();
}

absl::Status ConcludeEvaluationOfAll(const v1::JobConfig& config,
                                     client::JobClient* job,
                                     const PhaseId& phase,
                                     const std::string& file,
                                     const Clock& wall_clock) {
  const std::string phase_name = phase.Name();
  OARLOCK_RETURN_IF_ERROR(job->Report());
  OARLOCK_RETURN_IF_ERROR(job->Barrier(absl::StrCat(phase_name, "/predicted")));
  if (job->worker_index() == kFirstWorker) {
    OARLOCK_ASSIGN_OR_RETURN(const v1::JobStatusResponse status,
                             job->GetJobStatus());
    const TrainedTotals trained = TrainedTotalsOf(status);
    v1::Evaluation evaluation;
    evaluation.set_work(phase_name);
    evaluation.set_file(file);
    evaluation.set_trained_examples(trained.examples);
    evaluation.set_trained_steps(trained.steps);
    evaluation.set_auc(kNothing);
    evaluation.set_logloss(kNothing);
    for (const v1::PhaseStatus& done : status.phases()) {
      if (done.progress().phase() != phase.phase ||
          done.progress().epoch() != phase.epoch) {
        continue;
      }
      evaluation.set_examples(done.progress().examples());
      evaluation.set_auc(done.auc());
      evaluation.set_logloss(done.logloss());
      evaluation.set_label_mean(
          LabelMean(done.progress().label_sum(), done.progress().examples()));
    }
    // Of nothing there is nothing to tell.
    if (evaluation.examples() > 0) {
      OARLOCK_RETURN_IF_ERROR(
          ConcludeEvaluation(config, job, std::move(evaluation), wall_clock));
    } else if (phase.phase == kTest && NeedsTestExamples(config) &&
               !HasTestExamples(status)) {
      return NoTestExamples(config);
    }
  }
  return job->Barrier(absl::StrCat(phase_name, "/concluded"));
}

// All items once, until it is told to end.
class PeriodicEvaluation::Items : public data::RangeSource {
 public:
  explicit Items(const PeriodicEvaluation* owner) : owner_(owner) {}

  absl::StatusOr<std::optional<data::DataRange>> Next() override {
    const bool stopping = owner_->stopping();
    absl::MutexLock lock(&mutex_);
    if (stopping || next_ == owner_->items_.size()) return std::nullopt;
    return owner_->items_[next_++];
  }
  void Done(const data::DataRange&) override {}

 private:
  const PeriodicEvaluation* const owner_;
  absl::Mutex mutex_;
  size_t next_ ABSL_GUARDED_BY(mutex_) = 0;
};

PeriodicEvaluation::PeriodicEvaluation(const EpochContext& context,
                                       std::vector<data::DataRange> items,
                                       uint64_t period_examples)
    : context_(context),
      items_(std::move(items)),
      period_examples_(period_examples),
      dense_(context.parameters, context.dense_table) {
  context_.dense = &dense_;
  context_.cuts = nullptr;
  context_.num_dense_copies = 1;
  thread_ = std::thread([this] { Run(); });
}

PeriodicEvaluation::~PeriodicEvaluation() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  thread_.join();
}

void PeriodicEvaluation::Run() {
  std::optional<uint64_t> next;
  for (;;) {
    v1::JobStatusResponse status;
    absl::StatusOr<bool> go_on = AwaitTrained(next.value_or(0), &status);
    if (go_on.ok() && !*go_on) return;
    absl::Status done = go_on.status();
    if (done.ok() && next.has_value()) done = EvaluateOnce(status);
    if (!done.ok()) {
      // The evaluation after the epoch meets what is wrong and says so; a job
      // that is being ended says it itself.
      Log().warn("no further periodic evaluation in this epoch: {}",
                 std::string(done.message()));
      return;
    }
    next = (TrainedTotalsOf(status).examples / period_examples_ + 1) *
           period_examples_;
  }
}

absl::StatusOr<bool> PeriodicEvaluation::AwaitTrained(
    uint64_t examples, v1::JobStatusResponse* status) {
  for (;;) {
    OARLOCK_RETURN_IF_ERROR(context_.job->Alive());
    if (stopping()) return false;
    OARLOCK_ASSIGN_OR_RETURN(*status, context_.job->GetJobStatus());
    if (TrainedTotalsOf(*status).examples >= examples) return true;
    absl::MutexLock lock(&mutex_);
    context_.clock().AwaitFor(&mutex_, absl::Condition(&stopping_), kPoll);
  }
}

absl::Status PeriodicEvaluation::EvaluateOnce(
    const v1::JobStatusResponse& status) {
  PhaseId phase{kPeriodicEvaluation, 0};
  for (const v1::Evaluation& earlier : status.evaluations()) {
    absl::string_view number = earlier.work();
    uint32_t known = 0;
    if (absl::ConsumePrefix(&number, absl::StrCat(kPeriodicEvaluation, "/")) &&
        absl::SimpleAtoi(number, &known)) {
      phase.epoch = std::max(phase.epoch, known + 1);
    }
  }
  Items items(this);
  // Not the worker's: this is no phase of the job.
  ProgressMeter progress;
  EpochContext context = context_;
  context.progress = &progress;
  context.phase = phase;
  context.phase_name = phase.Name();
  context.ranges = {&items};
  OARLOCK_RETURN_IF_ERROR(RunEvaluation(context));
  if (stopping()) return absl::OkStatus();
  const PhaseTotals totals = progress.Totals()[phase.phase].newest_totals;
  if (totals.examples == 0) return NoTestExamples(*context_.config);
  const TrainedTotals trained = TrainedTotalsOf(status);
  v1::Evaluation evaluation;
  evaluation.set_work(phase.Name());
  evaluation.set_examples(totals.examples);
  evaluation.set_auc(progress.Auc(phase));
  evaluation.set_logloss(totals.loss_sum /
                         static_cast<double>(totals.examples));
  evaluation.set_label_mean(LabelMean(totals.label_sum, totals.examples));
  evaluation.set_trained_examples(trained.examples);
  evaluation.set_trained_steps(trained.steps);
  return ConcludeEvaluation(*context_.config, context_.job,
                            std::move(evaluation), *context_.clocks.wall);
}

}  // namespace oarlock::worker
