#include "worker/epoch/push_completion.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/call_and_wait.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "data/batch_source.h"
#include "data/listed_ranges.h"
#include "data/parse/bad_lines.h"
#include "models/model.h"
#include "worker/cut/cut_marker.h"
#include "worker/step/step_buffer.h"

namespace oarlock::worker {
namespace {

// The gradients of some examples, batch after batch. One thread.
class Steps {
 public:
  Steps(const EpochContext& context, const std::vector<data::DataRange>& items,
        uint64_t batch_size)
      : context_(context),
        batch_size_(batch_size),
        ranges_(items),
        // Lines that the epoch has counted: a count of its own.
        reader_(context.NewReader(0, &ranges_, &bad_lines_)),
        executor_(context.model->NewExecutor(batch_size)),
        parameters_(context.dense->Current()) {}

  // What the steps are computed on.
  const std::shared_ptr<const client::DenseReplica>& parameters() const {
    return parameters_;
  }

  // The next batch and its rows' gradients; null after the last one. Dense
  // gradients, [num_parameters], are written to `dense` or, with `add`, added.
  absl::StatusOr<std::shared_ptr<StepBuffer>> Next(float* dense, bool add) {
    auto step =
        std::make_shared<StepBuffer>(&context_.model->spec(), context_.clock());
    OARLOCK_ASSIGN_OR_RETURN(const bool more,
                             reader_->Next(batch_size_, &step->batch));
    if (!more) return nullptr;
    step->SeedFor(context_.config->seed(), context_.phase.epoch);
    step->BuildKeys(context_.parameters->partition_bits());
    if (context_.PushesStatistics()) step->CountStatistics();
    step->StartPull(context_.parameters, context_.sparse_tables, step);
    OARLOCK_RETURN_IF_ERROR(step->WaitForPull());
    nn::StepInput input =
        step->ModelInput(parameters_->values.data(), context_.GradientScale());
    input.accumulate_parameter_gradients = add;
    nn::StepOutput output = step->ModelOutput(dense);
    executor_->Step(input, &output);
    return step;
  }

 private:
  const EpochContext& context_;
  const uint64_t batch_size_;
  data::ListedRanges ranges_;
  data::BadLines bad_lines_;
  const std::unique_ptr<data::BatchSource> reader_;
  const std::unique_ptr<models::ModelExecutor> executor_;
  const std::shared_ptr<const client::DenseReplica> parameters_;
};

// What a push points to; shared with gRPC's send buffers.
struct PushMemory {
  std::shared_ptr<StepBuffer> step;
  std::vector<float> dense;  // [num_parameters]
  std::shared_ptr<const client::DenseReplica> parameters;
};

class Completer {
 public:
  Completer(const EpochContext& context,
            const client::PushCompletion& completion)
      : context_(context), completion_(completion) {}

  absl::Status CompletePush() {
    client::PushRequest push = NewPush();
    push.completes = completion_.push;
    auto memory = std::make_shared<PushMemory>();
    OARLOCK_RETURN_IF_ERROR(AddOneBatch(&push, memory.get()));
    OARLOCK_RETURN_IF_ERROR(AddDense(&push, memory.get()));
    return Push(push, memory);
  }

  absl::Status PushRows() {
    if (completion_.examples.empty()) return absl::OkStatus();
    Steps steps(context_, completion_.examples, batch_size());
    std::vector<float> unused(num_parameters());
    for (;;) {
      OARLOCK_ASSIGN_OR_RETURN(const std::shared_ptr<StepBuffer> step,
                               steps.Next(unused.data(), /*add=*/false));
      if (step == nullptr) return absl::OkStatus();
      client::PushRequest push = NewPush();
      AddRows(*step, &push);
      if (!has_dense()) push.dense_examples = push.examples;
      OARLOCK_RETURN_IF_ERROR(Push(push, step));
    }
  }

  absl::Status PushDense() {
    client::PushRequest push = NewPush();
    auto memory = std::make_shared<PushMemory>();
    OARLOCK_RETURN_IF_ERROR(AddDense(&push, memory.get()));
    if (push.dense.empty()) return absl::OkStatus();
    return Push(push, memory);
  }

 private:
  bool has_dense() const { return context_.dense_table != TableId(0); }
  uint64_t batch_size() const { return context_.config->batch_size(); }
  size_t num_parameters() const {
    return context_.model->spec().num_parameters;
  }

  client::PushRequest NewPush() const {
    client::PushRequest push;
    push.epoch = context_.phase.epoch;
    return push;
  }

  void AddRows(const StepBuffer& step, client::PushRequest* push) const {
    push->examples = step.batch.ranges;
    step.AddGradientsTo(push, context_.sparse_tables,
                        context_.PushesStatistics());
  }

  // All rows of the push completion, whatever a batch was where the push was
  // made.
  absl::Status AddOneBatch(client::PushRequest* push, PushMemory* memory) {
    if (completion_.examples.empty()) return absl::OkStatus();
    uint64_t num_examples = 0;
    for (const data::DataRange& item : completion_.examples) {
      num_examples += item.end - item.begin;
    }
    Steps steps(context_, completion_.examples,
                std::max(num_examples, batch_size()));
    std::vector<float> unused(num_parameters());
    OARLOCK_ASSIGN_OR_RETURN(memory->step,
                             steps.Next(unused.data(), /*add=*/false));
    if (memory->step != nullptr) AddRows(*memory->step, push);
    return absl::OkStatus();
  }

  // The summed gradients of the push completion's dense examples.
  absl::Status AddDense(client::PushRequest* push, PushMemory* memory) {
    for (const data::DataRange& item : completion_.dense_examples) {
      push->dense_examples.push_back({item.source, item.begin, item.end});
    }
    if (completion_.dense_examples.empty() || !has_dense()) {
      return absl::OkStatus();
    }
    Steps steps(context_, completion_.dense_examples, batch_size());
    memory->dense.resize(num_parameters());
    uint32_t num_steps = 0;
    for (;; ++num_steps) {
      OARLOCK_ASSIGN_OR_RETURN(
          const std::shared_ptr<StepBuffer> step,
          steps.Next(memory->dense.data(), /*add=*/num_steps > 0));
      if (step == nullptr) break;
    }
    if (num_steps == 0) return absl::OkStatus();
    memory->parameters = steps.parameters();
    push->dense.push_back(
        {.table = context_.dense_table,
         .gradients = memory->dense.data(),
         .num_steps = num_steps,
         .known_versions = memory->parameters->block_versions});
    return absl::OkStatus();
  }

  absl::Status Push(const client::PushRequest& push,
                    std::shared_ptr<const void> memory) {
    return CallAndWait([&](client::ParameterClient::Done done) {
      context_.cuts->SendCompletingPush(push, std::move(memory),
                                        std::move(done));
    });
  }

  const EpochContext& context_;
  const client::PushCompletion& completion_;
};

}  // namespace

absl::Status RunPushCompletion(const EpochContext& context,
                               const client::PushCompletion& completion) {
  OARLOCK_RETURN_IF_ERROR(context.dense->Pull());
  Completer completer(context, completion);
  if (completion.push.has_value()) {
    OARLOCK_RETURN_IF_ERROR(completer.CompletePush());
    Log().info("completed push {} of worker {}, which is gone",
               completion.push->sequence.value(),
               completion.push->worker.value());
    return absl::OkStatus();
  }
  OARLOCK_RETURN_IF_ERROR(completer.PushRows());
  OARLOCK_RETURN_IF_ERROR(completer.PushDense());
  Log().info("pushed what a worker that is gone had left in {} ranges",
             completion.examples.size() + completion.dense_examples.size());
  return absl::OkStatus();
}

}  // namespace oarlock::worker
