#include "worker/sync_pass.h"

#include <algorithm>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/bounded_queue.h"
#include "base/call_and_wait.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "worker/batch_feeder.h"
#include "worker/cut_marker.h"
#include "worker/mode/merged_gradients.h"

namespace oarlock {
namespace {

// One compute thread of the worker. It does what the round asks and answers.
class RoundLane {
 public:
  RoundLane(const PassContext* context, size_t index, float gradient_scale,
            BadLines* bad_lines)
      : context_(context),
        gradient_scale_(gradient_scale),
        feeder_(context, index, context->config->lookahead_batches() + 1,
                /*pull_ahead=*/false, bad_lines),
        executor_(context->model->NewExecutor(context->config->batch_size())),
        parameter_gradients_(context->model->spec().num_parameters),
        commands_(1),
        answers_(1) {
    thread_ = std::thread([this] { Run(); });
  }
  ~RoundLane() {
    commands_.Close();
    thread_.join();
  }

  // Starts the next batch, if there is one.
  void Start() { commands_.Push(0); }
  // Waits until it is computed; sets the batch, or null at the end of the data.
  absl::Status Wait(std::shared_ptr<StepBuffer>* step) {
    Answer answer = *answers_.Pop();
    *step = std::move(answer.step);
    return answer.status;
  }

  const std::vector<float>& parameter_gradients() const {
    return parameter_gradients_;
  }
  BatchFeeder& feeder() { return feeder_; }

 private:
  struct Answer {
    absl::Status status;
    std::shared_ptr<StepBuffer> step;
  };

  void Run() {
    while (commands_.Pop().has_value()) {
      Answer answer;
      const absl::StatusOr<std::shared_ptr<StepBuffer>> step = Step();
      answer.status = step.status();
      if (step.ok()) answer.step = *step;
      answers_.Push(std::move(answer));
    }
  }

  absl::StatusOr<std::shared_ptr<StepBuffer>> Step() {
    std::shared_ptr<StepBuffer> step = feeder_.Next();
    if (step == nullptr) {
      OARLOCK_RETURN_IF_ERROR(feeder_.status());
      return step;
    }
    ProgressMeter& progress = *context_->progress;
    step->StartPull(context_->parameters, context_->sparse_tables, step);
    OARLOCK_RETURN_IF_ERROR(step->WaitForPull());
    progress.AddTime(context_->phase, Stage::kPull, step->pull_time);
    progress.AddTime(context_->phase, Stage::kWaitPull, step->pull_time);
    const absl::Time start = Clock::Real().Now();
    const std::shared_ptr<const DenseReplica> parameters =
        context_->dense->Current();
    const StepInput input =
        step->ModelInput(parameters->values.data(), gradient_scale_);
    StepOutput output = step->ModelOutput(parameter_gradients_.data());
    executor_->Step(input, &output);
    progress.AddTime(context_->phase, Stage::kCompute,
                     Clock::Real().Now() - start);
    const PassTotals totals =
        progress.AddStep(context_->phase, step->batch.labels,
                         output.predictions, output.loss_sum);
    if (totals.steps % context_->config->print_period() == 0) {
      spdlog::info("{} epoch {} step {}  loss {:.4f}  auc {:.4f}",
                   context_->phase.phase, context_->phase.epoch + 1,
                   totals.steps, totals.loss_sum / totals.examples,
                   progress.Auc(context_->phase));
    }
    return step;
  }

  const PassContext* const context_;
  const float gradient_scale_;
  BatchFeeder feeder_;
  const std::unique_ptr<ModelExecutor> executor_;
  std::vector<float> parameter_gradients_;
  BoundedQueue<int> commands_;
  BoundedQueue<Answer> answers_;
  std::thread thread_;
};

class SyncPass {
 public:
  explicit SyncPass(const PassContext* context) : context_(context) {
    // The mean of a round is over all lanes of all workers; the servers divide
    // by the workers.
    float scale = context->GradientScale();
    if (context->config->loss() != "sum") scale /= context->work.size();
    for (size_t i = 0; i < context->work.size(); ++i) {
      lanes_.push_back(
          std::make_unique<RoundLane>(context, i, scale, &bad_lines_));
    }
    round_->merged.resize(context->model->spec().sparse_inputs.size());
    round_->parameter_gradients.resize(context->model->spec().num_parameters);
  }

  absl::Status Run(std::optional<uint64_t> num_rounds) {
    OARLOCK_ASSIGN_OR_RETURN(uint64_t complete, context_->job->JoinRounds());
    context_->cuts->JoinedRounds(complete);
    // All workers are members before the first round begins.
    OARLOCK_RETURN_IF_ERROR(context_->job->Barrier(
        absl::StrCat(context_->phase.phase, "/", context_->phase.epoch,
                     "/rounds")));
    OARLOCK_RETURN_IF_ERROR(context_->dense->Pull());
    for (uint64_t i = 0; !num_rounds.has_value() || i < *num_rounds; ++i) {
      OARLOCK_RETURN_IF_ERROR(context_->job->Alive());
      OARLOCK_RETURN_IF_ERROR(ComputeLanes());
      const bool has_data =
          std::any_of(steps_.begin(), steps_.end(),
                      [](const std::shared_ptr<StepBuffer>& step) {
                        return step != nullptr;
                      });
      // What is left of a pass that was stopped has no data either.
      if (!has_data && (!num_rounds.has_value() ||
                        context_->job->training_stopped())) {
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
  // Every lane computes its next batch; those that have none leave null.
  absl::Status ComputeLanes() {
    for (auto& lane : lanes_) lane->Start();
    steps_.assign(lanes_.size(), nullptr);
    absl::Status failure;
    for (size_t i = 0; i < lanes_.size(); ++i) {
      const absl::Status status = lanes_[i]->Wait(&steps_[i]);
      if (failure.ok()) failure = status;
    }
    return failure;
  }

  void RecycleSteps() {
    for (size_t i = 0; i < lanes_.size(); ++i) {
      if (steps_[i] != nullptr) {
        lanes_[i]->feeder().Recycle(std::move(steps_[i]));
      }
    }
  }

  // Sums what the lanes computed into round_ and describes it.
  PushRequest MergeLanes(uint64_t round) {
    PushRequest push;
    push.epoch = context_->phase.epoch;
    push.round = round;
    for (const auto& step : steps_) {
      if (step == nullptr) continue;
      push.examples.insert(push.examples.end(), step->batch.ranges.begin(),
                           step->batch.ranges.end());
    }
    for (size_t i = 0; i < round_->merged.size(); ++i) {
      std::vector<MergedGradients::Part> parts;
      const SparseInputSpec& spec = context_->model->spec().sparse_inputs[i];
      const bool counts = context_->PushesStatistics() && !spec.is_statistics();
      for (const auto& step : steps_) {
        if (step == nullptr) continue;
        const SparseInputBuffer& input = step->inputs[i];
        parts.push_back({&input.keys, input.gradients.data()});
        if (!counts) continue;
        parts.back().shows = input.statistics.shows().data();
        parts.back().clicks = input.statistics.clicks().data();
      }
      MergedGradients& merged = round_->merged[i];
      merged.Merge(parts, spec.row_dim,
                   context_->parameters->partition_bits());
      push.sparse.push_back(
          {context_->sparse_tables[i], &merged.keys(), merged.gradients()});
      if (!counts) continue;
      push.sparse.back().shows = merged.shows();
      push.sparse.back().clicks = merged.clicks();
    }
    if (context_->dense_table != TableId(0)) {
      std::vector<float>& sum = round_->parameter_gradients;
      std::fill(sum.begin(), sum.end(), 0.0f);
      uint32_t num_steps = 0;
      for (size_t lane = 0; lane < lanes_.size(); ++lane) {
        if (steps_[lane] == nullptr) continue;
        const std::vector<float>& part = lanes_[lane]->parameter_gradients();
        for (size_t i = 0; i < sum.size(); ++i) sum[i] += part[i];
        ++num_steps;
      }
      round_->updated = context_->dense->Spare();
      push.dense.push_back({context_->dense_table, sum.data(), num_steps,
                            round_->updated.get()});
    }
    return push;
  }

  absl::Status Push(uint64_t round) {
    const absl::Time start = Clock::Real().Now();
    const PushRequest push = MergeLanes(round);
    OARLOCK_RETURN_IF_ERROR(CallAndWait([&](ParameterClient::Done done) {
      context_->cuts->Push(context_->work_name, push, nullptr, round_,
                           std::move(done));
    }));
    context_->progress->AddTime(context_->phase, Stage::kPush,
                                Clock::Real().Now() - start);
    if (round_->updated != nullptr) {
      context_->dense->Install(std::move(round_->updated));
    }
    return absl::OkStatus();
  }

  const PassContext* const context_;
  BadLines bad_lines_;
  std::vector<std::unique_ptr<RoundLane>> lanes_;
  // Of the round under way, one per lane; null where the lane has no data.
  std::vector<std::shared_ptr<StepBuffer>> steps_;
  // What a push points to; shared with gRPC's send buffers.
  struct RoundMemory {
    std::vector<MergedGradients> merged;     // one per sparse input
    std::vector<float> parameter_gradients;  // [num_parameters]
    std::shared_ptr<DenseReplica> updated;
  };
  const std::shared_ptr<RoundMemory> round_ = std::make_shared<RoundMemory>();
};

}  // namespace

absl::Status RunSyncPass(const PassContext& context,
                         std::optional<uint64_t> num_rounds) {
  return SyncPass(&context).Run(num_rounds);
}

}  // namespace oarlock
