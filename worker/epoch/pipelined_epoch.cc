#include "worker/epoch/pipelined_epoch.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/call_and_wait.h"
#include "base/clock.h"
#include "base/status_macros.h"
#include "worker/cut/cut_marker.h"
#include "worker/dense/dense_copy.h"
#include "worker/dense/dense_copy_pool.h"
#include "worker/epoch/batch_feeder.h"
#include "worker/epoch/dense_copies.h"
#include "worker/epoch/step_log.h"
#include "worker/step/staleness.h"

namespace oarlock::worker {
namespace {

// What the compute threads of a phase share. Thread-safe.
class EpochState {
 public:
  // `copies`: what compute threads compute with, one at a time each.
  EpochState(const EpochContext* context,
             std::vector<std::unique_ptr<DenseCopy>> copies)
      : context_(context),
        copies_(std::move(copies),
                context->config->max_unacknowledged_pushes()) {}

  // The first failure ends the phase.
  void Fail(const absl::Status& status) {
    {
      absl::MutexLock lock(&mutex_);
      if (status_.ok()) status_ = status;
    }
    if (context_->gate != nullptr) context_->gate->Stop();
  }
  // The failure, or that of the job as a whole.
  absl::Status status() const {
    OARLOCK_RETURN_IF_ERROR(own_status());
    return context_->job->Alive();
  }
  absl::Status own_status() const {
    absl::MutexLock lock(&mutex_);
    return status_;
  }

  const EpochContext& context() const { return *context_; }
  DenseCopyPool& copies() { return copies_; }
  data::BadLines* bad_lines() { return &bad_lines_; }

 private:
  const EpochContext* const context_;
  DenseCopyPool copies_;
  data::BadLines bad_lines_;
  mutable absl::Mutex mutex_;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

// A compute thread; its feeder is the reader thread.
class ComputeThread {
 public:
  ComputeThread(EpochState* state, size_t index, bool trains)
      : state_(state),
        context_(state->context()),
        index_(index),
        trains_(trains),
        // One computes, one is on its way out, and the look-ahead.
        feeder_(&context_, index, context_.config->lookahead_batches() + 2,
                /*pull_ahead=*/true, state->bad_lines()),
        executor_(context_.model->NewExecutor(context_.config->batch_size())) {}

  void Run() {
    absl::Status status = Loop();
    if (status.ok()) status = feeder_.status();
    if (!status.ok()) state_->Fail(status);
    // What is under way refers to the feeder.
    WaitForPushes();
    if (context_.gate != nullptr) context_.gate->LeaveThread(index_);
  }

 private:
  absl::Status Loop() {
    while (std::shared_ptr<StepBuffer> step = feeder_.Next()) {
      OARLOCK_RETURN_IF_ERROR(state_->status());
      const absl::Time start = context_.clock().Now();
      OARLOCK_RETURN_IF_ERROR(feeder_.WaitForPull(step.get()));
      context_.progress->AddTime(context_.phase, Stage::kPull, step->pull_time);
      context_.progress->AddTime(context_.phase, Stage::kWaitPull,
                                 context_.clock().Now() - start);
      const absl::Time turn = context_.clock().Now();
      DenseCopy* const copy = state_->copies().Acquire();
      AddWait(turn);
      if (absl::Status computed = Compute(*step, copy); !computed.ok()) {
        // Whoever has it next, a compute thread or the cut marker, pushes none
        // of it.
        copy->StepFailed();
        state_->copies().Release(copy);
        return computed;
      }
      if (trains_) {
        Push(std::move(step), copy);
      } else {
        feeder_.Recycle(std::move(step));
      }
      state_->copies().Release(copy);
    }
    return absl::OkStatus();
  }

  absl::Status Compute(StepBuffer& step, DenseCopy* copy) {
    const absl::Time start = context_.clock().Now();
    nn::StepInput input =
        step.ModelInput(copy->values(), context_.GradientScale());
    nn::StepOutput output;
    if (trains_) {
      output = step.ModelOutput(copy->gradients());
      input.accumulate_parameter_gradients = copy->add_gradients();
      executor_->Step(input, &output);
      OARLOCK_RETURN_IF_ERROR(CheckLoss(context_, output.loss_sum));
      copy->StepDone(step.batch.ranges);
    } else {
      executor_->Predict(input, &output);
    }
    context_.progress->AddTime(context_.phase, Stage::kCompute,
                               context_.clock().Now() - start);
    context_.progress->ObserveDense(step.batch.dense, step.batch.num_examples);
    const PhaseTotals totals = context_.progress->AddStep(
        context_.phase, step.batch.labels, output.predictions, output.loss_sum);
    LogStep(context_, totals);
    return absl::OkStatus();
  }

  // Sends the step's row gradients and, when it is due, makes the copy's
  // exchange; waits for that: whoever computed with the copy meanwhile would
  // repeat what the others did, which costs most at the beginning, when
  // adagrad's steps are large.
  void Push(std::shared_ptr<StepBuffer> step, DenseCopy* copy) {
    const absl::Time waiting = context_.clock().Now();
    state_->copies().AcquirePermit(*copy);
    const absl::Time start = context_.clock().Now();
    context_.progress->AddTime(context_.phase, Stage::kWaitPush,
                               start - waiting);
    client::PushRequest push;
    push.epoch = context_.phase.epoch;
    push.cut = copy->cut();
    push.examples = step->batch.ranges;
    step->AddGradientsTo(&push, context_.sparse_tables,
                         context_.PushesStatistics());
    {
      absl::MutexLock lock(&mutex_);
      ++pushes_under_way_;
    }
    client::TableVersions* const versions = &step->pushed_versions;
    const bool has_dense = context_.dense_table != TableId(0);
    if (!has_dense) push.dense_examples = push.examples;
    if (!copy->ExchangeIsDue() || !has_dense) {
      const std::shared_ptr<const void> memory = step;
      context_.cuts->Push(
          context_.phase_name, push, versions, memory,
          [this, step = std::move(step), start](absl::Status status) mutable {
            OnPushed(std::move(step), start, status);
          });
      return;
    }
    DenseCopy::Exchange exchange = copy->TakeExchange(context_.dense_table);
    push.dense.push_back(exchange.gradients);
    push.dense_examples = std::move(exchange.examples);
    auto memory = std::make_shared<
        std::pair<std::shared_ptr<const void>, std::shared_ptr<const void>>>(
        step, exchange.memory);
    absl::Time sent;
    const absl::Status status =
        CallAndWait([&](client::ParameterClient::Done done) {
          context_.cuts->Push(context_.phase_name, push, versions, memory,
                              std::move(done));
          sent = context_.clock().Now();
        });
    AddWait(sent);
    if (status.ok()) {
      context_.progress->AddDenseStaleness(context_.phase, copy->staleness());
    }
    OnPushed(std::move(step), start, status);
  }

  void OnPushed(std::shared_ptr<StepBuffer> step, absl::Time start,
                const absl::Status& status) {
    context_.progress->AddTime(context_.phase, Stage::kPush,
                               context_.clock().Now() - start);
    if (!status.ok()) {
      state_->Fail(status);
    } else {
      if (context_.gate != nullptr) {
        context_.gate->Finished(index_, step->step);
      }
      context_.progress->AddStaleness(
          context_.phase,
          Staleness(step->inputs[0].pulled_versions, step->pushed_versions));
    }
    feeder_.Recycle(std::move(step));
    state_->copies().ReleasePermit();
    absl::MutexLock lock(&mutex_);
    --pushes_under_way_;
  }

  void AddWait(absl::Time start) {
    context_.progress->AddTime(context_.phase, Stage::kWaitPush,
                               context_.clock().Now() - start);
  }

  void WaitForPushes() {
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(
        +[](int* under_way) { return *under_way == 0; }, &pushes_under_way_));
  }

  EpochState* const state_;
  const EpochContext& context_;
  const size_t index_;
  const bool trains_;
  BatchFeeder feeder_;
  const std::unique_ptr<models::ModelExecutor> executor_;

  absl::Mutex mutex_;
  int pushes_under_way_ ABSL_GUARDED_BY(mutex_) = 0;
};

absl::Status RunThreads(const EpochContext& context, bool trains) {
  OARLOCK_ASSIGN_OR_RETURN(std::vector<std::unique_ptr<DenseCopy>> copies,
                           MakeDenseCopies(context, context.num_dense_copies,
                                           context.config->batch_size()));
  EpochState state(&context, std::move(copies));
  if (trains) {
    context.cuts->BeginEpoch(
        &state.copies(), [&state](DenseCopy* copy, uint64_t cut,
                                  client::ParameterClient::Done done) {
          FlushDenseCopy(
              state.context(), copy, cut,
              [&state, done = std::move(done)](absl::Status status) mutable {
                if (!status.ok()) state.Fail(status);
                done(std::move(status));
              });
        });
  }
  std::vector<std::unique_ptr<ComputeThread>> compute_threads;
  for (size_t i = 0; i < context.ranges.size(); ++i) {
    compute_threads.push_back(
        std::make_unique<ComputeThread>(&state, i, trains));
  }
  std::vector<std::thread> threads;
  for (std::unique_ptr<ComputeThread>& compute_thread : compute_threads) {
    threads.emplace_back([&compute_thread] { compute_thread->Run(); });
  }
  for (std::thread& thread : threads) thread.join();
  state.copies().WaitForAllPermits();
  context.progress->AddBadLines(context.phase, state.bad_lines()->count());
  if (trains) {
    // A job that is being ended still gets what was computed.
    const absl::Status failure = state.own_status();
    context.cuts->EndEpoch(!failure.ok() && !absl::IsCancelled(failure));
  }
  return state.status();
}

}  // namespace

absl::Status RunAsyncEpoch(const EpochContext& context) {
  return RunThreads(context, /*trains=*/true);
}

absl::Status RunEvaluation(const EpochContext& context) {
  return RunThreads(context, /*trains=*/false);
}

}  // namespace oarlock::worker
