#include "worker/epoch/step_thread.h"

#include <utility>

#include "absl/time/time.h"
#include "base/clock.h"
#include "base/status_macros.h"
#include "worker/epoch/step_log.h"

namespace oarlock::worker {

StepThread::StepThread(const EpochContext* context, size_t index,
                       bool pull_ahead, data::BadLines* bad_lines)
    : context_(context),
      pull_ahead_(pull_ahead),
      // One computes, and the look-ahead.
      feeder_(context, index, context->config->lookahead_batches() + 1,
              pull_ahead, bad_lines),
      executor_(context->model->NewExecutor(context->config->batch_size())),
      parameter_gradients_(context->model->spec().num_parameters),
      commands_(1),
      results_(1) {
  thread_ = std::thread([this] { Run(); });
}

StepThread::~StepThread() {
  commands_.Close();
  thread_.join();
}

void StepThread::Start(const float* parameters) { commands_.Push(parameters); }

absl::Status StepThread::Wait(std::shared_ptr<StepBuffer>* step) {
  Result result = *results_.Pop();
  *step = std::move(result.step);
  return result.status;
}

void StepThread::Run() {
  while (const auto parameters = commands_.Pop()) {
    Result result;
    absl::StatusOr<std::shared_ptr<StepBuffer>> step = Step(*parameters);
    result.status = step.status();
    if (step.ok()) result.step = *std::move(step);
    results_.Push(std::move(result));
  }
}

absl::StatusOr<std::shared_ptr<StepBuffer>> StepThread::Step(
    const float* parameters) {
  std::shared_ptr<StepBuffer> step = feeder_.Next();
  if (step == nullptr) {
    OARLOCK_RETURN_IF_ERROR(feeder_.status());
    return step;
  }
  const absl::Time start = context_->clock().Now();
  if (!pull_ahead_) {
    step->StartPull(context_->parameters, context_->sparse_tables, step);
  }
  OARLOCK_RETURN_IF_ERROR(feeder_.WaitForPull(step.get()));
  ProgressMeter& progress = *context_->progress;
  progress.AddTime(context_->phase, Stage::kPull, step->pull_time);
  progress.AddTime(context_->phase, Stage::kWaitPull,
                   context_->clock().Now() - start);
  OARLOCK_RETURN_IF_ERROR(Compute(*step, parameters));
  return step;
}

absl::Status StepThread::Compute(StepBuffer& step, const float* parameters) {
  ProgressMeter& progress = *context_->progress;
  const absl::Time start = context_->clock().Now();
  const nn::StepInput input =
      step.ModelInput(parameters, context_->GradientScale());
  nn::StepOutput output = step.ModelOutput(parameter_gradients_.data());
  executor_->Step(input, &output);
  OARLOCK_RETURN_IF_ERROR(CheckLoss(*context_, output.loss_sum));
  progress.AddTime(context_->phase, Stage::kCompute,
                   context_->clock().Now() - start);
  progress.ObserveDense(step.batch.dense, step.batch.num_examples);
  const PhaseTotals totals = progress.AddStep(
      context_->phase, step.batch.labels, output.predictions, output.loss_sum);
  LogStep(*context_, totals);
  return absl::OkStatus();
}

}  // namespace oarlock::worker
