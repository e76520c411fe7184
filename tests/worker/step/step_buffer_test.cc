#include "worker/step/step_buffer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "base/clock.h"

namespace oarlock::worker {
namespace {

// Answers pulls with each row's key in every float, each on a thread of its own
// and after kPullTime.
class EchoClient : public client::ParameterClient {
 public:
  static constexpr absl::Duration kPullTime = absl::Milliseconds(3);

  ~EchoClient() override {
    for (std::thread& thread : threads_) thread.join();
  }
  absl::Status CreateTable(const v1::TableConfig&) override {
    return absl::OkStatus();
  }
  void SetCutObserver(CutObserver /*observer*/) override {}
  int partition_bits() const override { return 3; }
  void PullSparse(TableId table, const client::KeyBatch& keys, float* rows,
                  client::TableVersions* versions,
                  std::shared_ptr<const void> memory, Done done) override {
    threads_.emplace_back([=, this, &keys, done = std::move(done)]() mutable {
      clock.Advance(kPullTime);
      if (table == failing) {
        done(absl::UnavailableError("away"));
        return;
      }
      const size_t dim = table.value();
      for (size_t i = 0; i < keys.keys().size(); ++i) {
        std::fill(rows + i * dim, rows + (i + 1) * dim,
                  static_cast<float>(keys.keys()[i]));
      }
      *versions = {table.value()};
      done(absl::OkStatus());
    });
  }
  void PullDense(TableId, client::DenseReplica*, std::shared_ptr<const void>,
                 Done done) override {
    done(absl::OkStatus());
  }
  void Push(const client::PushRequest&, client::TableVersions*,
            std::shared_ptr<const void>, Done done) override {
    done(absl::OkStatus());
  }

  FakeClock clock;
  TableId failing{0};

 private:
  std::vector<std::thread> threads_;
};

// Three slots; one input sees all of them, the other the last and the first.
models::ModelSpec TwoInputs() {
  models::ModelSpec spec;
  spec.num_slots = 3;
  spec.sparse_inputs.resize(2);
  spec.sparse_inputs[0].row_dim = 1;
  spec.sparse_inputs[0].slots = {0, 1, 2};
  spec.sparse_inputs[1].row_dim = 2;
  spec.sparse_inputs[1].slots = {0, 2};
  return spec;
}

// The value that the model sees for each key of an input, first float.
std::vector<float> Seen(const nn::StepInput& input, size_t index, size_t dim) {
  std::vector<float> values;
  for (const uint32_t row : input.sparse[index].row_of_key) {
    values.push_back(input.sparse[index].rows[row * dim]);
  }
  return values;
}

TEST(StepBufferTest, InputsSeeTheRowsOfTheirSlots) {
  const models::ModelSpec spec = TwoInputs();
  EchoClient client;
  auto step = std::make_shared<StepBuffer>(&spec, client.clock);
  step->batch.num_examples = 2;
  step->batch.labels = {0, 1};
  for (uint64_t key : {5, 6, 7, 5, 9, 5}) step->batch.keys.push_back(Key{key});
  step->BuildKeys(client.partition_bits());
  step->StartPull(&client, {TableId(1), TableId(2)}, step);
  ASSERT_TRUE(step->WaitForPull().ok());
  const nn::StepInput input = step->ModelInput(nullptr, .5f);
  EXPECT_EQ(input.num_examples, 2u);
  EXPECT_EQ(input.gradient_scale, .5f);
  EXPECT_EQ(Seen(input, 0, 1), (std::vector<float>{5, 6, 7, 5, 9, 5}));
  EXPECT_EQ(Seen(input, 1, 2), (std::vector<float>{5, 7, 5, 5}));
  // One row a key, room for a gradient each.
  EXPECT_EQ(input.sparse[0].num_rows, 4u);
  EXPECT_EQ(input.sparse[1].num_rows, 2u);
  EXPECT_EQ(step->inputs[1].gradients.size(), 4u);
  EXPECT_EQ(step->inputs[0].pulled_versions, client::TableVersions{1});
  EXPECT_EQ(step->inputs[1].pulled_versions, client::TableVersions{2});
  // The last response may overtake the one before it.
  EXPECT_GE(step->pull_time, EchoClient::kPullTime);
  EXPECT_LE(step->pull_time, 2 * EchoClient::kPullTime);
}

TEST(StepBufferTest, SlotsOfSeveralKeysKeepTheirOffsets) {
  const models::ModelSpec spec = TwoInputs();
  EchoClient client;
  auto step = std::make_shared<StepBuffer>(&spec, client.clock);
  step->batch.num_examples = 2;
  step->batch.labels = {0, 1};
  // Slots {1,2} {3} {}; {} {4} {5,6,7}.
  for (uint64_t key : {1, 2, 3, 4, 5, 6, 7}) {
    step->batch.keys.push_back(Key{key});
  }
  step->batch.offsets = {0, 2, 3, 3, 3, 4, 7};
  step->BuildKeys(client.partition_bits());
  step->StartPull(&client, {TableId(1), TableId(2)}, step);
  ASSERT_TRUE(step->WaitForPull().ok());
  const nn::StepInput input = step->ModelInput(nullptr, 1);
  EXPECT_EQ(Seen(input, 0, 1), (std::vector<float>{1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(Seen(input, 1, 2), (std::vector<float>{1, 2, 5, 6, 7}));
  EXPECT_EQ(std::vector<uint32_t>(input.sparse[0].offsets.begin(),
                                  input.sparse[0].offsets.end()),
            step->batch.offsets);
  EXPECT_EQ(std::vector<uint32_t>(input.sparse[1].offsets.begin(),
                                  input.sparse[1].offsets.end()),
            (std::vector<uint32_t>{0, 2, 2, 2, 5}));
}

TEST(StepBufferTest, WhatNormsLearnLiesUnderFixedKeys) {
  models::ModelSpec spec = TwoInputs();
  spec.sparse_inputs[1].slots.clear();
  spec.sparse_inputs[1].num_fixed_keys = 3;
  EchoClient client;
  auto step = std::make_shared<StepBuffer>(&spec, client.clock);
  step->batch.num_examples = 1;
  step->batch.labels = {1};
  for (uint64_t key : {5, 6, 7}) step->batch.keys.push_back(Key{key});
  step->BuildKeys(client.partition_bits());
  step->CountStatistics();
  step->StartPull(&client, {TableId(1), TableId(2)}, step);
  ASSERT_TRUE(step->WaitForPull().ok());
  const nn::StepInput input = step->ModelInput(nullptr, 1);
  EXPECT_EQ(Seen(input, 1, 2), (std::vector<float>{0, 1, 2}));
  client::PushRequest push;
  step->AddGradientsTo(&push, {TableId(1), TableId(2)}, /*statistics=*/true);
  ASSERT_EQ(push.sparse.size(), 2u);
  EXPECT_NE(push.sparse[0].shows, nullptr);
  // No key of an example: nobody saw or clicked it.
  EXPECT_EQ(push.sparse[1].shows, nullptr);
}

// As libsvm has them: one slot whose keys have values.
TEST(StepBufferTest, WeightsAreThoseOfFeaturesAndNotOfWhatNormsLearn) {
  models::ModelSpec spec = TwoInputs();
  spec.num_slots = 1;
  spec.sparse_inputs[0].slots = {0};
  spec.sparse_inputs[1].slots.clear();
  spec.sparse_inputs[1].num_fixed_keys = 3;
  EchoClient client;
  auto step = std::make_shared<StepBuffer>(&spec, client.clock);
  step->batch.num_examples = 1;
  step->batch.labels = {1};
  for (uint64_t key : {5, 6}) step->batch.keys.push_back(Key{key});
  step->batch.offsets = {0, 2};
  step->batch.weights = {.5f, 2};
  step->BuildKeys(client.partition_bits());
  step->StartPull(&client, {TableId(1), TableId(2)}, step);
  ASSERT_TRUE(step->WaitForPull().ok());
  const nn::StepInput input = step->ModelInput(nullptr, 1);
  EXPECT_EQ(input.sparse[0].weights.size(), 2u);
  EXPECT_TRUE(input.sparse[1].weights.empty());
  EXPECT_TRUE(input.sparse[1].offsets.empty());
}

TEST(StepBufferTest, SeedIsThatOfTheExamplesAndTheEpoch) {
  const models::ModelSpec spec = TwoInputs();
  const FakeClock clock;
  const auto seed = [&](uint64_t job, uint32_t epoch, uint64_t begin) {
    StepBuffer step(&spec, clock);
    step.batch.ranges = {{1, begin, begin + 5}};
    step.SeedFor(job, epoch);
    return step.ModelInput(nullptr, 1).random_seed;
  };
  EXPECT_EQ(seed(1, 0, 10), seed(1, 0, 10));
  EXPECT_NE(seed(1, 0, 10), seed(2, 0, 10));
  EXPECT_NE(seed(1, 0, 10), seed(1, 1, 10));
  EXPECT_NE(seed(1, 0, 10), seed(1, 0, 15));
}

TEST(StepBufferTest, StatisticsAreThoseOfEachInputsSlots) {
  const models::ModelSpec spec = TwoInputs();
  const FakeClock clock;
  StepBuffer step(&spec, clock);
  step.batch.num_examples = 3;
  step.batch.labels = {0, 1, 1};
  // Slots {1} {2,2} {1}; {} {1} {}; {3} {} {3,1}.
  for (uint64_t key : {1, 2, 2, 1, 1, 3, 3, 1}) {
    step.batch.keys.push_back(Key{key});
  }
  step.batch.offsets = {0, 1, 3, 4, 4, 5, 5, 6, 6, 8};
  step.BuildKeys(/*partition_bits=*/3);
  step.CountStatistics();
  const auto of = [&](size_t input, uint64_t key) {
    const std::vector<Key>& keys = step.inputs[input].keys.keys();
    const size_t i =
        std::find(keys.begin(), keys.end(), Key{key}) - keys.begin();
    const KeyStatistics& statistics = step.inputs[input].statistics;
    return std::pair(statistics.shows().at(i), statistics.clicks().at(i));
  };
  EXPECT_EQ(of(0, 1), std::pair(3.f, 2.f));
  EXPECT_EQ(of(0, 2), std::pair(1.f, 0.f));
  EXPECT_EQ(of(0, 3), std::pair(1.f, 1.f));
  // The second slot is not this input's.
  EXPECT_EQ(of(1, 1), std::pair(2.f, 1.f));
  EXPECT_EQ(of(1, 3), std::pair(1.f, 1.f));
}

TEST(StepBufferTest, FailureOfAnyInputIsTheStepsAndTheNextPullIsFresh) {
  const models::ModelSpec spec = TwoInputs();
  EchoClient client;
  auto step = std::make_shared<StepBuffer>(&spec, client.clock);
  step->batch.num_examples = 1;
  step->batch.labels = {1};
  for (uint64_t key : {1, 2, 3}) step->batch.keys.push_back(Key{key});
  step->BuildKeys(client.partition_bits());
  client.failing = TableId(2);
  step->StartPull(&client, {TableId(1), TableId(2)}, step);
  EXPECT_EQ(step->WaitForPull(), absl::UnavailableError("away"));
  client.failing = TableId(0);
  step->StartPull(&client, {TableId(1), TableId(2)}, step);
  EXPECT_TRUE(step->WaitForPull().ok());
}

}  // namespace
}  // namespace oarlock::worker
