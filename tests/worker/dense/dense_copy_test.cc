#include "worker/dense/dense_copy.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <vector>

#include "base/dense_version.h"
#include "base/random.h"

namespace oarlock::worker {
namespace {

constexpr TableId kTable(3);
constexpr size_t kSize = 37;
constexpr float kLearningRate = .1f;

optim::UpdateRule Adagrad(uint32_t warmup_steps = 0) {
  v1::OptimizerConfig config;
  config.set_learning_rate(kLearningRate);
  config.set_warmup_steps(warmup_steps);
  config.mutable_adagrad();
  return *optim::UpdateRule::Create(config);
}

client::DenseReplica Zeros() {
  client::DenseReplica replica;
  replica.values.assign(kSize, 0);
  replica.block_versions = {1};
  return replica;
}

std::vector<float> RandomGradients(RandomSequence* random) {
  std::vector<float> gradients(kSize);
  for (float& g : gradients) g = static_cast<float>(random->Uniform() - .5);
  return gradients;
}

// A step whose model computes `gradients`.
void Step(DenseCopy* copy, const std::vector<float>& gradients,
          const std::vector<data::ExampleRange>& examples = {}) {
  const bool add = copy->add_gradients();
  float* const to = copy->gradients();
  for (size_t i = 0; i < kSize; ++i) {
    to[i] = add ? to[i] + gradients[i] : gradients[i];
  }
  copy->StepDone(examples);
}

std::vector<float> Values(const DenseCopy& copy) {
  return {copy.values(), copy.values() + kSize};
}

TEST(DefaultDenseIntervalTest, ShrinksWithTheBatchAndTheSquareOfTheCopies) {
  EXPECT_EQ(DefaultDenseInterval(1, 512, 0), 4u);
  EXPECT_EQ(DefaultDenseInterval(2, 512, 0), 4u);
  EXPECT_EQ(DefaultDenseInterval(2, 100, 0), 20u);
  EXPECT_EQ(DefaultDenseInterval(4, 100, 0), 5u);
  EXPECT_EQ(DefaultDenseInterval(8, 100, 0), 1u);
  EXPECT_EQ(DefaultDenseInterval(2, 1 << 20, 0), 1u);
  // As many workers as a job may have: the square has 33 bits.
  EXPECT_EQ(DefaultDenseInterval(65536, 1, 0), 1u);
  // Of few steps none is without its exchange.
  EXPECT_EQ(DefaultDenseInterval(1, 512, 58), 1u);
  EXPECT_EQ(DefaultDenseInterval(1, 512, 199), 1u);
  EXPECT_EQ(DefaultDenseInterval(1, 512, 200), 2u);
  EXPECT_EQ(DefaultDenseInterval(1, 512, 400), 4u);
  EXPECT_EQ(DefaultDenseInterval(1, 512, 1 << 30), 4u);
}

TEST(DenseCopyTest, ExchangeCarriesTheSumOfTheStepsSinceTheLastOne) {
  RandomSequence random(1);
  for (const uint32_t interval : {1, 2, 3, 5}) {
    DenseCopy copy(Adagrad(), Zeros(), interval);
    for (int exchange = 0; exchange < 3; ++exchange) {
      std::vector<float> sum(kSize);
      for (uint32_t i = 0; i < interval; ++i) {
        EXPECT_FALSE(copy.ExchangeIsDue());
        const std::vector<float> gradients = RandomGradients(&random);
        for (size_t j = 0; j < kSize; ++j) sum[j] += gradients[j];
        Step(&copy, gradients);
      }
      ASSERT_TRUE(copy.ExchangeIsDue());
      const DenseCopy::Exchange taken = copy.TakeExchange(kTable);
      EXPECT_EQ(taken.gradients.table, kTable);
      EXPECT_EQ(taken.gradients.num_steps, interval);
      for (size_t j = 0; j < kSize; ++j) {
        ASSERT_FLOAT_EQ(taken.gradients.gradients[j], sum[j]);
      }
      EXPECT_FALSE(copy.HasGradients());
    }
  }
}

// A loss that is nan is seen when its gradients have been written.
TEST(DenseCopyTest, StepThatFailedLeavesNothingToPush) {
  for (const uint32_t interval : {1, 2, 3}) {
    for (uint32_t steps_before = 0; steps_before < interval; ++steps_before) {
      DenseCopy copy(Adagrad(), Zeros(), interval);
      for (uint32_t i = 0; i < steps_before; ++i) {
        Step(&copy, std::vector<float>(kSize, 1), {{0, i, i + 1}});
      }
      const bool add = copy.add_gradients();
      float* const gradients = copy.gradients();
      for (size_t i = 0; i < kSize; ++i) {
        gradients[i] = (add ? gradients[i] : 0) + NAN;
      }
      copy.StepFailed();
      EXPECT_FALSE(copy.HasGradients());
      copy.set_cut(1);
      for (uint32_t i = 0; i < interval; ++i) {
        Step(&copy, std::vector<float>(kSize, 1), {{0, 100 + i, 101 + i}});
      }
      ASSERT_TRUE(copy.ExchangeIsDue());
      const DenseCopy::Exchange taken = copy.TakeExchange(kTable);
      EXPECT_EQ(taken.gradients.gradients[0], interval);
      ASSERT_EQ(taken.examples.size(), 1u);
      EXPECT_EQ(taken.examples[0].begin, 100u);
    }
  }
}

TEST(DenseCopyTest, StepsInBetweenAreAppliedByTheTablesRule) {
  RandomSequence random(2);
  DenseCopy copy(Adagrad(), Zeros(), 4);
  std::vector<float> w(kSize), accumulator(kSize);
  for (int step = 0; step < 3; ++step) {
    const std::vector<float> gradients = RandomGradients(&random);
    Step(&copy, gradients);
    for (size_t i = 0; i < kSize; ++i) {
      accumulator[i] += gradients[i] * gradients[i];
      w[i] -= kLearningRate * gradients[i] / std::sqrt(accumulator[i]);
      ASSERT_NEAR(copy.values()[i], w[i], 1e-6f);
    }
  }
  // The last step's gradients leave with the exchange.
  Step(&copy, RandomGradients(&random));
  EXPECT_NEAR(copy.values()[0], w[0], 1e-6f);
}

TEST(DenseCopyTest, PushedParametersReplaceItsOwn) {
  DenseCopy copy(Adagrad(), Zeros(), 2);
  Step(&copy, std::vector<float>(kSize, 1));
  EXPECT_LT(copy.values()[0], 0);
  Step(&copy, std::vector<float>(kSize, 1));
  const DenseCopy::Exchange exchange = copy.TakeExchange(kTable);
  ASSERT_NE(exchange.gradients.updated, nullptr);
  exchange.gradients.updated->values.assign(kSize, 8);
  EXPECT_EQ(Values(copy), std::vector<float>(kSize, 8));
}

TEST(DenseCopyTest, WarmupGoesOnFromWhatTheServersHaveSeen) {
  client::DenseReplica fresh = Zeros();
  client::DenseReplica old = Zeros();
  // Of an incarnation of these days.
  old.block_versions = {FirstDenseVersion(Generation(1795303989600)) + 50};
  DenseCopy first(Adagrad(/*warmup_steps=*/100), fresh, 2);
  DenseCopy later(Adagrad(/*warmup_steps=*/100), old, 2);
  Step(&first, std::vector<float>(kSize, 1));
  Step(&later, std::vector<float>(kSize, 1));
  // The first step of adagrad is as long as the learning rate.
  EXPECT_NEAR(first.values()[0], -kLearningRate / 100, 1e-6f);
  EXPECT_NEAR(later.values()[0], -kLearningRate, 1e-6f);
}

TEST(DenseCopyTest, SentGradientsStayAsTheyAreWhileAnybodyHoldsThem) {
  DenseCopy copy(Adagrad(), Zeros(), 1);
  Step(&copy, std::vector<float>(kSize, 1));
  const DenseCopy::Exchange held = copy.TakeExchange(kTable);
  for (int i = 0; i < 3; ++i) {
    Step(&copy, std::vector<float>(kSize, 2));
    EXPECT_EQ(copy.TakeExchange(kTable).gradients.gradients[0], 2);
    EXPECT_EQ(held.gradients.gradients[0], 1);
  }
}

TEST(DenseCopyTest, ModelWithoutDenseParametersIsNoSpecialCase) {
  DenseCopy copy(Adagrad(), client::DenseReplica(), 2);
  for (int i = 0; i < 5; ++i) {
    copy.gradients();
    copy.StepDone({{{0, 7, 8}}});
  }
  EXPECT_TRUE(copy.ExchangeIsDue());
  EXPECT_TRUE(copy.TakeExchange(TableId(0)).examples.empty());
}

TEST(DenseCopyTest, ExchangeNamesTheExamplesOfItsSteps) {
  DenseCopy copy(Adagrad(), Zeros(), 3);
  const std::vector<float> gradients(kSize, 1);
  const auto named = [&] {
    std::vector<std::vector<uint64_t>> ranges;
    for (const data::ExampleRange& range : copy.TakeExchange(kTable).examples) {
      ranges.push_back({range.source, range.begin, range.end});
    }
    return ranges;
  };
  using Ranges = std::vector<std::vector<uint64_t>>;
  Step(&copy, gradients, {{0, 90, 100}, {1, 0, 10}});
  Step(&copy, gradients, {{1, 10, 30}});
  Step(&copy, gradients, {{0, 100, 110}});
  EXPECT_EQ(named(), (Ranges{{0, 90, 100}, {1, 0, 30}, {0, 100, 110}}));
  // An exchange before its time has those so far, and the next one begins anew.
  Step(&copy, gradients, {{0, 110, 120}});
  EXPECT_EQ(named(), (Ranges{{0, 110, 120}}));
  Step(&copy, gradients, {{0, 120, 130}});
  EXPECT_EQ(named(), (Ranges{{0, 120, 130}}));
}

}  // namespace
}  // namespace oarlock::worker
