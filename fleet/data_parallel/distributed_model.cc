#include "fleet/data_parallel/distributed_model.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/random.h"
#include "base/status_macros.h"
#include "nn/backends/backends.h"
#include "worker/config/table_plan.h"

namespace oarlock {
namespace {

// The only table of such a job.
constexpr uint32_t kTableId = 1;

// The backend if a replica of this group can stay in its memory.
nn::MathBackend* BackendFor(const WorkerGroup& group, nn::MathBackend* math) {
  const bool has_device = math->compute_device() != nullptr;
  return group.keeps_parameters() && has_device ? math : nullptr;
}

}  // namespace

absl::StatusOr<std::unique_ptr<DistributedModel>> DistributedModel::Create(
    WorkerGroup* group, std::unique_ptr<nn::Network> network,
    const DistributedModelOptions& options) {
  if (options.math_threads < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "math_threads is ", options.math_threads, "; legal is 1 or more"));
  }
  OARLOCK_ASSIGN_OR_RETURN(
      std::unique_ptr<nn::MathBackend> math,
      nn::NewMathBackend(options.math_backend, options.math_threads));
  return Create(group, std::move(network), std::move(math), options);
}

absl::StatusOr<std::unique_ptr<DistributedModel>> DistributedModel::Create(
    WorkerGroup* group, std::unique_ptr<nn::Network> network,
    std::unique_ptr<nn::MathBackend> math,
    const DistributedModelOptions& options) {
  if (options.batch_size == 0) {
    return absl::InvalidArgumentError("batch_size is 0; legal is 1 or more");
  }
  return absl::WrapUnique(new DistributedModel(group, std::move(network),
                                               std::move(math), options));
}

DistributedModel::DistributedModel(WorkerGroup* group,
                                   std::unique_ptr<nn::Network> network,
                                   std::unique_ptr<nn::MathBackend> math,
                                   const DistributedModelOptions& options)
    : group_(group),
      clock_(*group->strategy().clocks.monotonic),
      network_(std::move(network)),
      options_(options),
      backend_(BackendFor(*group, math.get())),
      workspace_(*network_, std::move(math), options.batch_size),
      parameters_(backend_, network_->num_parameters()),
      statistics_(backend_, network_->num_statistics()),
      gradients_(backend_, network_->num_parameters()) {
  statistics_.Write(network_->InitialStatistics());
  input_.parameters_in_backend = backend_ != nullptr;
  output_.parameter_gradients = gradients_.span().data();
}

float DistributedModel::GradientScale() const {
  return 1.0f / (static_cast<float>(group_->size()) * options_.batch_size *
                 accumulate_steps_);
}

ClassScores DistributedModel::Run(const data::ImageBatch& batch,
                                  size_t num_examples, bool training) {
  input_.num_examples = num_examples;
  input_.training = training;
  input_.labels = batch.labels.data();
  input_.images = batch.images.data();
  input_.parameters = parameters_.span().data();
  input_.statistics = statistics_.span().data();
  input_.gradient_scale = GradientScale();
  input_.accumulate_parameter_gradients = accumulated_ > 0;
  // Workers drop different floats.
  input_.random_seed =
      DeriveSeed(DeriveSeed(DeriveSeed(options_.seed, group_->rank()), epoch_),
                 num_forwards_);
  workspace_.Forward(input_, &output_);
  const size_t num_classes =
      network_->nodes()[network_->prediction()].shape.size();
  ClassScores scores;
  scores.Add(Probabilities(num_examples, num_classes), input_.labels,
             num_examples, num_classes, output_.loss_sum);
  return scores;
}

const float* DistributedModel::Probabilities(size_t num_examples,
                                             size_t num_classes) {
  const absl::Span<const float> predictions = output_.predictions;
  if (num_classes != 2) {
    OARLOCK_CHECK(predictions.size() == num_examples * num_classes);
    return predictions.data();
  }
  // Of two classes a step tells the second one's only.
  OARLOCK_CHECK(predictions.size() == num_examples);
  both_probabilities_.resize(2 * num_examples);
  for (size_t i = 0; i < num_examples; ++i) {
    both_probabilities_[2 * i] = 1 - predictions[i];
    both_probabilities_[2 * i + 1] = predictions[i];
  }
  return both_probabilities_.data();
}

ClassScores DistributedModel::Forward(const data::ImageBatch& batch) {
  ++num_forwards_;
  const absl::Time start = clock_.Now();
  const ClassScores scores = Run(batch, batch.num_examples, /*training=*/true);
  times_.forward += clock_.Now() - start;
  return scores;
}

void DistributedModel::Backward() {
  OARLOCK_CHECK(exchange_ != nullptr);
  const absl::Time start = clock_.Now();
  if (accumulated_ + 1 < accumulate_steps_) {
    workspace_.Backward(&output_);
  } else {
    size_t index = 0;
    workspace_.Backward(&output_, [&](size_t first) {
      CountFinal(index++, first, start);
      exchange_->GradientsFinal(gradients_.span(), first);
    });
  }
  times_.backward += clock_.Now() - start;
}

void DistributedModel::CountFinal(size_t index, size_t first,
                                  absl::Time start) {
  std::vector<StepTimes::FinalGradients>& finals = times_.finals;
  if (index == finals.size()) finals.emplace_back().first = first;
  OARLOCK_CHECK(finals[index].first == first);
  finals[index].after_begin += clock_.Now() - start;
  ++finals[index].backwards;
}

ClassScores DistributedModel::Evaluate(const data::ImageBatch& batch) {
  return Run(batch, batch.num_counted, /*training=*/false);
}

absl::Status DistributedModel::ShareStatistics() {
  const size_t num_bytes = network_->num_statistics() * sizeof(float);
  if (num_bytes == 0 || !group_->can_broadcast()) return absl::OkStatus();
  std::vector<float> values = statistics();
  std::string bytes(reinterpret_cast<const char*>(values.data()), num_bytes);
  OARLOCK_RETURN_IF_ERROR(group_->Broadcast(&bytes));
  OARLOCK_CHECK(bytes.size() == num_bytes);
  std::memcpy(values.data(), bytes.data(), num_bytes);
  SetStatistics(values);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<DistributedOptimizer>>
DistributedOptimizer::Create(WorkerGroup* group, DistributedModel* model,
                             const v1::OptimizerConfig& config) {
  OARLOCK_CHECK(model->exchange_ == nullptr);
  v1::TableConfig table = worker::DenseTableOf(
      model->network_->parameters(), model->network_->num_parameters());
  table.set_id(kTableId);
  table.set_seed(model->options_.seed);
  *table.mutable_optimizer() = config;
  OARLOCK_ASSIGN_OR_RETURN(std::unique_ptr<GradientExchange> exchange,
                           group->NewExchange(table, model->backend_));
  OARLOCK_RETURN_IF_ERROR(exchange->Begin(model->parameters_.span()));
  model->exchange_ = exchange.get();
  model->accumulate_steps_ = group->strategy().accumulate_steps;
  return absl::WrapUnique(new DistributedOptimizer(model, std::move(exchange)));
}

DistributedOptimizer::~DistributedOptimizer() { model_->exchange_ = nullptr; }

absl::StatusOr<uint64_t> DistributedOptimizer::BeginEpoch(uint32_t epoch,
                                                          uint64_t num_steps) {
  DistributedModel& model = *model_;
  const uint64_t steps = model.accumulate_steps_;
  OARLOCK_ASSIGN_OR_RETURN(
      const uint64_t updates,
      exchange_->BeginEpoch(epoch, (num_steps + steps - 1) / steps,
                            steps * model.options_.batch_size,
                            model.parameters_.span()));
  model.epoch_ = epoch;
  model.num_forwards_ = std::min(updates * steps, num_steps);
  return model.num_forwards_;
}

absl::Status DistributedOptimizer::EndEpoch() {
  if (model_->accumulated_ > 0) OARLOCK_RETURN_IF_ERROR(Update());
  return exchange_->EndEpoch();
}

absl::Status DistributedOptimizer::Step() {
  DistributedModel& model = *model_;
  if (++model.accumulated_ < model.accumulate_steps_) return absl::OkStatus();
  return Update();
}

absl::Status DistributedOptimizer::Update() {
  DistributedModel& model = *model_;
  model.accumulated_ = 0;
  const absl::Time start = model.clock_.Now();
  OARLOCK_RETURN_IF_ERROR(
      exchange_->EndStep(model.gradients_.span(), model.parameters_.span()));
  model.times_.update += model.clock_.Now() - start;
  ++model.times_.updates;
  return absl::OkStatus();
}

StepTimes DistributedOptimizer::times() const {
  StepTimes times = model_->times_;
  times.exchange = exchange_->times();
  // The end of a step waits for the exchange first.
  times.update -= times.exchange.exposed;
  return times;
}

std::string DistributedOptimizer::SaveState() const {
  OARLOCK_CHECK(model_->accumulated_ == 0);
  return exchange_->SaveState();
}

}  // namespace oarlock
