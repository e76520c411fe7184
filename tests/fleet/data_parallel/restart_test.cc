// A run that ends after an epoch and goes on from its checkpoint makes the
// steps of one that does not.

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "data/images/image_loader.h"
#include "data/images/image_transform.h"
#include "fleet/data_parallel.h"
#include "nn/image_layers.h"
#include "nn/layers.h"
#include "tests/base/test_folder.h"
#include "tests/fleet/data_parallel/worker_threads.h"

namespace oarlock {
namespace {

constexpr uint64_t kSeed = 11;
constexpr uint32_t kBatch = 4;
// Not a multiple of kAccumulate: gradients wait at the end of an epoch.
constexpr uint64_t kSteps = 5;
constexpr uint32_t kAccumulate = 2;

std::unique_ptr<nn::Network> NetworkWithDropout(float rate) {
  nn::NetworkBuilder net;
  nn::ImageInputOptions input;
  input.shape = {28, 28, 1};
  nn::LinearOptions hidden;
  hidden.num_outputs = 32;
  hidden.activation = nn::Activation::kRelu;
  nn::LinearOptions output;
  output.num_outputs = 10;
  nn::NodeId x = net.Add("image", nn::NewImageInput(input), {});
  x = net.Add("hidden", nn::NewLinear(hidden), {x});
  x = net.Add("dropout", nn::NewDropout({.rate = rate}), {x});
  x = net.Add("output", nn::NewLinear(output), {x});
  auto network = net.Build(net.Add("loss", nn::NewSoftmaxCrossEntropy(), {x}));
  OARLOCK_CHECK(network.ok());
  return *std::move(network);
}

v1::OptimizerConfig Momentum() {
  v1::OptimizerConfig config;
  config.set_learning_rate(0.05f);
  config.mutable_momentum()->set_momentum(0.9f);
  return config;
}

struct Run {
  // Epochs that it makes, from where the checkpoint in `folder` ends.
  uint32_t until = 0;
  std::string folder = {};
  float dropout = 0.5f;
  // For a test of the test: the epochs are told to be the first again.
  bool forgets_epoch = false;
};

absl::Status Train(WorkerGroup& group, const Run& run,
                   std::vector<float>* parameters) {
  OARLOCK_ASSIGN_OR_RETURN(
      const ImageShard shard,
      DrawImages(group, {.height = 28, .width = 28, .channels = 1}, kBatch,
                 kSteps, kSeed));
  OARLOCK_ASSIGN_OR_RETURN(
      const data::ImageTransform transform,
      data::ImageTransform::Create(shard.images->shape(),
                                   {.padding = 2, .flip = true}, kSeed));
  OARLOCK_ASSIGN_OR_RETURN(
      const auto model,
      DistributedModel::Create(&group, NetworkWithDropout(run.dropout),
                               {.batch_size = kBatch, .seed = kSeed}));
  OARLOCK_ASSIGN_OR_RETURN(
      const auto optimizer,
      DistributedOptimizer::Create(&group, model.get(), Momentum()));
  OARLOCK_ASSIGN_OR_RETURN(
      uint32_t epoch, RestoreReplica(run.folder, group, *model, *optimizer));
  for (; epoch < run.until; ++epoch) {
    OARLOCK_ASSIGN_OR_RETURN(
        const uint64_t first,
        optimizer->BeginEpoch(run.forgets_epoch ? 0 : epoch,
                              shard.sampler.num_batches()));
    if (first != 0) return absl::InternalError("an epoch begins in its middle");
    data::ImageLoader loader(shard.images.get(), &transform,
                             shard.sampler.Epoch(epoch), {});
    while (true) {
      OARLOCK_ASSIGN_OR_RETURN(const data::ImageBatch* const batch,
                               loader.Next());
      if (batch == nullptr) break;
      model->Forward(*batch);
      model->Backward();
      OARLOCK_RETURN_IF_ERROR(optimizer->Step());
    }
    OARLOCK_RETURN_IF_ERROR(optimizer->EndEpoch());
    OARLOCK_RETURN_IF_ERROR(
        SaveReplica(run.folder, epoch + 1, group, *model, *optimizer));
  }
  *parameters = model->parameters();
  return absl::OkStatus();
}

// Rank 0's parameters, which are those of all.
std::vector<float> TrainOn(uint32_t size, const Run& run) {
  const DistributedStrategy strategy = {.accumulate_steps = kAccumulate};
  const std::vector<cluster::RoleAssignment> roles = CollectiveRoles(size);
  std::vector<std::vector<float>> parameters(size);
  const std::vector<absl::Status> statuses = RunWorkers(
      size, [&](size_t rank) { return JoinWorkers({}, roles[rank], strategy); },
      [&](WorkerGroup& group, size_t rank) {
        return Train(group, run, &parameters[rank]);
      });
  for (uint32_t rank = 0; rank < size; ++rank) {
    EXPECT_TRUE(statuses[rank].ok()) << statuses[rank];
    EXPECT_EQ(parameters[rank], parameters[0]);
  }
  return parameters[0];
}

// The same without a checkpoint to go on from.
std::vector<float> TrainAnew(uint32_t size, Run run) {
  const TestFolder folder;
  run.folder = folder.path();
  return TrainOn(size, run);
}

TEST(RestartTest, ARunThatGoesOnMakesTheBitsOfOneWithoutAPause) {
  for (const uint32_t size : {1, 2}) {
    SCOPED_TRACE(testing::Message() << size << " ranks, seed " << kSeed);
    const std::vector<float> straight = TrainAnew(size, {.until = 2});
    ASSERT_FALSE(straight.empty());
    const TestFolder folder;
    const std::vector<float> half =
        TrainOn(size, {.until = 1, .folder = folder.path()});
    EXPECT_NE(half, straight);
    EXPECT_EQ(TrainOn(size, {.until = 2, .folder = folder.path()}), straight);
  }
}

// Else the test above could not fail.
TEST(RestartTest, WhatDropoutDropsDependsOnTheEpoch) {
  const std::vector<float> straight = TrainAnew(1, {.until = 2});
  EXPECT_NE(TrainAnew(1, {.until = 2, .forgets_epoch = true}), straight);
  EXPECT_NE(TrainAnew(1, {.until = 2, .dropout = 0}), straight);
}

}  // namespace
}  // namespace oarlock
