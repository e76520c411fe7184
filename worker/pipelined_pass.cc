#include "worker/pipelined_pass.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "worker/batch_feeder.h"
#include "worker/staleness.h"

namespace oarlock {
namespace {

// Where the configuration does not say: an exchange of the dense parameters
// costs as much as computing some tens of examples, so a lane sums the
// gradients of this many examples ...
constexpr int kDenseIntervalExamples = 512;
// ... unless all that compute at a time would then hold back more than this
// many: with eight workers at five batches of 100 each, a pass over 111,000
// examples lost .018 AUC.
constexpr int kHeldBackExamples = 1024;

int DenseIntervalSteps(const PassContext& context) {
  const v1::JobConfig& config = *context.config;
  if (config.dense_interval_steps() > 0) return config.dense_interval_steps();
  const int computing =
      static_cast<int>(context.job->num_workers()) * context.compute_slots;
  const int examples =
      std::min(kDenseIntervalExamples, kHeldBackExamples / computing);
  return std::max(1, examples / config.batch_size());
}

// Gradients of the dense parameters, summed over a few steps.
struct DenseGradientBuffer {
  explicit DenseGradientBuffer(size_t size) : values(size) {}
  std::vector<float> values;
  uint32_t num_steps = 0;
};

// What the lanes of a pass share. Thread-safe.
class PassState {
 public:
  PassState(const PassContext* context, int num_permits)
      : context_(context),
        num_permits_(num_permits),
        permits_(num_permits),
        free_slots_(context->compute_slots) {}

  // Waits until fewer lanes compute than there are slots.
  void AcquireSlot() {
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(
        +[](int* slots) { return *slots > 0; }, &free_slots_));
    --free_slots_;
  }
  void ReleaseSlot() {
    absl::MutexLock lock(&mutex_);
    ++free_slots_;
  }

  // Waits until fewer pushes than permitted are under way.
  void AcquirePermit() {
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(
        +[](int* permits) { return *permits > 0; }, &permits_));
    --permits_;
  }
  void ReleasePermit() {
    absl::MutexLock lock(&mutex_);
    ++permits_;
  }
  void WaitForAllPermits() {
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(this, &PassState::AllPermitsFree));
  }

  // The first failure ends the pass.
  void Fail(const absl::Status& status) {
    absl::MutexLock lock(&mutex_);
    if (status_.ok()) status_ = status;
  }
  // The failure, or that of the job as a whole.
  absl::Status status() const {
    {
      absl::MutexLock lock(&mutex_);
      if (!status_.ok()) return status_;
    }
    return context_->job->Alive();
  }

  const PassContext& context() const { return *context_; }
  BadLines* bad_lines() { return &bad_lines_; }

 private:
  bool AllPermitsFree() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return permits_ == num_permits_;
  }

  const PassContext* const context_;
  const int num_permits_;
  BadLines bad_lines_;
  mutable absl::Mutex mutex_;
  int permits_ ABSL_GUARDED_BY(mutex_);
  int free_slots_ ABSL_GUARDED_BY(mutex_);
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

// The computing half of a lane.
class Lane {
 public:
  Lane(PassState* pass, size_t index, bool trains)
      : pass_(pass),
        context_(pass->context()),
        index_(index),
        trains_(trains),
        dense_interval_(DenseIntervalSteps(context_)),
        // One computes, one is on its way out, and the look-ahead.
        feeder_(&context_, index, context_.config->lookahead_batches() + 2,
                /*pull_ahead=*/true, pass->bad_lines()),
        executor_(context_.model->NewExecutor(context_.config->batch_size())) {
  }

  void Run() {
    absl::Status status = Loop();
    if (status.ok()) status = feeder_.status();
    if (!status.ok()) pass_->Fail(status);
    // What is under way refers to the feeder.
    WaitForPushes();
  }

 private:
  absl::Status Loop() {
    while (std::shared_ptr<StepBuffer> step = feeder_.Next()) {
      OARLOCK_RETURN_IF_ERROR(pass_->status());
      const absl::Time start = Clock::Real().Now();
      OARLOCK_RETURN_IF_ERROR(step->WaitForPull());
      context_.progress->AddTime(context_.phase, Stage::kPull,
                                 step->pull_time);
      context_.progress->AddTime(context_.phase, Stage::kWaitPull,
                                 Clock::Real().Now() - start);
      const absl::Time turn = Clock::Real().Now();
      pass_->AcquireSlot();
      AddWait(turn);
      Compute(*step);
      if (trains_) {
        Push(std::move(step));
        WaitForDenseExchange();
      } else {
        feeder_.Recycle(std::move(step));
      }
      pass_->ReleaseSlot();
    }
    if (trains_ && dense_gradients_ != nullptr) Push(nullptr);
    return absl::OkStatus();
  }

  void Compute(StepBuffer& step) {
    const absl::Time start = Clock::Real().Now();
    const std::shared_ptr<const DenseReplica> parameters =
        context_.dense->Current();
    StepInput input = step.ModelInput(parameters->values.data(),
                                      context_.GradientScale());
    StepOutput output;
    if (trains_) {
      if (dense_gradients_ == nullptr) {
        dense_gradients_ = TakeDenseBuffer();
        dense_gradients_->num_steps = 0;
      }
      for (SparseInputBuffer& sparse : step.inputs) {
        output.row_gradients.push_back(sparse.gradients.data());
      }
      input.accumulate_parameter_gradients = dense_gradients_->num_steps > 0;
      output.parameter_gradients = dense_gradients_->values.data();
      executor_->Step(input, &output);
      ++dense_gradients_->num_steps;
    } else {
      executor_->Predict(input, &output);
    }
    context_.progress->AddTime(context_.phase, Stage::kCompute,
                               Clock::Real().Now() - start);
    const PassTotals totals = context_.progress->AddStep(
        context_.phase, step.batch.labels, output.predictions,
        output.loss_sum);
    LogTotals(totals);
  }

  void LogTotals(const PassTotals& totals) {
    if (totals.steps % context_.config->print_period() != 0) return;
    spdlog::info("{} epoch {} step {}  loss {:.4f}  auc {:.4f}",
                 context_.phase.phase, context_.phase.epoch + 1, totals.steps,
                 totals.loss_sum / totals.examples,
                 context_.progress->Auc(context_.phase));
  }

  // Sends the step's row gradients and, when their interval is full or there
  // is no step any more, the dense gradients.
  void Push(std::shared_ptr<StepBuffer> step) {
    const absl::Time waiting = Clock::Real().Now();
    pass_->AcquirePermit();
    const absl::Time start = Clock::Real().Now();
    context_.progress->AddTime(context_.phase, Stage::kWaitPush,
                               start - waiting);
    PushRequest push;
    push.epoch = context_.phase.epoch;
    if (step != nullptr) {
      push.examples = step->batch.ranges;
      for (size_t i = 0; i < step->inputs.size(); ++i) {
        push.sparse.push_back({context_.sparse_tables[i],
                               &step->inputs[i].keys,
                               step->inputs[i].gradients.data()});
      }
    }
    std::shared_ptr<DenseGradientBuffer> dense;
    if (context_.dense_table != TableId(0) &&
        (step == nullptr ||
         dense_gradients_->num_steps >= static_cast<uint32_t>(dense_interval_))) {
      dense = std::move(dense_gradients_);
      dense_gradients_ = nullptr;
      push.dense.push_back(
          {context_.dense_table, dense->values.data(), dense->num_steps});
    }
    {
      absl::MutexLock lock(&mutex_);
      ++pushes_under_way_;
      if (dense != nullptr) dense_push_under_way_ = true;
    }
    TableVersions* const versions =
        step != nullptr ? &step->pushed_versions : nullptr;
    // Owns what the push points to.
    auto memory = std::make_shared<std::pair<std::shared_ptr<StepBuffer>,
                                             std::shared_ptr<DenseGradientBuffer>>>(
        step, dense);
    context_.parameters->Push(
        push, versions, memory,
        [this, step, dense, start](absl::Status status) mutable {
          OnPushed(std::move(step), std::move(dense), start,
                   std::move(status));
        });
  }

  void OnPushed(std::shared_ptr<StepBuffer> step,
                std::shared_ptr<DenseGradientBuffer> dense, absl::Time start,
                absl::Status status) {
    context_.progress->AddTime(context_.phase, Stage::kPush,
                               Clock::Real().Now() - start);
    if (!status.ok()) {
      pass_->Fail(status);
    } else {
      if (step != nullptr) {
        context_.progress->AddStaleness(
            context_.phase, Staleness(step->inputs[0].pulled_versions,
                                      step->pushed_versions));
      }
      if (dense != nullptr) context_.dense->StartPull();
    }
    if (step != nullptr) feeder_.Recycle(std::move(step));
    pass_->ReleasePermit();
    absl::MutexLock lock(&mutex_);
    if (dense != nullptr) {
      spare_dense_.push_back(std::move(dense));
      dense_push_under_way_ = false;
    }
    --pushes_under_way_;
  }

  std::shared_ptr<DenseGradientBuffer> TakeDenseBuffer() {
    {
      absl::MutexLock lock(&mutex_);
      if (!spare_dense_.empty()) {
        auto buffer = std::move(spare_dense_.back());
        spare_dense_.pop_back();
        return buffer;
      }
    }
    return std::make_shared<DenseGradientBuffer>(
        context_.model->spec().num_parameters);
  }

  // A lane whose dense gradients are on their way keeps its slot until the
  // parameters hold them: whoever computes next would repeat what they did,
  // which costs most at the beginning, when adagrad's steps are large.
  void WaitForDenseExchange() {
    const absl::Time start = Clock::Real().Now();
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(
          +[](bool* under_way) { return !*under_way; },
          &dense_push_under_way_));
    }
    // A failed pull has failed the pass.
    context_.dense->WaitForPull().IgnoreError();
    AddWait(start);
  }

  void AddWait(absl::Time start) {
    context_.progress->AddTime(context_.phase, Stage::kWaitPush,
                               Clock::Real().Now() - start);
  }

  void WaitForPushes() {
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(
        +[](int* under_way) { return *under_way == 0; }, &pushes_under_way_));
  }

  PassState* const pass_;
  const PassContext& context_;
  const size_t index_;
  const bool trains_;
  const int dense_interval_;
  BatchFeeder feeder_;
  const std::unique_ptr<ModelExecutor> executor_;
  // Of the computing thread: gradients that wait for their interval.
  std::shared_ptr<DenseGradientBuffer> dense_gradients_;

  absl::Mutex mutex_;
  int pushes_under_way_ ABSL_GUARDED_BY(mutex_) = 0;
  bool dense_push_under_way_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::shared_ptr<DenseGradientBuffer>> spare_dense_
      ABSL_GUARDED_BY(mutex_);
};

absl::Status RunLanes(const PassContext& context, bool trains) {
  OARLOCK_RETURN_IF_ERROR(context.dense->Pull());
  PassState pass(&context, context.config->max_unacknowledged_pushes());
  std::vector<std::unique_ptr<Lane>> lanes;
  for (size_t i = 0; i < context.work.size(); ++i) {
    lanes.push_back(std::make_unique<Lane>(&pass, i, trains));
  }
  std::vector<std::thread> threads;
  for (std::unique_ptr<Lane>& lane : lanes) {
    threads.emplace_back([&lane] { lane->Run(); });
  }
  for (std::thread& thread : threads) thread.join();
  pass.WaitForAllPermits();
  context.dense->WaitForPull().IgnoreError();
  context.progress->AddBadLines(context.phase, pass.bad_lines()->count());
  return pass.status();
}

}  // namespace

absl::Status RunAsyncPass(const PassContext& context) {
  return RunLanes(context, /*trains=*/true);
}

absl::Status RunEvaluationPass(const PassContext& context) {
  return RunLanes(context, /*trains=*/false);
}

}  // namespace oarlock
