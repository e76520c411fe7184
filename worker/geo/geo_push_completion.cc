#include "worker/geo/geo_push_completion.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/call_and_wait.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "data/batch_source.h"
#include "data/listed_ranges.h"
#include "data/parse/bad_lines.h"
#include "models/model.h"
#include "worker/cut/cut_marker.h"
#include "worker/geo/geo_replica.h"

namespace oarlock::worker {
namespace {

// What was trained on some examples, and these.
struct Trained {
  std::unique_ptr<GeoReplica> replica;
  std::vector<data::ExampleRange> examples;
};

absl::StatusOr<Trained> TrainOn(const EpochContext& context,
                                const std::vector<data::DataRange>& items) {
  Trained trained;
  trained.replica = context.geo->NewEmpty();
  trained.replica->ResetDense(*context.dense->Current());
  for (const data::DataRange& item : items) {
    trained.examples.push_back({item.source, item.begin, item.end});
  }
  const uint64_t batch_size = context.config->batch_size();
  data::ListedRanges ranges(items);
  // Lines that the epoch has counted: a count of its own.
  data::BadLines bad_lines;
  const std::unique_ptr<data::BatchSource> reader =
      context.NewReader(0, &ranges, &bad_lines);
  const std::unique_ptr<models::ModelExecutor> executor =
      context.model->NewExecutor(batch_size);
  const size_t num_parameters = context.model->spec().num_parameters;
  std::vector<float> dense(num_parameters);
  GeoStep step;
  step.buffer =
      std::make_shared<StepBuffer>(&context.model->spec(), context.clock());
  StepBuffer& buffer = *step.buffer;
  for (;;) {
    OARLOCK_ASSIGN_OR_RETURN(const bool more,
                             reader->Next(batch_size, &buffer.batch));
    if (!more) return trained;
    buffer.SeedFor(context.config->seed(), context.phase.epoch);
    buffer.BuildKeys(context.parameters->partition_bits());
    if (context.PushesStatistics()) buffer.CountStatistics();
    OARLOCK_RETURN_IF_ERROR(trained.replica->Fetch(absl::MakeSpan(&step, 1)));
    trained.replica->Gather(step);
    const nn::StepInput input =
        buffer.ModelInput(trained.replica->dense(), context.GradientScale());
    nn::StepOutput output = buffer.ModelOutput(dense.data());
    executor->Step(input, &output);
    const GeoStep* const steps[] = {&step};
    trained.replica->Apply(steps, num_parameters > 0 ? dense.data() : nullptr,
                           context.PushesStatistics());
  }
}

// Adds the rows of `trained` to the push. The result keeps them alive.
std::shared_ptr<const void> AddRows(const EpochContext& context,
                                    const Trained& trained,
                                    client::PushRequest* push) {
  push->examples = trained.examples;
  return trained.replica->TakeChanges(/*rows=*/true, /*dense=*/false,
                                      context.PushesStatistics(), push);
}

std::shared_ptr<const void> AddDense(const Trained& trained,
                                     client::PushRequest* push) {
  push->dense_examples = trained.examples;
  return trained.replica->TakeChanges(/*rows=*/false, /*dense=*/true,
                                      /*statistics=*/false, push);
}

absl::Status Push(const EpochContext& context, const client::PushRequest& push,
                  const std::shared_ptr<const void>& memory) {
  // A copy: the keys are read below.
  OARLOCK_RETURN_IF_ERROR(CallAndWait([&](client::ParameterClient::Done done) {
    context.cuts->SendCompletingPush(push, memory, std::move(done));
  }));
  // The servers take them for this worker's own, which it does not ask for.
  for (size_t i = 0; i < push.sparse.size(); ++i) {
    context.geo->MarkChanged(i, push.sparse[i].keys->keys());
  }
  return absl::OkStatus();
}

// One push under the name of the dead worker's.
absl::Status CompletePush(const EpochContext& context,
                          const client::PushCompletion& completion) {
  client::PushRequest push;
  push.epoch = context.phase.epoch;
  push.completes = completion.push;
  OARLOCK_ASSIGN_OR_RETURN(const Trained rows,
                           TrainOn(context, completion.examples));
  OARLOCK_ASSIGN_OR_RETURN(const Trained dense,
                           TrainOn(context, completion.dense_examples));
  auto memory = std::make_shared<std::vector<std::shared_ptr<const void>>>();
  if (!rows.examples.empty()) memory->push_back(AddRows(context, rows, &push));
  if (!dense.examples.empty()) memory->push_back(AddDense(dense, &push));
  return Push(context, push, std::move(memory));
}

absl::Status PushRows(const EpochContext& context,
                      const client::PushCompletion& completion) {
  if (completion.examples.empty()) return absl::OkStatus();
  client::PushRequest push;
  push.epoch = context.phase.epoch;
  OARLOCK_ASSIGN_OR_RETURN(const Trained rows,
                           TrainOn(context, completion.examples));
  std::shared_ptr<const void> memory = AddRows(context, rows, &push);
  if (context.dense_table == TableId(0)) push.dense_examples = push.examples;
  return Push(context, push, std::move(memory));
}

absl::Status PushDense(const EpochContext& context,
                       const client::PushCompletion& completion) {
  if (completion.dense_examples.empty() || context.dense_table == TableId(0)) {
    return absl::OkStatus();
  }
  client::PushRequest push;
  push.epoch = context.phase.epoch;
  OARLOCK_ASSIGN_OR_RETURN(const Trained dense,
                           TrainOn(context, completion.dense_examples));
  std::shared_ptr<const void> memory = AddDense(dense, &push);
  return Push(context, push, std::move(memory));
}

}  // namespace

absl::Status RunGeoPushCompletion(const EpochContext& context,
                                  const client::PushCompletion& completion) {
  OARLOCK_RETURN_IF_ERROR(context.dense->Pull());
  if (completion.push.has_value()) {
    OARLOCK_RETURN_IF_ERROR(CompletePush(context, completion));
    Log().info("completed push {} of worker {}, which is gone",
               completion.push->sequence.value(),
               completion.push->worker.value());
    return absl::OkStatus();
  }
  OARLOCK_RETURN_IF_ERROR(PushRows(context, completion));
  OARLOCK_RETURN_IF_ERROR(PushDense(context, completion));
  Log().info("pushed what a worker that is gone had left in {} ranges",
             completion.examples.size() + completion.dense_examples.size());
  return absl::OkStatus();
}

}  // namespace oarlock::worker
