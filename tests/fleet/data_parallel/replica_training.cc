#include "tests/fleet/data_parallel/replica_training.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "data/images/image_loader.h"
#include "data/images/image_transform.h"
#include "fleet/data_parallel/collective_group.h"
#include "nn/cuda/cuda_backend.h"
#include "nn/image_layers.h"
#include "nn/layers.h"
#include "nn/reference/reference_backend.h"
#include "proto/config/job_config.pb.h"
#include "tests/fleet/data_parallel/worker_threads.h"

namespace oarlock {
namespace {

// With running statistics, dropout, and parameters that decay and do not.
std::unique_ptr<nn::Network> NewNetwork() {
  nn::NetworkBuilder net;
  nn::NodeId x =
      net.Add("image", nn::NewImageInput({.shape = {kSide, kSide, 1}}), {});
  x = net.Add(
      "conv",
      nn::NewConv2d(
          {.out_channels = 4, .window = nn::SquareWindow(3), .bias = false}),
      {x});
  x = net.Add("norm", nn::NewBatchNorm2d({.activation = nn::Activation::kRelu}),
              {x});
  x = net.Add("flatten", nn::NewFlatten(), {x});
  nn::LinearOptions hidden;
  hidden.num_outputs = 16;
  hidden.activation = nn::Activation::kRelu;
  x = net.Add("hidden", nn::NewLinear(hidden), {x});
  x = net.Add("dropout", nn::NewDropout({.rate = 0.2f}), {x});
  nn::LinearOptions output;
  output.num_outputs = kClasses;
  x = net.Add("output", nn::NewLinear(output), {x});
  auto network = net.Build(net.Add("loss", nn::NewSoftmaxCrossEntropy(), {x}));
  OARLOCK_CHECK(network.ok());
  return *std::move(network);
}

// A group whose workers keep replicas in the host's memory whatever computes.
class GroupOfHosts final : public GroupAround {
 public:
  using GroupAround::GroupAround;
  bool keeps_parameters() const override { return false; }
};

std::unique_ptr<nn::MathBackend> NewMath(const TrainingRun& run,
                                         nn::cuda::CopiedBytes* copied) {
  if (run.memory == Memory::kHost) return nn::NewReferenceBackend();
  return nn::cuda::NewCudaBackend(
      nn::cuda::NewEmulatedDevice({.memory_bytes = size_t{64} << 20,
                                   .copied = copied,
                                   .gpu_id = run.gpu}),
      {});
}

absl::Status Train(WorkerGroup& group, const TrainingRun& run,
                   Outcome* outcome) {
  OARLOCK_ASSIGN_OR_RETURN(
      const ImageShard shard,
      DrawImages(group, {.height = kSide, .width = kSide, .channels = 1},
                 kBatch, kSteps, kSeed));
  OARLOCK_ASSIGN_OR_RETURN(
      const data::ImageTransform transform,
      data::ImageTransform::Create(shard.images->shape(), {}, kSeed));
  nn::cuda::CopiedBytes copied;
  OARLOCK_ASSIGN_OR_RETURN(
      const auto model,
      DistributedModel::Create(&group, NewNetwork(), NewMath(run, &copied),
                               {.batch_size = kBatch, .seed = kSeed}));
  OARLOCK_ASSIGN_OR_RETURN(
      const auto optimizer,
      DistributedOptimizer::Create(&group, model.get(), run.optimizer));
  uint32_t epoch = 0;
  uint64_t num_steps = 0;
  if (!run.folder.empty()) {
    OARLOCK_ASSIGN_OR_RETURN(
        epoch, RestoreReplica(run.folder, group, *model, *optimizer));
  }
  for (; epoch < run.until; ++epoch) {
    if (!run.steps_alone) {
      OARLOCK_RETURN_IF_ERROR(
          optimizer->BeginEpoch(epoch, shard.sampler.num_batches()).status());
    }
    data::ImageLoader loader(shard.images.get(), &transform,
                             shard.sampler.Epoch(epoch), {});
    nn::cuda::CopiedBytes after_first;
    for (int step = 0;; ++step) {
      OARLOCK_ASSIGN_OR_RETURN(const data::ImageBatch* const batch,
                               loader.Next());
      if (batch == nullptr) break;
      outcome->scores.Merge(model->Forward(*batch));
      model->Backward();
      OARLOCK_RETURN_IF_ERROR(optimizer->Step());
      if (step == 0) after_first = copied;
      if (++num_steps == run.steps_until_failure) {
        return absl::DataLossError("this rank's data ends");
      }
    }
    if (run.steps_alone) continue;
    OARLOCK_RETURN_IF_ERROR(optimizer->EndEpoch());
    if (run.copied != nullptr) {
      *run.copied = {copied.in - after_first.in, copied.out - after_first.out};
    }
    // Evaluation reads them, and so it is before a checkpoint.
    OARLOCK_RETURN_IF_ERROR(model->ShareStatistics());
    if (run.folder.empty()) continue;
    OARLOCK_RETURN_IF_ERROR(
        SaveReplica(run.folder, epoch + 1, group, *model, *optimizer));
  }
  outcome->parameters = model->parameters();
  outcome->statistics = model->statistics();
  outcome->optimizer_state = optimizer->SaveState();
  return absl::OkStatus();
}

}  // namespace

v1::OptimizerConfig Adam() {
  v1::OptimizerConfig config;
  config.set_learning_rate(0.01f);
  config.mutable_adam();
  config.set_l2(0.001f);
  config.set_warmup_steps(3);
  return config;
}

v1::OptimizerConfig Momentum() {
  v1::OptimizerConfig config;
  config.set_learning_rate(0.05f);
  config.mutable_momentum()->set_nesterov(true);
  return config;
}

v1::OptimizerConfig Lars() {
  v1::OptimizerConfig config;
  config.set_learning_rate(0.1f);
  config.mutable_lars()->set_coefficient(0.1f);
  return config;
}

std::vector<Outcome> TrainTogether(const std::vector<TrainingRun>& runs) {
  const std::vector<cluster::RoleAssignment> roles =
      CollectiveRoles(runs.size());
  std::vector<Outcome> outcomes(runs.size());
  const auto join =
      [&](size_t rank) -> absl::StatusOr<std::unique_ptr<WorkerGroup>> {
    const TrainingRun& run = runs[rank];
    v1::JobConfig config;
    if (run.connect_timeout_s > 0) {
      config.set_connect_timeout_s(run.connect_timeout_s);
    }
    OARLOCK_ASSIGN_OR_RETURN(
        std::unique_ptr<WorkerGroup> group,
        run.new_gpu_ring == nullptr
            ? JoinWorkers(config, roles[rank], run.strategy)
            : JoinCollectiveGroup(config, roles[rank], run.strategy,
                                  run.new_gpu_ring));
    if (run.memory == Memory::kHostOfADevice) {
      group = std::make_unique<GroupOfHosts>(std::move(group));
    }
    if (run.around == nullptr) return group;
    return run.around(std::move(group));
  };
  const auto train = [&](WorkerGroup& group, size_t rank) {
    absl::Status trained;
    for (int i = 0; i < runs[rank].num_models && trained.ok(); ++i) {
      trained = Train(group, runs[rank], &outcomes[rank]);
    }
    return trained;
  };
  const std::vector<absl::Status> statuses =
      RunWorkers(runs.size(), join, train);
  for (size_t rank = 0; rank < runs.size(); ++rank) {
    outcomes[rank].status = statuses[rank];
  }
  return outcomes;
}

Outcome TrainAlone(const TrainingRun& run) { return TrainTogether({run})[0]; }

void ExpectSameBits(const Outcome& a, const Outcome& b) {
  ASSERT_TRUE(a.status.ok()) << a.status;
  ASSERT_TRUE(b.status.ok()) << b.status;
  ASSERT_FALSE(a.parameters.empty());
  EXPECT_EQ(a.parameters, b.parameters);
  EXPECT_EQ(a.statistics, b.statistics);
  EXPECT_EQ(a.optimizer_state, b.optimizer_state);
  EXPECT_EQ(a.scores.mean_loss(), b.scores.mean_loss());
}

}  // namespace oarlock
