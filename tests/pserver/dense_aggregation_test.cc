// Tables that apply several pushes as one update (aggregate_pushes).

#include <cstdint>
#include <memory>
#include <vector>

#include "base/random.h"
#include "gtest/gtest.h"
#include "pserver/async_aggregator.h"
#include "pserver/dense_table.h"
#include "tests/optim/rule_testing.h"
#include "tests/pserver/push_testing.h"

namespace oarlock {
namespace {

constexpr uint32_t kBlock = 37;
constexpr BlockIndex kOnly(0);

v1::TableConfig Config(uint32_t aggregate_pushes) {
  v1::TableConfig config = DenseConfig(kBlock, kBlock, 0.1f);
  config.mutable_dense()->set_aggregate_pushes(aggregate_pushes);
  return config;
}

std::vector<float> RandomGradient(RandomSequence* random) {
  std::vector<float> gradient(kBlock);
  for (float& g : gradient) {
    g = static_cast<float>(2 * random->Uniform() - 1);
  }
  return gradient;
}

PushStamp Stamp(uint32_t worker, uint64_t sequence) {
  return {WorkerIndex(worker), Generation(1), Sequence(sequence)};
}

bool Push(DenseTable* table, const std::vector<float>& gradient,
          const PushStamp& stamp, uint32_t num_steps = 1) {
  return table->Push(kOnly, gradient.data(), {&stamp, 1}, num_steps);
}

// The model: sums of N pushes, each applied once to a table without
// aggregation.
TEST(DenseAggregationTest, SumsOfPushesAreAppliedAsOneUpdateUnderEveryRule) {
  for (const v1::OptimizerConfig& optimizer : OneOfEachRule()) {
    SCOPED_TRACE(optimizer.ShortDebugString());
    constexpr uint32_t kPushes = 3;
    v1::TableConfig config = Config(kPushes);
    *config.mutable_optimizer() = optimizer;
    const auto table = MakeDense(config);
    config.mutable_dense()->clear_aggregate_pushes();
    const auto model = MakeDense(config);
    RandomSequence random(7);
    std::vector<float> sum(kBlock);
    uint32_t steps = 0;
    for (uint64_t push = 1; push <= 4 * kPushes + 1; ++push) {
      const std::vector<float> gradient = RandomGradient(&random);
      const uint32_t num_steps = 1 + push % 3;
      EXPECT_TRUE(Push(table.get(), gradient, Stamp(push % 5, push), num_steps));
      for (size_t i = 0; i < kBlock; ++i) {
        sum[i] = steps == 0 ? gradient[i] : sum[i] + gradient[i];
      }
      steps += num_steps;
      if (push % kPushes == 0) {
        Push(model.get(), sum, Stamp(0, push), steps);
        steps = 0;
      }
      ASSERT_EQ(BlockOf(*table, kOnly), BlockOf(*model, kOnly)) << push;
    }
    // One is held.
    table->ApplyHeld();
    Push(model.get(), sum, Stamp(0, 100), steps);
    EXPECT_EQ(BlockOf(*table, kOnly), BlockOf(*model, kOnly));
    const std::vector<float> values = BlockOf(*table, kOnly);
    table->ApplyHeld();
    EXPECT_EQ(BlockOf(*table, kOnly), values) << "nothing was held";
  }
}

TEST(DenseAggregationTest, HeldPushCountsAsAppliedAndChangesNoVersion) {
  const auto table = MakeDense(Config(2));
  const std::vector<float> ones(kBlock, 1);
  std::vector<float> values(kBlock);
  const uint64_t version = table->Pull(kOnly, 0, values.data());
  EXPECT_TRUE(Push(table.get(), ones, Stamp(0, 1)));
  EXPECT_TRUE(table->HasApplied(kOnly, Stamp(0, 1)));
  EXPECT_EQ(table->Pull(kOnly, 0, values.data()), version);
  EXPECT_FALSE(Push(table.get(), ones, Stamp(0, 1))) << "it came twice";
  EXPECT_EQ(table->Pull(kOnly, 0, values.data()), version)
      << "the second is no other push";
  EXPECT_TRUE(Push(table.get(), ones, Stamp(0, 2)));
  EXPECT_NE(table->Pull(kOnly, 0, values.data()), version);
  EXPECT_EQ(values, std::vector<float>(kBlock, -0.2f));
}

TEST(DenseAggregationTest, CutHasWhatWasHeldAtTheFreeze) {
  const auto table = MakeDense(Config(10));
  const std::vector<float> ones(kBlock, 1);
  Push(table.get(), ones, Stamp(0, 1));
  Push(table.get(), ones, Stamp(0, 2), 4);
  table->Freeze(1);
  // Of the next cut.
  Push(table.get(), ones, Stamp(0, 3));
  const DenseBlockCut cut = table->SaveBlock(kOnly, /*full=*/true);
  table->Thaw(/*published=*/true);
  EXPECT_EQ(cut.state.steps(), 5u);
  EXPECT_EQ(std::vector<float>(cut.floats.begin(), cut.floats.begin() + kBlock),
            std::vector<float>(kBlock, -0.2f));
  ASSERT_EQ(cut.state.windows_size(), 1);
  EXPECT_EQ(cut.state.windows(0).highest(), 2u);

  const auto restored = MakeDense(Config(10));
  ASSERT_TRUE(restored->RestoreBlock(kOnly, cut.state, cut.floats).ok());
  EXPECT_FALSE(Push(restored.get(), ones, Stamp(0, 2)));
  EXPECT_TRUE(Push(restored.get(), ones, Stamp(0, 3)));
  restored->ApplyHeld();
  table->ApplyHeld();
  EXPECT_EQ(BlockOf(*restored, kOnly), BlockOf(*table, kOnly));
}

TEST(DenseAggregationTest, PushWithoutBlocksAppliesWhatIsHeld) {
  const auto table = MakeDense(Config(100));
  AsyncAggregator aggregator(table.get());
  const auto push = [&](PushDenseRequestView view) {
    aggregator.PushDense(std::move(view), [](absl::StatusOr<PushOutcome> o) {
      EXPECT_TRUE(o.ok());
    });
  };
  push(DensePushOf(PushHeader(0, 1, 1), {{kOnly, std::vector<float>(kBlock, 1)}}));
  EXPECT_EQ(BlockOf(*table, kOnly), std::vector<float>(kBlock, 0));
  PushDenseRequestView apply = DensePushOf(PushHeader(0, 1, 2), {});
  apply.apply_held = true;
  push(std::move(apply));
  EXPECT_EQ(BlockOf(*table, kOnly), std::vector<float>(kBlock, -0.1f));
}

}  // namespace
}  // namespace oarlock
