#include "tests/fleet/data_parallel/replica_training.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "fleet/data_parallel/collective_group.h"
#include "tests/collective/group_testing.h"
#include "worker/data/images/image_loader.h"
#include "worker/data/images/image_transform.h"
#include "worker/data/images/synthetic_images.h"
#include "worker/nn/cuda/cuda_backend.h"
#include "worker/nn/image_layers.h"
#include "worker/nn/layers.h"
#include "worker/nn/reference_backend.h"

namespace oarlock {
namespace {

// With running statistics, dropout, and parameters that decay and do not.
std::unique_ptr<Network> NewNetwork() {
  NetworkBuilder net;
  NodeId x = net.Add("image", NewImageInput({.shape = {kSide, kSide, 1}}), {});
  x = net.Add(
      "conv",
      NewConv2d({.out_channels = 4, .window = SquareWindow(3), .bias = false}),
      {x});
  x = net.Add("norm", NewBatchNorm2d({.activation = Activation::kRelu}), {x});
  x = net.Add("flatten", NewFlatten(), {x});
  LinearOptions hidden;
  hidden.num_outputs = 16;
  hidden.activation = Activation::kRelu;
  x = net.Add("hidden", NewLinear(hidden), {x});
  x = net.Add("dropout", NewDropout({.rate = 0.2f}), {x});
  LinearOptions output;
  output.num_outputs = kClasses;
  x = net.Add("output", NewLinear(output), {x});
  auto network = net.Build(net.Add("loss", NewSoftmaxCrossEntropy(), {x}));
  OARLOCK_CHECK(network.ok());
  return *std::move(network);
}

// A group whose workers keep replicas in the host's memory whatever computes.
class GroupOfHosts final : public WorkerGroup {
 public:
  explicit GroupOfHosts(std::unique_ptr<WorkerGroup> group)
      : WorkerGroup(group->strategy()), group_(std::move(group)) {}

  uint32_t rank() const override { return group_->rank(); }
  uint32_t size() const override { return group_->size(); }
  std::string Describe() const override { return group_->Describe(); }
  bool keeps_parameters() const override { return false; }
  absl::StatusOr<std::unique_ptr<GradientExchange>> NewExchange(
      const v1::TableConfig& table, MathBackend* backend) override {
    OARLOCK_CHECK(backend == nullptr);
    return group_->NewExchange(table, backend);
  }
  absl::StatusOr<ClassScores> Sum(const std::string& phase, uint32_t epoch,
                                  const ClassScores& mine) override {
    return group_->Sum(phase, epoch, mine);
  }
  absl::Status Broadcast(std::string* bytes) override {
    return group_->Broadcast(bytes);
  }
  bool can_broadcast() const override { return group_->can_broadcast(); }
  absl::Status Checkpoint() override { return group_->Checkpoint(); }
  bool makes_checkpoints() const override {
    return group_->makes_checkpoints();
  }
  absl::Status Barrier(const std::string& name) override {
    return group_->Barrier(name);
  }
  absl::Status Leave(const absl::Status& outcome) override {
    return group_->Leave(outcome);
  }

 private:
  const std::unique_ptr<WorkerGroup> group_;
};

std::unique_ptr<MathBackend> NewMath(const TrainingRun& run,
                                     cuda::CopiedBytes* copied) {
  if (run.memory == Memory::kHost) return NewReferenceBackend();
  return cuda::NewCudaBackend(
      cuda::NewEmulatedDevice({.memory_bytes = size_t{64} << 20,
                               .copied = copied,
                               .gpu_id = run.gpu}),
      {});
}

absl::Status Train(WorkerGroup& group, const TrainingRun& run,
                   Outcome* outcome) {
  SyntheticImagesOptions drawn;
  drawn.shape = {.height = kSide, .width = kSide, .channels = 1};
  drawn.num_examples = kBatch * kSteps * group.size();
  drawn.seed = kSeed;
  OARLOCK_ASSIGN_OR_RETURN(const std::unique_ptr<MemoryImages> images,
                           NewSyntheticImages(drawn));
  OARLOCK_ASSIGN_OR_RETURN(
      const DistributedBatchSampler sampler,
      DistributedBatchSampler::Create({.num_examples = images->size(),
                                       .batch_size = kBatch,
                                       .rank = group.rank(),
                                       .size = group.size(),
                                       .shuffle = true,
                                       .seed = kSeed}));
  OARLOCK_ASSIGN_OR_RETURN(const ImageTransform transform,
                           ImageTransform::Create(images->shape(), {}, kSeed));
  cuda::CopiedBytes copied;
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
          optimizer->BeginEpoch(epoch, sampler.num_batches()).status());
    }
    ImageLoader loader(images.get(), &transform, sampler.Epoch(epoch), {});
    cuda::CopiedBytes after_first;
    for (int step = 0;; ++step) {
      OARLOCK_ASSIGN_OR_RETURN(const ImageBatch* const batch, loader.Next());
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
  const uint32_t size = static_cast<uint32_t>(runs.size());
  const std::vector<std::string> endpoints = FreeEndpoints(size);
  std::vector<Outcome> outcomes(size);
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      outcomes[rank].status = [&]() -> absl::Status {
        RoleAssignment role;
        if (size > 1) {
          role.role = Role::kCollective;
          role.worker_index = rank;
          role.num_workers = size;
          role.worker_endpoints = endpoints;
        }
        const TrainingRun& run = runs[rank];
        OARLOCK_ASSIGN_OR_RETURN(
            std::unique_ptr<WorkerGroup> group,
            run.new_gpu_ring == nullptr
                ? JoinWorkers({}, role, run.strategy)
                : JoinCollectiveGroup({}, role, run.strategy,
                                      run.new_gpu_ring));
        if (run.memory == Memory::kHostOfADevice) {
          group = std::make_unique<GroupOfHosts>(std::move(group));
        }
        absl::Status trained;
        for (int i = 0; i < run.num_models && trained.ok(); ++i) {
          trained = Train(*group, run, &outcomes[rank]);
        }
        const absl::Status left = group->Leave(trained);
        return trained.ok() ? left : trained;
      }();
    });
  }
  for (std::thread& thread : threads) thread.join();
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

std::string NewFolder() {
  std::string path = absl::StrCat(testing::TempDir(), "/device_XXXXXX");
  OARLOCK_CHECK(mkdtemp(path.data()) != nullptr);
  return path;
}

}  // namespace oarlock
