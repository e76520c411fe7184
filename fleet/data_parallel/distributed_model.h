// A network that all workers of a group train on examples of their own, after
// PaddlePaddle's fleet.distributed_model and fleet.distributed_optimizer:
//
//   auto group = JoinWorkers(config, role, strategy);
//   auto model = DistributedModel::Create(group.get(), network, options);
//   auto optimizer = DistributedOptimizer::Create(group.get(), model.get(),
//                                                 adam);
//   for each epoch {
//     optimizer->BeginEpoch(epoch, sampler.num_batches());
//     for each batch of this worker in the epoch {
//       model->Forward(batch);
//       model->Backward();
//       optimizer->Step();
//     }
//     optimizer->EndEpoch();
//   }
//
// k workers with batches of n make the steps of one worker with batches of
// k * n, up to rounding (batch norm aside, which is each worker's own).

#ifndef OARLOCK_FLEET_DATA_PARALLEL_DISTRIBUTED_MODEL_H_
#define OARLOCK_FLEET_DATA_PARALLEL_DISTRIBUTED_MODEL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/class_scores.h"
#include "base/clock.h"
#include "data/images/image_loader.h"
#include "fleet/data_parallel/gradient_exchange.h"
#include "fleet/data_parallel/replica_array.h"
#include "fleet/data_parallel/step_times.h"
#include "fleet/data_parallel/worker_group.h"
#include "nn/math_backend.h"
#include "nn/network.h"
#include "nn/step.h"
#include "nn/workspace.h"
#include "proto/v1/table.pb.h"

namespace oarlock {

struct DistributedModelOptions {
  // Of a worker. A step's loss is the mean over size() * batch_size examples,
  // so what a short batch has weighs as much as others.
  uint32_t batch_size = 0;
  // As ModelOptions::math_backend.
  std::string math_backend = "onednn";
  // Threads that compute a step, at least 1; with another number results differ
  // by rounding.
  int math_threads = 1;
  // Of initial values and of what dropout drops; the same on all workers.
  uint64_t seed = 1;
};

// Where workers keep the parameters themselves and compute on a device,
// parameters, running statistics, gradients and the optimizer's state stay in
// its memory; what is read or written of them here is copied.
//
// One thread at a time. The group outlives it; times are measured by the
// monotonic clock of its strategy.
class DistributedModel {
 public:
  // `network` reads images and predicts classes; the same on all workers.
  // InvalidArgument: an option is not legal.
  static absl::StatusOr<std::unique_ptr<DistributedModel>> Create(
      WorkerGroup* group, std::unique_ptr<nn::Network> network,
      const DistributedModelOptions& options);
  // On a backend that the caller has made; the options that say which one are
  // not read.
  static absl::StatusOr<std::unique_ptr<DistributedModel>> Create(
      WorkerGroup* group, std::unique_ptr<nn::Network> network,
      std::unique_ptr<nn::MathBackend> math,
      const DistributedModelOptions& options);

  // Predicts a batch of at most batch_size, to learn from it; padding counts as
  // any other example. `batch` stays until Backward has returned. What dropout
  // drops follows from seed, worker, epoch and the number of the call in it.
  ClassScores Forward(const data::ImageBatch& batch);
  // The gradients of that. Sums over the workers begin while it runs.
  void Backward();

  // Predicts a batch; nothing is learned, padding is left out.
  ClassScores Evaluate(const data::ImageBatch& batch);

  // Makes the running statistics of all workers those of rank 0, for an
  // evaluation that does not depend on who makes it. With parameter servers
  // each keeps its own.
  absl::Status ShareStatistics();

  const nn::Network& network() const { return *network_; }
  std::vector<float> parameters() const { return parameters_.Read(); }
  // REQUIRES: as many as the network has.
  void SetParameters(absl::Span<const float> values) {
    parameters_.Write(values);
  }
  // Running statistics of batch norm.
  std::vector<float> statistics() const { return statistics_.Read(); }
  void SetStatistics(absl::Span<const float> values) {
    statistics_.Write(values);
  }

 private:
  friend class DistributedOptimizer;

  DistributedModel(WorkerGroup* group, std::unique_ptr<nn::Network> network,
                   std::unique_ptr<nn::MathBackend> math,
                   const DistributedModelOptions& options);
  ClassScores Run(const data::ImageBatch& batch, size_t num_examples,
                  bool training);
  float GradientScale() const;
  // The probabilities of output_, of all classes: [num_examples, num_classes].
  const float* Probabilities(size_t num_examples, size_t num_classes);
  // Gradients from number `first` on are final, the `index`-th call for this
  // Backward, which began at `start`.
  void CountFinal(size_t index, size_t first, absl::Time start);

  WorkerGroup* const group_;
  const Clock& clock_;
  const std::unique_ptr<nn::Network> network_;
  const DistributedModelOptions options_;
  // Whose memory has the next three arrays, or null: the host's has them.
  nn::MathBackend* const backend_;
  // Owns it.
  nn::Workspace workspace_;
  ReplicaArray parameters_;
  ReplicaArray statistics_;
  ReplicaArray gradients_;
  nn::StepInput input_;
  nn::StepOutput output_;
  // What Probabilities has filled in.
  std::vector<float> both_probabilities_;
  uint32_t epoch_ = 0;
  // Of this epoch.
  uint64_t num_forwards_ = 0;

  // The optimizer's.
  GradientExchange* exchange_ = nullptr;
  uint32_t accumulate_steps_ = 1;
  // Steps whose gradients gradients_ holds.
  uint32_t accumulated_ = 0;
  // All but what the exchange measures itself.
  StepTimes times_;
};

// One thread at a time. Group and model outlive it; a model has one.
class DistributedOptimizer {
 public:
  // Sets the model's parameters to what all workers begin with.
  static absl::StatusOr<std::unique_ptr<DistributedOptimizer>> Create(
      WorkerGroup* group, DistributedModel* model,
      const v1::OptimizerConfig& config);
  ~DistributedOptimizer();

  // Epoch number `epoch` over the examples begins, in which each worker makes
  // `num_steps` steps. Returns the first of them that is still to be made: not
  // 0 if servers go on from a checkpoint in the middle of this epoch. The
  // batches before it are left out. Errors are GradientExchange's.
  absl::StatusOr<uint64_t> BeginEpoch(uint32_t epoch, uint64_t num_steps);
  // After its last Step: gradients that still wait for others to accumulate are
  // applied as they are, so that nothing of an epoch is left for the next one.
  absl::Status EndEpoch();

  // Ends the step of the model's last Backward. Every accumulate_steps-th one
  // updates the parameters, by the gradients of all workers since the last.
  absl::Status Step();

  // Of all steps of the model since it was made.
  StepTimes times() const;

  // See GradientExchange. REQUIRES: no gradients wait, as after EndEpoch.
  std::string SaveState() const;
  absl::Status RestoreState(absl::string_view state) {
    return exchange_->RestoreState(state);
  }

 private:
  DistributedOptimizer(DistributedModel* model,
                       std::unique_ptr<GradientExchange> exchange)
      : model_(model), exchange_(std::move(exchange)) {}
  absl::Status Update();

  DistributedModel* const model_;
  const std::unique_ptr<GradientExchange> exchange_;
};

}  // namespace oarlock

#endif  // OARLOCK_FLEET_DATA_PARALLEL_DISTRIBUTED_MODEL_H_
