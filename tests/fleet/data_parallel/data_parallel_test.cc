// One training step after another, made by one worker, by ranks, and by workers
// with parameter servers: the same parameters come out.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/status_macros.h"
#include "data/images/image_loader.h"
#include "data/images/image_transform.h"
#include "data/images/synthetic_images.h"
#include "fleet/data_parallel/distributed_model.h"
#include "fleet/data_parallel/join_workers.h"
#include "models/image_networks.h"
#include "nn/image_layers.h"
#include "nn/layers.h"
#include "nn/network.h"
#include "tests/collective/group_testing.h"
#include "tests/fleet/data_parallel/worker_threads.h"
#include "tests/integration/mini_cluster.h"

namespace oarlock {
namespace {

constexpr uint32_t kGlobalBatch = 12;
constexpr uint64_t kSteps = 5;
constexpr uint64_t kSeed = 7;

std::unique_ptr<data::MemoryImages> Images() {
  data::SyntheticImagesOptions options;
  options.num_examples = kGlobalBatch * kSteps;
  options.seed = kSeed;
  auto images = data::NewSyntheticImages(options);
  EXPECT_TRUE(images.ok()) << images.status();
  return *std::move(images);
}

v1::OptimizerConfig Momentum() {
  v1::OptimizerConfig config;
  config.set_learning_rate(0.05f);
  config.mutable_momentum()->set_momentum(0.9f);
  return config;
}

struct Outcome {
  absl::Status status;
  std::vector<float> parameters;
  // Of all workers.
  ClassScores scores;
  // Of the steps, and how long they took by the clock, reading included.
  StepTimes times;
  absl::Duration elapsed;
};

// An epoch of kSteps updates on the same images in the same order.
absl::Status Train(WorkerGroup& group, Outcome* outcome) {
  const std::unique_ptr<data::MemoryImages> images = Images();
  const uint32_t batch_size =
      kGlobalBatch / group.size() / group.strategy().accumulate_steps;
  data::SamplerOptions sampling;
  sampling.num_examples = images->size();
  sampling.batch_size = batch_size;
  sampling.rank = group.rank();
  sampling.size = group.size();
  sampling.shuffle = true;
  sampling.seed = kSeed;
  OARLOCK_ASSIGN_OR_RETURN(const data::DistributedBatchSampler sampler,
                           data::DistributedBatchSampler::Create(sampling));
  OARLOCK_ASSIGN_OR_RETURN(
      const data::ImageTransform transform,
      data::ImageTransform::Create(images->shape(), {}, kSeed));
  OARLOCK_ASSIGN_OR_RETURN(
      const auto model,
      DistributedModel::Create(&group, models::NewMnistNetwork(),
                               {.batch_size = batch_size, .seed = kSeed}));
  OARLOCK_ASSIGN_OR_RETURN(
      const auto optimizer,
      DistributedOptimizer::Create(&group, model.get(), Momentum()));
  data::ImageLoader loader(images.get(), &transform, sampler.Epoch(0), {});
  ClassScores scores;
  const Clock& clock = *group.strategy().clocks.monotonic;
  const absl::Time start = clock.Now();
  while (true) {
    OARLOCK_ASSIGN_OR_RETURN(const data::ImageBatch* const batch,
                             loader.Next());
    if (batch == nullptr) break;
    scores.Merge(model->Forward(*batch));
    model->Backward();
    OARLOCK_RETURN_IF_ERROR(optimizer->Step());
  }
  outcome->elapsed = clock.Now() - start;
  outcome->times = optimizer->times();
  OARLOCK_ASSIGN_OR_RETURN(outcome->scores, group.Sum("train", 0, scores));
  outcome->parameters = model->parameters();
  return absl::OkStatus();
}

// Every worker in a thread of its own.
std::vector<Outcome> TrainTogether(
    const std::vector<cluster::RoleAssignment>& roles,
    const v1::JobConfig& config, const DistributedStrategy& strategy) {
  std::vector<Outcome> outcomes(roles.size());
  const std::vector<absl::Status> statuses = RunWorkers(
      roles.size(),
      [&](size_t i) { return JoinWorkers(config, roles[i], strategy); },
      [&](WorkerGroup& group, size_t i) { return Train(group, &outcomes[i]); });
  for (size_t i = 0; i < roles.size(); ++i) outcomes[i].status = statuses[i];
  return outcomes;
}

std::vector<Outcome> RunRanks(uint32_t size,
                              const DistributedStrategy& strategy = {}) {
  return TrainTogether(CollectiveRoles(size), {}, strategy);
}

void ExpectEqualOnAll(const std::vector<Outcome>& outcomes) {
  for (const Outcome& outcome : outcomes) {
    ASSERT_TRUE(outcome.status.ok()) << outcome.status;
    EXPECT_EQ(outcome.parameters, outcomes[0].parameters);
    EXPECT_EQ(outcome.scores.num_examples(), kGlobalBatch * kSteps);
  }
}

// What rounding makes of other orders of the same sums: relative to the
// parameters' own size, some steps of 24-bit floats on sums of some thousand
// products.
void ExpectClose(const Outcome& outcome, const Outcome& serial) {
  ASSERT_TRUE(outcome.status.ok()) << outcome.status;
  ASSERT_EQ(outcome.parameters.size(), serial.parameters.size());
  double largest = 0;
  double moved = 0;
  for (size_t i = 0; i < serial.parameters.size(); ++i) {
    const double difference =
        std::fabs(double{outcome.parameters[i]} - serial.parameters[i]);
    largest = std::max(largest, difference);
    moved = std::max(moved, std::fabs(double{serial.parameters[i]}));
  }
  EXPECT_LE(largest, 2e-5 * moved);
  EXPECT_NEAR(outcome.scores.mean_loss(), serial.scores.mean_loss(), 1e-5);
}

// Times that are possible: parts of the whole, and gradients that become final
// one after the other while backward runs.
void ExpectPossibleTimes(const Outcome& outcome) {
  const StepTimes& times = outcome.times;
  EXPECT_EQ(times.updates, kSteps);
  EXPECT_GT(times.forward, absl::ZeroDuration());
  EXPECT_GT(times.backward, absl::ZeroDuration());
  EXPECT_GT(times.update, absl::ZeroDuration());
  EXPECT_LE(
      times.forward + times.backward + times.update + times.exchange.exposed,
      outcome.elapsed);
  // Two convolutions and two linear layers have parameters.
  ASSERT_EQ(times.finals.size(), 4u);
  EXPECT_LT(times.finals[0].first, outcome.parameters.size());
  EXPECT_EQ(times.finals.back().first, 0u);
  for (size_t i = 1; i < times.finals.size(); ++i) {
    EXPECT_LT(times.finals[i].first, times.finals[i - 1].first);
    EXPECT_GE(times.finals[i].after_begin, times.finals[i - 1].after_begin);
  }
  EXPECT_LE(times.finals.back().after_begin, times.backward);
}

class DataParallelTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { serial_ = new Outcome(RunRanks(1)[0]); }
  static void TearDownTestSuite() { delete serial_; }

  static Outcome* serial_;
};
Outcome* DataParallelTest::serial_ = nullptr;

TEST_F(DataParallelTest, OneWorkerLearns) {
  ASSERT_TRUE(serial_->status.ok()) << serial_->status;
  EXPECT_GT(serial_->parameters.size(), 500000u);
  EXPECT_EQ(serial_->parameters, RunRanks(1)[0].parameters);
}

TEST_F(DataParallelTest, OneWorkerCommunicatesInNoTime) {
  ASSERT_TRUE(serial_->status.ok()) << serial_->status;
  ExpectPossibleTimes(*serial_);
  EXPECT_EQ(serial_->times.exchange.communication, absl::ZeroDuration());
  EXPECT_EQ(serial_->times.exchange.exposed, absl::ZeroDuration());
}

TEST_F(DataParallelTest, TimesOfRanksArePartsOfTheWhole) {
  DistributedStrategy strategy;
  for (const uint32_t accumulate_steps : {1, 2}) {
    strategy.accumulate_steps = accumulate_steps;
    for (const Outcome& outcome : RunRanks(2, strategy)) {
      ASSERT_TRUE(outcome.status.ok()) << outcome.status;
      ExpectPossibleTimes(outcome);
      EXPECT_GT(outcome.times.exchange.communication, absl::ZeroDuration());
      EXPECT_LE(outcome.times.exchange.communication, outcome.elapsed);
      EXPECT_LE(outcome.times.exchange.exposed,
                outcome.times.exchange.communication);
    }
  }
}

TEST_F(DataParallelTest, RanksMakeTheStepsOfOneWithTheirBatchesTogether) {
  for (const uint32_t size : {2, 3}) {
    const std::vector<Outcome> ranks = RunRanks(size);
    ExpectEqualOnAll(ranks);
    ExpectClose(ranks[0], *serial_);
  }
}

TEST_F(DataParallelTest, BucketsChangeNothing) {
  DistributedStrategy strategy;
  strategy.bucket_bytes = 1;
  const std::vector<Outcome> small = RunRanks(2, strategy);
  ExpectEqualOnAll(small);
  strategy.bucket_bytes = size_t{1} << 30;
  const std::vector<Outcome> whole = RunRanks(2, strategy);
  EXPECT_EQ(small[0].parameters, whole[0].parameters);
}

TEST_F(DataParallelTest, StepsThatAreAccumulatedAreOne) {
  DistributedStrategy strategy;
  strategy.accumulate_steps = 2;
  const std::vector<Outcome> ranks = RunRanks(2, strategy);
  ExpectEqualOnAll(ranks);
  ExpectClose(ranks[0], *serial_);
}

// What ranks take in a step one worker takes in as many batches, and the sum of
// two does not depend on their order.
TEST_F(DataParallelTest, TwoRanksMakeTheBitsOfOneThatAccumulates) {
  DistributedStrategy strategy;
  strategy.accumulate_steps = 2;
  EXPECT_EQ(RunRanks(2)[0].parameters, RunRanks(1, strategy)[0].parameters);
}

TEST_F(DataParallelTest, SixteenBitGradientsAreTheSameOnAllRanks) {
  DistributedStrategy strategy;
  strategy.gradient_format = "bfloat16";
  const std::vector<Outcome> ranks = RunRanks(2, strategy);
  ExpectEqualOnAll(ranks);
  EXPECT_NE(ranks[0].parameters, serial_->parameters);
  EXPECT_NEAR(ranks[0].scores.mean_loss(), serial_->scores.mean_loss(), .01);
}

TEST_F(DataParallelTest, WorkersWithServersMakeTheStepsOfOne) {
  for (const uint32_t servers : {1, 2}) {
    const auto cluster = MiniCluster::Start(
        {.num_servers = servers, .num_workers = 2, .job_id = "images"});
    ASSERT_TRUE(cluster.ok()) << cluster.status();
    std::vector<cluster::RoleAssignment> roles(2);
    for (uint32_t i = 0; i < 2; ++i) {
      roles[i].role = cluster::Role::kWorker;
      roles[i].worker_index = i;
      roles[i].num_workers = 2;
      roles[i].server_endpoints = (*cluster)->endpoints();
    }
    v1::JobConfig config;
    config.set_mode("sync");
    config.set_job_id("images");
    const std::vector<Outcome> workers = TrainTogether(roles, config, {});
    ExpectEqualOnAll(workers);
    ExpectClose(workers[0], *serial_);
    for (const Outcome& worker : workers) {
      ExpectPossibleTimes(worker);
      // Nothing is pushed while backward runs.
      EXPECT_GT(worker.times.exchange.communication, absl::ZeroDuration());
      EXPECT_EQ(worker.times.exchange.communication,
                worker.times.exchange.exposed);
    }
  }
}

// One class, whatever the image shows, so that the share of its labels is the
// accuracy; two classes are the case that a step's output treats apart.
TEST_F(DataParallelTest, AccuracyIsTheShareOfRightClassesOfTwoAndOfThree) {
  constexpr float kSure = 5;
  for (const uint32_t num_classes : {2u, 3u}) {
    data::SyntheticImagesOptions images_options;
    images_options.num_classes = num_classes;
    images_options.num_examples = kGlobalBatch;
    const auto images = data::NewSyntheticImages(images_options);
    ASSERT_TRUE(images.ok()) << images.status();
    const auto transform =
        data::ImageTransform::Create((*images)->shape(), {}, 1);
    ASSERT_TRUE(transform.ok()) << transform.status();
    const auto sampler = data::DistributedBatchSampler::Create(
        {.num_examples = kGlobalBatch, .batch_size = kGlobalBatch});
    ASSERT_TRUE(sampler.ok()) << sampler.status();
    data::ImageBatch batch;
    ASSERT_TRUE(data::ReadBatch(**images, *transform,
                                sampler->Epoch(0).Batch(0), &batch)
                    .ok());
    nn::NetworkBuilder net;
    nn::NodeId x =
        net.Add("image", nn::NewImageInput({.shape = {28, 28, 1}}), {});
    x = net.Add("flatten", nn::NewFlatten(), {x});
    x = net.Add("linear", nn::NewLinear({.num_outputs = num_classes}), {x});
    auto network =
        net.Build(net.Add("loss", nn::NewSoftmaxCrossEntropy(), {x}));
    ASSERT_TRUE(network.ok()) << network.status();
    const auto group = JoinWorkers({}, {}, {});
    ASSERT_TRUE(group.ok()) << group.status();
    const auto model = DistributedModel::Create(
        group->get(), *std::move(network), {.batch_size = kGlobalBatch});
    ASSERT_TRUE(model.ok()) << model.status();
    for (uint32_t sure = 0; sure < num_classes; ++sure) {
      std::vector<float> parameters((*model)->network().num_parameters());
      // The biases come last.
      parameters[parameters.size() - num_classes + sure] = kSure;
      (*model)->SetParameters(parameters);
      const auto right = std::count(batch.labels.begin(), batch.labels.end(),
                                    static_cast<float>(sure));
      EXPECT_GT(right, 0);
      EXPECT_EQ((*model)->Evaluate(batch).accuracy(),
                static_cast<double>(right) / kGlobalBatch)
          << "class " << sure << " of " << num_classes;
    }
    EXPECT_TRUE((*group)->Leave(absl::OkStatus()).ok());
  }
}

// What one rank of two, each with a strategy and a batch size of its own, is
// told at the begin of an epoch of `num_steps`.
std::vector<absl::Status> BeginEpochs(
    const std::array<DistributedStrategy, 2>& strategies,
    const std::array<uint32_t, 2>& batch_sizes,
    const std::array<uint64_t, 2>& num_steps) {
  const std::vector<std::string> endpoints = collective::FreeEndpoints(2);
  std::vector<absl::Status> outcomes(2);
  std::vector<std::thread> ranks;
  for (uint32_t i = 0; i < 2; ++i) {
    ranks.emplace_back([&, i] {
      cluster::RoleAssignment role;
      role.role = cluster::Role::kCollective;
      role.worker_index = i;
      role.num_workers = 2;
      role.worker_endpoints = endpoints;
      outcomes[i] = [&]() -> absl::Status {
        OARLOCK_ASSIGN_OR_RETURN(const auto group,
                                 JoinWorkers({}, role, strategies[i]));
        OARLOCK_ASSIGN_OR_RETURN(
            const auto model,
            DistributedModel::Create(group.get(), models::NewMnistNetwork(),
                                     {.batch_size = batch_sizes[i]}));
        OARLOCK_ASSIGN_OR_RETURN(
            const auto optimizer,
            DistributedOptimizer::Create(group.get(), model.get(), Momentum()));
        OARLOCK_RETURN_IF_ERROR(
            optimizer->BeginEpoch(0, num_steps[i]).status());
        return group->Leave(absl::OkStatus());
      }();
    });
  }
  for (std::thread& rank : ranks) rank.join();
  return outcomes;
}

TEST_F(DataParallelTest, RanksThatWouldWaitInVainAreToldSoAtOnce) {
  for (const absl::Status& status : BeginEpochs({}, {4, 4}, {9, 9})) {
    EXPECT_TRUE(status.ok()) << status;
  }
  std::array<DistributedStrategy, 2> buckets;
  buckets[1].bucket_bytes = 64;
  std::array<DistributedStrategy, 2> formats;
  formats[1].gradient_format = "float16";
  std::array<DistributedStrategy, 2> accumulations;
  accumulations[1].accumulate_steps = 2;
  for (const auto& outcomes :
       {BeginEpochs(buckets, {4, 4}, {9, 9}),
        BeginEpochs(formats, {4, 4}, {9, 9}),
        BeginEpochs(accumulations, {4, 4}, {9, 9}),
        BeginEpochs({}, {4, 8}, {9, 9}), BeginEpochs({}, {4, 4}, {9, 8})}) {
    for (const absl::Status& status : outcomes) {
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
      EXPECT_THAT(std::string(status.message()),
                  ::testing::HasSubstr("rank 1"));
    }
  }
}

TEST_F(DataParallelTest, AFormatThatIsNoneIsRefusedByName) {
  DistributedStrategy strategy;
  strategy.gradient_format = "int8";
  for (const Outcome& outcome : RunRanks(2, strategy)) {
    EXPECT_EQ(outcome.status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(outcome.status.message()),
                ::testing::HasSubstr("int8"));
  }
}

}  // namespace
}  // namespace oarlock
