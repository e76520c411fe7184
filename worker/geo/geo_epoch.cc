#include "worker/geo/geo_epoch.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "base/bounded_queue.h"
#include "base/call_and_wait.h"
#include "base/clock.h"
#include "base/status_macros.h"
#include "data/order/example_intervals.h"
#include "worker/cut/cut_marker.h"
#include "worker/dense/dense_copy.h"
#include "worker/dense/dense_copy_pool.h"
#include "worker/epoch/batch_feeder.h"
#include "worker/epoch/step_log.h"
#include "worker/geo/geo_replica.h"
#include "worker/step/staleness.h"

namespace oarlock::worker {
namespace {

// Batches of a compute thread whose rows are found and pulled together: all of
// an interval, or as many as bound the memory of a long one.
constexpr int kMaxGroupSteps = 16;

int GroupSteps(const EpochContext& context) {
  return std::min(kMaxGroupSteps, context.config->geo_steps());
}

// One compute thread and what it has read.
class GeoThread {
 public:
  GeoThread(const EpochContext* context, size_t index, float gradient_scale,
            data::BadLines* bad_lines)
      : context_(context),
        gradient_scale_(gradient_scale),
        // One group computes while the next one is read.
        feeder_(context, index, 2 * GroupSteps(*context),
                /*pull_ahead=*/false, bad_lines),
        executor_(context->model->NewExecutor(context->config->batch_size())),
        dense_gradients_(context->model->spec().num_parameters),
        commands_(1),
        results_(1) {
    thread_ = std::thread([this] { Run(); });
  }
  ~GeoThread() {
    commands_.Close();
    thread_.join();
  }

  // The next batch; none at the end of the data.
  absl::StatusOr<std::shared_ptr<StepBuffer>> Next() {
    std::shared_ptr<StepBuffer> buffer = feeder_.Next();
    if (buffer == nullptr) {
      OARLOCK_RETURN_IF_ERROR(feeder_.status());
    }
    return buffer;
  }
  void Recycle(std::shared_ptr<StepBuffer> buffer) {
    feeder_.Recycle(std::move(buffer));
  }

  // Computes the step's gradients; Wait waits for them.
  void Start(const GeoStep* step) { commands_.Push(step); }
  absl::Status Wait() { return *results_.Pop(); }
  std::vector<float>& dense_gradients() { return dense_gradients_; }

 private:
  void Run() {
    while (const auto step = commands_.Pop()) {
      results_.Push(Compute(**step));
    }
  }

  absl::Status Compute(const GeoStep& step) {
    const absl::Time start = context_->clock().Now();
    context_->geo->Gather(step);
    const nn::StepInput input =
        step.buffer->ModelInput(context_->geo->dense(), gradient_scale_);
    nn::StepOutput output = step.buffer->ModelOutput(dense_gradients_.data());
    executor_->Step(input, &output);
    OARLOCK_RETURN_IF_ERROR(CheckLoss(*context_, output.loss_sum));
    ProgressMeter& progress = *context_->progress;
    progress.AddTime(context_->phase, Stage::kCompute,
                     context_->clock().Now() - start);
    const data::Batch& batch = step.buffer->batch;
    progress.ObserveDense(batch.dense, batch.num_examples);
    const PhaseTotals totals = progress.AddStep(
        context_->phase, batch.labels, output.predictions, output.loss_sum);
    LogStep(*context_, totals);
    return absl::OkStatus();
  }

  const EpochContext* const context_;
  const float gradient_scale_;
  BatchFeeder feeder_;
  const std::unique_ptr<models::ModelExecutor> executor_;
  std::vector<float> dense_gradients_;
  BoundedQueue<const GeoStep*> commands_;
  BoundedQueue<absl::Status> results_;
  std::thread thread_;
};

// A pool of one dense copy that holds nothing: its number is the cut that the
// next exchange belongs after. Holding the copy keeps the marker from advancing
// it, so that every push is on the side of the cut that it says; there is never
// anything to flush, since what was not pushed belongs to no cut.
std::unique_ptr<DenseCopyPool> NewCutPool(const optim::UpdateRule& rule) {
  std::vector<std::unique_ptr<DenseCopy>> copies;
  copies.push_back(std::make_unique<DenseCopy>(rule, client::DenseReplica(),
                                               /*interval_steps=*/1));
  return std::make_unique<DenseCopyPool>(std::move(copies), /*num_permits=*/1);
}

class GeoEpoch {
 public:
  explicit GeoEpoch(const EpochContext* context) : context_(context) {
    float scale = context->GradientScale();
    if (context->config->loss() != "sum") scale /= context->ranges.size();
    for (size_t i = 0; i < context->ranges.size(); ++i) {
      compute_threads_.push_back(
          std::make_unique<GeoThread>(context, i, scale, &bad_lines_));
    }
  }

  absl::Status Run() {
    OARLOCK_RETURN_IF_ERROR(context_->dense->Pull());
    context_->geo->ResetDense(*context_->dense->Current());
    OARLOCK_ASSIGN_OR_RETURN(
        const optim::UpdateRule rule,
        optim::UpdateRule::Create(context_->dense_optimizer));
    const std::unique_ptr<DenseCopyPool> pool = NewCutPool(rule);
    context_->cuts->BeginEpoch(
        pool.get(),
        [](DenseCopy*, uint64_t, client::ParameterClient::Done done) {
          done(absl::OkStatus());
        });
    const absl::Status status = Train(pool.get());
    // Nothing that was pushed is dropped.
    context_->cuts->EndEpoch(/*failed=*/false);
    context_->progress->AddBadLines(context_->phase, bad_lines_.count());
    return status;
  }

 private:
  absl::Status Train(DenseCopyPool* pool) {
    for (bool more = true; more;) {
      OARLOCK_RETURN_IF_ERROR(TrainInterval(&more));
      if (trained_.empty()) continue;
      OARLOCK_RETURN_IF_ERROR(Exchange(pool));
    }
    return absl::OkStatus();
  }

  // Sets `more` to whether the data goes on.
  absl::Status TrainInterval(bool* more) {
    const int geo_steps = context_->config->geo_steps();
    int done = 0;
    while (*more && done < geo_steps) {
      const int wanted = std::min(GroupSteps(*context_), geo_steps - done);
      OARLOCK_ASSIGN_OR_RETURN(const int num_steps, Read(wanted));
      *more = num_steps == wanted;
      if (num_steps > 0) {
        OARLOCK_RETURN_IF_ERROR(FetchGroup(/*refresh=*/done == 0));
      }
      for (int i = 0; i < num_steps; ++i) {
        OARLOCK_RETURN_IF_ERROR(context_->job->Alive());
        OARLOCK_RETURN_IF_ERROR(Step(i));
      }
      RecycleGroup();
      done += num_steps;
    }
    return absl::OkStatus();
  }

  // Reads up to `wanted` batches of each compute thread into steps_; returns
  // those of the compute thread that has most.
  absl::StatusOr<int> Read(int wanted) {
    steps_.clear();
    steps_of_thread_.assign(compute_threads_.size(), {});
    size_t most = 0;
    for (size_t thread = 0; thread < compute_threads_.size(); ++thread) {
      std::vector<size_t>& places = steps_of_thread_[thread];
      for (int i = 0; i < wanted; ++i) {
        OARLOCK_ASSIGN_OR_RETURN(std::shared_ptr<StepBuffer> buffer,
                                 compute_threads_[thread]->Next());
        if (buffer == nullptr) break;
        places.push_back(steps_.size());
        steps_.push_back({std::move(buffer), {}});
      }
      most = std::max(most, places.size());
    }
    return static_cast<int>(most);
  }

  absl::Status FetchGroup(bool refresh) {
    const absl::Time start = context_->clock().Now();
    if (refresh) {
      OARLOCK_RETURN_IF_ERROR(context_->geo->Refresh());
    }
    OARLOCK_RETURN_IF_ERROR(context_->geo->Fetch(absl::MakeSpan(steps_)));
    const absl::Duration time = context_->clock().Now() - start;
    context_->progress->AddTime(context_->phase, Stage::kPull, time);
    context_->progress->AddTime(context_->phase, Stage::kWaitPull, time);
    return absl::OkStatus();
  }

  // Every compute thread that has one computes its batch number `index` of the
  // group.
  absl::Status Step(size_t index) {
    std::vector<GeoThread*> computing;
    std::vector<const GeoStep*> steps;
    for (size_t thread = 0; thread < compute_threads_.size(); ++thread) {
      if (index >= steps_of_thread_[thread].size()) continue;
      computing.push_back(compute_threads_[thread].get());
      steps.push_back(&steps_[steps_of_thread_[thread][index]]);
      computing.back()->Start(steps.back());
    }
    absl::Status status;
    for (GeoThread* thread : computing) status.Update(thread->Wait());
    OARLOCK_RETURN_IF_ERROR(status);
    std::vector<float>& sum = computing[0]->dense_gradients();
    for (size_t i = 1; i < computing.size(); ++i) {
      const std::vector<float>& part = computing[i]->dense_gradients();
      for (size_t d = 0; d < sum.size(); ++d) sum[d] += part[d];
    }
    const bool has_dense = context_->dense_table != TableId(0);
    context_->geo->Apply(steps, has_dense ? sum.data() : nullptr,
                         context_->PushesStatistics());
    for (const GeoStep* step : steps) {
      for (const data::ExampleRange& range : step->buffer->batch.ranges) {
        trained_.Add(range);
      }
    }
    return absl::OkStatus();
  }

  void RecycleGroup() {
    for (size_t thread = 0; thread < compute_threads_.size(); ++thread) {
      for (const size_t place : steps_of_thread_[thread]) {
        compute_threads_[thread]->Recycle(std::move(steps_[place].buffer));
      }
    }
    steps_.clear();
  }

  absl::Status Exchange(DenseCopyPool* pool) {
    const absl::Time start = context_->clock().Now();
    client::PushRequest push;
    push.epoch = context_->phase.epoch;
    push.examples = std::exchange(trained_, {}).ranges();
    push.dense_examples = push.examples;
    const std::shared_ptr<const void> memory = context_->geo->TakeChanges(
        /*rows=*/true, /*dense=*/true, context_->PushesStatistics(), &push);
    client::TableVersions versions;
    DenseCopy* const copy = pool->Acquire();
    push.cut = copy->cut();
    const absl::Status status =
        CallAndWait([&](client::ParameterClient::Done done) {
          context_->cuts->Push(context_->phase_name, push, &versions, memory,
                               std::move(done));
        });
    pool->Release(copy);
    OARLOCK_RETURN_IF_ERROR(status);
    context_->geo->Pushed();
    const absl::Duration time = context_->clock().Now() - start;
    context_->progress->AddTime(context_->phase, Stage::kPush, time);
    context_->progress->AddTime(context_->phase, Stage::kWaitPush, time);
    context_->progress->AddStaleness(
        context_->phase, Staleness(context_->geo->versions(), versions));
    return absl::OkStatus();
  }

  const EpochContext* const context_;
  data::BadLines bad_lines_;
  std::vector<std::unique_ptr<GeoThread>> compute_threads_;
  // Of the group under way, and which of them are a compute thread's.
  std::vector<GeoStep> steps_;
  std::vector<std::vector<size_t>> steps_of_thread_;
  // Examples since the last exchange.
  data::ExampleIntervals trained_;
};

}  // namespace

absl::Status RunGeoEpoch(const EpochContext& context) {
  return GeoEpoch(&context).Run();
}

}  // namespace oarlock::worker
