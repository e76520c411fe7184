#include "worker/epoch/sync_epoch.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/call_and_wait.h"
#include "base/clock.h"
#include "base/status_macros.h"
#include "cluster/wire_version.h"
#include "worker/cut/cut_marker.h"
#include "worker/epoch/merged_step.h"
#include "worker/epoch/step_thread.h"

namespace oarlock::worker {
namespace {

class SyncEpoch {
 public:
  explicit SyncEpoch(const EpochContext* context)
      : context_(context), round_(std::make_shared<RoundMemory>(context)) {
    for (size_t i = 0; i < context->ranges.size(); ++i) {
      compute_threads_.push_back(std::make_unique<StepThread>(
          context, i, /*pull_ahead=*/false, &bad_lines_));
    }
    round_->parameter_gradients.resize(context->model->spec().num_parameters);
  }

  absl::Status Run(std::optional<uint64_t> num_rounds) {
    OARLOCK_ASSIGN_OR_RETURN(uint64_t complete, context_->job->JoinRounds());
    context_->cuts->JoinedRounds(complete);
    // All workers are members before the first round begins.
    OARLOCK_RETURN_IF_ERROR(context_->job->Barrier(
        absl::StrCat(context_->phase_name, cluster::kMembersBarrier)));
    OARLOCK_RETURN_IF_ERROR(context_->dense->Pull());
    for (uint64_t i = 0; !num_rounds.has_value() || i < *num_rounds; ++i) {
      OARLOCK_RETURN_IF_ERROR(context_->job->Alive());
      OARLOCK_RETURN_IF_ERROR(ComputeBatches());
      const bool has_data =
          std::any_of(steps_.begin(), steps_.end(),
                      [](const std::shared_ptr<StepBuffer>& step) {
                        return step != nullptr;
                      });
      // What is left of an epoch that was stopped has no data either.
      if (!has_data &&
          (!num_rounds.has_value() || context_->job->training_stopped())) {
        break;
      }
      OARLOCK_RETURN_IF_ERROR(Push(complete + i + 1));
      RecycleSteps();
    }
    OARLOCK_RETURN_IF_ERROR(context_->job->LeaveRounds());
    context_->cuts->LeftRounds();
    context_->progress->AddBadLines(context_->phase, bad_lines_.count());
    return absl::OkStatus();
  }

 private:
  // Every compute thread computes its next batch; those that have none leave
  // null.
  absl::Status ComputeBatches() {
    const std::shared_ptr<const client::DenseReplica> parameters =
        context_->dense->Current();
    for (auto& thread : compute_threads_) {
      thread->Start(parameters->values.data());
    }
    steps_.assign(compute_threads_.size(), nullptr);
    absl::Status failure;
    for (size_t i = 0; i < compute_threads_.size(); ++i) {
      const absl::Status status = compute_threads_[i]->Wait(&steps_[i]);
      if (failure.ok()) failure = status;
    }
    return failure;
  }

  void RecycleSteps() {
    for (size_t i = 0; i < compute_threads_.size(); ++i) {
      if (steps_[i] != nullptr) {
        compute_threads_[i]->Recycle(std::move(steps_[i]));
      }
    }
  }

  // Sums what the compute threads computed into round_ and describes it.
  client::PushRequest MergeThreads(uint64_t round) {
    client::PushRequest push;
    push.epoch = context_->phase.epoch;
    push.round = round;
    round_->rows.Merge(steps_, &push);
    if (context_->dense_table != TableId(0)) {
      std::vector<float>& sum = round_->parameter_gradients;
      SumParameterGradients(compute_threads_, steps_, /*add=*/false,
                            absl::MakeSpan(sum));
      const auto num_steps = static_cast<uint32_t>(
          steps_.size() - std::count(steps_.begin(), steps_.end(), nullptr));
      round_->updated = context_->dense->Spare();
      push.dense.push_back({context_->dense_table, sum.data(), num_steps,
                            round_->updated.get()});
    }
    return push;
  }

  absl::Status Push(uint64_t round) {
    const absl::Time start = context_->clock().Now();
    const client::PushRequest push = MergeThreads(round);
    OARLOCK_RETURN_IF_ERROR(
        CallAndWait([&](client::ParameterClient::Done done) {
          context_->cuts->Push(context_->phase_name, push, nullptr, round_,
                               std::move(done));
        }));
    context_->progress->AddTime(context_->phase, Stage::kPush,
                                context_->clock().Now() - start);
    if (round_->updated != nullptr) {
      context_->dense->Install(std::move(round_->updated));
    }
    return absl::OkStatus();
  }

  const EpochContext* const context_;
  data::BadLines bad_lines_;
  std::vector<std::unique_ptr<StepThread>> compute_threads_;
  // Of the round under way, one per compute thread; null where the compute
  // thread has no data.
  std::vector<std::shared_ptr<StepBuffer>> steps_;
  // What a push points to; shared with gRPC's send buffers.
  struct RoundMemory {
    explicit RoundMemory(const EpochContext* context) : rows(context) {}
    MergedStep rows;
    std::vector<float> parameter_gradients;  // [num_parameters]
    std::shared_ptr<client::DenseReplica> updated;
  };
  const std::shared_ptr<RoundMemory> round_;
};

}  // namespace

absl::Status RunSyncEpoch(const EpochContext& context,
                          std::optional<uint64_t> num_rounds) {
  return SyncEpoch(&context).Run(num_rounds);
}

}  // namespace oarlock::worker
