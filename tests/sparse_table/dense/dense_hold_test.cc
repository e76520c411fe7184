// Pushes that a dense table holds and applies as one update.

#include <cstdint>
#include <memory>
#include <vector>

#include "base/random.h"
#include "gtest/gtest.h"
#include "sparse_table/dense/dense_table.h"
#include "tests/optim/rule_testing.h"
#include "tests/pserver/service/push_testing.h"

namespace oarlock::sparse_table {
namespace {

constexpr uint32_t kBlock = 37;
constexpr BlockIndex kOnly(0);

v1::TableConfig Config() { return pserver::DenseConfig(kBlock, kBlock, 0.1f); }

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

bool Hold(DenseTable* table, const std::vector<float>& gradient,
          const PushStamp& stamp, uint32_t num_steps = 1) {
  return table->Hold(kOnly, gradient.data(), stamp, num_steps);
}

// The model: the sums, each applied once by a push.
TEST(DenseHoldTest, SumOfWhatIsHeldIsOneUpdateUnderEveryRule) {
  for (const v1::OptimizerConfig& optimizer : optim::OneOfEachRule()) {
    SCOPED_TRACE(optimizer.ShortDebugString());
    v1::TableConfig config = Config();
    *config.mutable_optimizer() = optimizer;
    const auto table = pserver::MakeDense(config);
    const auto model = pserver::MakeDense(config);
    RandomSequence random(7);
    uint64_t sequence = 0;
    for (const uint32_t pushes : {1, 3, 20}) {
      std::vector<float> sum;
      uint32_t steps = 0;
      for (uint32_t i = 0; i < pushes; ++i) {
        const std::vector<float> gradient = RandomGradient(&random);
        const uint32_t num_steps = 1 + i % 3;
        EXPECT_TRUE(
            Hold(table.get(), gradient, Stamp(i % 5, ++sequence), num_steps));
        if (sum.empty()) {
          sum = gradient;
        } else {
          for (size_t f = 0; f < kBlock; ++f) sum[f] += gradient[f];
        }
        steps += num_steps;
        ASSERT_EQ(pserver::BlockOf(*table, kOnly),
                  pserver::BlockOf(*model, kOnly));
      }
      const PushStamp stamp = Stamp(0, sequence);
      model->Push(kOnly, sum.data(), {&stamp, 1}, steps);
      table->ApplyHeld();
      ASSERT_EQ(pserver::BlockOf(*table, kOnly),
                pserver::BlockOf(*model, kOnly))
          << pushes;
      table->ApplyHeld();
      ASSERT_EQ(pserver::BlockOf(*table, kOnly),
                pserver::BlockOf(*model, kOnly))
          << "nothing was held";
    }
  }
}

TEST(DenseHoldTest, HeldPushCountsAsAppliedAndChangesNoVersion) {
  const auto table = pserver::MakeDense(Config());
  const std::vector<float> ones(kBlock, 1);
  std::vector<float> values(kBlock);
  const uint64_t version = table->Pull(kOnly, 0, values.data());
  EXPECT_TRUE(Hold(table.get(), ones, Stamp(0, 1)));
  EXPECT_TRUE(table->HasApplied(kOnly, Stamp(0, 1)));
  EXPECT_FALSE(Hold(table.get(), ones, Stamp(0, 1))) << "it came twice";
  EXPECT_EQ(table->Pull(kOnly, 0, values.data()), version);
  EXPECT_TRUE(Hold(table.get(), ones, Stamp(0, 2)));
  table->ApplyHeld();
  EXPECT_NE(table->Pull(kOnly, 0, values.data()), version);
  EXPECT_EQ(values, std::vector<float>(kBlock, -0.1f * 2));
}

TEST(DenseHoldTest, CutHasWhatWasHeldAtTheFreeze) {
  const auto table = pserver::MakeDense(Config());
  const std::vector<float> ones(kBlock, 1);
  Hold(table.get(), ones, Stamp(0, 1));
  Hold(table.get(), ones, Stamp(0, 2), 4);
  table->Freeze(1);
  // Of the next cut.
  Hold(table.get(), ones, Stamp(0, 3));
  const DenseBlockCut cut = table->SaveBlock(kOnly, /*full=*/true);
  table->Thaw(/*published=*/true);
  EXPECT_EQ(cut.state.steps(), 5u);
  EXPECT_EQ(std::vector<float>(cut.floats.begin(), cut.floats.begin() + kBlock),
            std::vector<float>(kBlock, -0.1f * 2));
  ASSERT_EQ(cut.state.windows_size(), 1);
  EXPECT_EQ(cut.state.windows(0).highest(), 2u);

  const auto restored = pserver::MakeDense(Config());
  ASSERT_TRUE(restored->RestoreBlock(kOnly, cut.state, cut.floats).ok());
  EXPECT_FALSE(Hold(restored.get(), ones, Stamp(0, 2)));
  EXPECT_TRUE(Hold(restored.get(), ones, Stamp(0, 3)));
  restored->ApplyHeld();
  table->ApplyHeld();
  EXPECT_EQ(pserver::BlockOf(*restored, kOnly),
            pserver::BlockOf(*table, kOnly));
}

}  // namespace
}  // namespace oarlock::sparse_table
