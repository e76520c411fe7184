#include "worker/epoch/half_async_epoch.h"

#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/call_and_wait.h"
#include "base/clock.h"
#include "base/status_macros.h"
#include "worker/cut/cut_marker.h"
#include "worker/dense/dense_copy_pool.h"
#include "worker/epoch/dense_copies.h"
#include "worker/epoch/merged_step.h"
#include "worker/epoch/step_thread.h"
#include "worker/step/staleness.h"

namespace oarlock::worker {
namespace {

// What a push points to. Shared with the push under way and gRPC's send
// buffers.
struct PushMemory {
  explicit PushMemory(const EpochContext* context) : rows(context) {}
  MergedStep rows;
  // Of each compute thread's step, when its rows were pulled.
  std::vector<client::TableVersions> pulled_versions;
  client::TableVersions pushed_versions;
};

class HalfAsyncEpoch {
 public:
  // `copies` is one.
  HalfAsyncEpoch(const EpochContext* context,
                 std::vector<std::unique_ptr<DenseCopy>> copies)
      : context_(context),
        copies_(std::move(copies),
                context->config->max_unacknowledged_pushes()) {
    for (size_t i = 0; i < context->ranges.size(); ++i) {
      compute_threads_.push_back(std::make_unique<StepThread>(
          context, i, /*pull_ahead=*/true, &bad_lines_));
    }
    has_data_.assign(compute_threads_.size(), true);
  }

  absl::Status Run() {
    context_->cuts->BeginEpoch(
        &copies_, [this](DenseCopy* copy, uint64_t cut,
                         client::ParameterClient::Done done) {
          FlushDenseCopy(
              *context_, copy, cut,
              [this, done = std::move(done)](absl::Status status) mutable {
                if (!status.ok()) Fail(status);
                done(std::move(status));
              });
        });
    while (status().ok() && Step()) {
    }
    copies_.WaitForAllPermits();
    context_->progress->AddBadLines(context_->phase, bad_lines_.count());
    // A job that is being ended still gets what was computed.
    const absl::Status failure = own_status();
    context_->cuts->EndEpoch(!failure.ok() && !absl::IsCancelled(failure));
    return status();
  }

 private:
  // The first failure ends the epoch.
  void Fail(const absl::Status& status) {
    absl::MutexLock lock(&mutex_);
    if (status_.ok()) status_ = status;
  }
  absl::Status own_status() const {
    absl::MutexLock lock(&mutex_);
    return status_;
  }
  // The failure, or that of the job as a whole.
  absl::Status status() const {
    OARLOCK_RETURN_IF_ERROR(own_status());
    return context_->job->Alive();
  }

  // One step of all compute threads; false when there is nothing left, or after
  // a failure.
  bool Step() {
    DenseCopy* const copy = copies_.Acquire();
    const absl::Status computed = Compute(*copy);
    bool any = false;
    for (const auto& step : steps_) any = any || step != nullptr;
    if (!computed.ok()) {
      Fail(computed);
    } else if (any) {
      Push(copy);
    }
    copies_.Release(copy);
    return computed.ok() && any;
  }

  // Every compute thread computes its next batch; null where there is none.
  absl::Status Compute(const DenseCopy& copy) {
    steps_.assign(compute_threads_.size(), nullptr);
    for (size_t i = 0; i < compute_threads_.size(); ++i) {
      if (has_data_[i]) compute_threads_[i]->Start(copy.values());
    }
    absl::Status failure;
    for (size_t i = 0; i < compute_threads_.size(); ++i) {
      if (!has_data_[i]) continue;
      const absl::Status status = compute_threads_[i]->Wait(&steps_[i]);
      if (failure.ok()) failure = status;
      has_data_[i] = steps_[i] != nullptr;
    }
    return failure;
  }

  // Merges the compute threads' gradients; their batches go back at once.
  client::PushRequest Merge(DenseCopy* copy, PushMemory* memory) {
    client::PushRequest push;
    push.epoch = context_->phase.epoch;
    push.cut = copy->cut();
    memory->rows.Merge(steps_, &push);
    // Asked for before gradients(), which it describes.
    const bool add = copy->add_gradients();
    SumParameterGradients(
        compute_threads_, steps_, add,
        absl::MakeSpan(copy->gradients(),
                       context_->model->spec().num_parameters));
    copy->StepDone(push.examples);
    memory->pulled_versions.clear();
    for (size_t i = 0; i < compute_threads_.size(); ++i) {
      if (steps_[i] == nullptr) continue;
      memory->pulled_versions.push_back(steps_[i]->inputs[0].pulled_versions);
      compute_threads_[i]->Recycle(std::move(steps_[i]));
    }
    return push;
  }

  // As a compute thread of an asynchronous epoch does (pipelined_epoch.cc):
  // waits for the response only if it brings the parameters of the next step.
  void Push(DenseCopy* copy) {
    const absl::Time waiting = context_->clock().Now();
    copies_.AcquirePermit(*copy);
    const absl::Time start = context_->clock().Now();
    AddTime(Stage::kWaitPush, start - waiting);
    const std::shared_ptr<PushMemory> memory = SpareMemory();
    client::PushRequest push = Merge(copy, memory.get());
    const bool has_dense = context_->dense_table != TableId(0);
    if (!has_dense) push.dense_examples = push.examples;
    if (!copy->ExchangeIsDue() || !has_dense) {
      context_->cuts->Push(context_->phase_name, push, &memory->pushed_versions,
                           memory, [this, memory, start](absl::Status status) {
                             OnPushed(*memory, start, status);
                           });
      return;
    }
    DenseCopy::Exchange exchange = copy->TakeExchange(context_->dense_table);
    push.dense.push_back(exchange.gradients);
    push.dense_examples = std::move(exchange.examples);
    const auto both = std::make_shared<
        std::pair<std::shared_ptr<const void>, std::shared_ptr<const void>>>(
        memory, exchange.memory);
    const absl::Status status =
        CallAndWait([&](client::ParameterClient::Done done) {
          context_->cuts->Push(context_->phase_name, push,
                               &memory->pushed_versions, both, std::move(done));
        });
    AddTime(Stage::kWaitPush, context_->clock().Now() - start);
    if (status.ok()) {
      context_->progress->AddDenseStaleness(context_->phase, copy->staleness());
    }
    OnPushed(*memory, start, status);
  }

  void OnPushed(const PushMemory& memory, absl::Time start,
                const absl::Status& status) {
    AddTime(Stage::kPush, context_->clock().Now() - start);
    if (!status.ok()) {
      Fail(status);
    } else {
      for (const client::TableVersions& pulled : memory.pulled_versions) {
        context_->progress->AddStaleness(
            context_->phase, Staleness(pulled, memory.pushed_versions));
      }
    }
    copies_.ReleasePermit();
  }

  void AddTime(Stage stage, absl::Duration time) {
    context_->progress->AddTime(context_->phase, stage, time);
  }

  std::shared_ptr<PushMemory> SpareMemory() {
    for (const std::shared_ptr<PushMemory>& memory : memories_) {
      if (memory.use_count() == 1) return memory;
    }
    memories_.push_back(std::make_shared<PushMemory>(context_));
    return memories_.back();
  }

  const EpochContext* const context_;
  DenseCopyPool copies_;
  data::BadLines bad_lines_;
  std::vector<std::unique_ptr<StepThread>> compute_threads_;
  // By compute thread: whether it may have a next batch.
  std::vector<bool> has_data_;
  // Of the step under way, by compute thread; null where there is none.
  std::vector<std::shared_ptr<StepBuffer>> steps_;
  // One that only this list refers to is spare.
  std::vector<std::shared_ptr<PushMemory>> memories_;

  mutable absl::Mutex mutex_;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

absl::Status RunHalfAsyncEpoch(const EpochContext& context) {
  OARLOCK_ASSIGN_OR_RETURN(
      std::vector<std::unique_ptr<DenseCopy>> copies,
      MakeDenseCopies(context, /*num_copies=*/1,
                      int64_t{context.config->batch_size()} *
                          static_cast<int64_t>(context.ranges.size())));
  return HalfAsyncEpoch(&context, std::move(copies)).Run();
}

}  // namespace oarlock::worker
