// Rounds of dense blocks: the same promises.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/random.h"
#include "pserver/aggregator/sync_aggregator.h"
#include "tests/pserver/service/push_testing.h"

namespace oarlock::pserver {
namespace {

constexpr float kLearningRate = 0.37f;

// The vector after ten rounds of three workers.
std::vector<float> RunDense(uint32_t num_servers, uint64_t order_seed,
                            v1::GradientReduction reduction) {
  constexpr uint32_t kBlocks = 9;
  const v1::TableConfig config =
      DenseConfig(8 * kBlocks - 3, 8, kLearningRate, v1::SYNC, reduction);
  std::vector<std::unique_ptr<sparse_table::DenseTable>> tables;
  std::vector<std::unique_ptr<SyncAggregator>> aggregators;
  for (uint32_t s = 0; s < num_servers; ++s) {
    tables.push_back(MakeDense(config, num_servers, s));
    aggregators.push_back(std::make_unique<SyncAggregator>(tables[s].get()));
    for (uint32_t w = 0; w < 3; ++w) {
      aggregators[s]->SetRoundMember(WorkerIndex(w), Generation(1), true);
    }
  }
  RandomSequence order(order_seed);
  size_t num_responses = 0;
  for (uint64_t round = 1; round <= 10; ++round) {
    std::vector<std::pair<uint32_t, uint32_t>> calls;  // worker, server
    for (uint32_t w = 0; w < 3; ++w) {
      for (uint32_t s = 0; s < num_servers; ++s) calls.push_back({w, s});
    }
    std::shuffle(calls.begin(), calls.end(), order);
    for (const auto& [w, s] : calls) {
      DenseGradients gradients;
      for (uint32_t b = 0; b < kBlocks; ++b) {
        const BlockIndex block(b);
        // Worker 1 leaves some blocks out.
        if (!tables[s]->Owns(block) || (w == 1 && b % 3 == 0)) continue;
        for (size_t i = 0; i < tables[s]->BlockSize(block); ++i) {
          gradients[block].push_back(
              RandomUniform(DeriveSeed(round, w), b * 100 + i) - 0.5f);
        }
      }
      aggregators[s]->PushDense(
          DensePushOf(PushHeader(w, 1, round, round), gradients),
          [&](absl::StatusOr<PushOutcome> outcome) {
            num_responses += outcome.ok();
          });
    }
  }
  EXPECT_EQ(num_responses, 10u * 3 * num_servers);
  std::vector<float> vector;
  for (uint32_t b = 0; b < kBlocks; ++b) {
    for (const auto& table : tables) {
      if (!table->Owns(BlockIndex(b))) continue;
      const auto values = BlockOf(*table, BlockIndex(b));
      vector.insert(vector.end(), values.begin(), values.end());
    }
  }
  return vector;
}

TEST(SyncAggregatorDenseTest, BlocksDependNeitherOnOrderNorOnServers) {
  const std::vector<float> one = RunDense(1, 1, v1::MEAN);
  for (uint64_t seed = 2; seed < 10; ++seed) {
    EXPECT_EQ(RunDense(1, seed, v1::MEAN), one) << "seed " << seed;
    EXPECT_EQ(RunDense(3, seed, v1::MEAN), one) << "seed " << seed;
  }
}

TEST(SyncAggregatorDenseTest, BlocksFollowANaiveLoop) {
  for (const v1::GradientReduction reduction : {v1::SUM, v1::MEAN}) {
    std::vector<float> expected;
    for (uint32_t b = 0; b < 9; ++b) {
      for (uint32_t i = 0; i < (b == 8 ? 5u : 8u); ++i) {
        float value = 0;
        for (uint64_t round = 1; round <= 10; ++round) {
          float sum = 0;
          for (uint32_t w = 0; w < 3; ++w) {
            if (w == 1 && b % 3 == 0) continue;
            sum += RandomUniform(DeriveSeed(round, w), b * 100 + i) - 0.5f;
          }
          if (reduction == v1::MEAN) sum /= 3;
          value -= kLearningRate * sum;
        }
        expected.push_back(value);
      }
    }
    EXPECT_EQ(RunDense(2, 1, reduction), expected);
  }
}

TEST(SyncAggregatorDenseTest, LateRetryOfBlocksIsADuplicate) {
  const auto table = MakeDense(DenseConfig(4, 2, -1, v1::SYNC, v1::SUM));
  SyncAggregator aggregator(table.get());
  aggregator.SetRoundMember(WorkerIndex(0), Generation(1), true);
  for (int i = 0; i < 2; ++i) {
    bool answered = false;
    aggregator.PushDense(
        DensePushOf(PushHeader(0, 1, 1, 1), {{BlockIndex(1), {2, 3}}}),
        [&](absl::StatusOr<PushOutcome> outcome) {
          answered =
              outcome.ok() && outcome->duplicate_groups == (i == 0 ? 0u : 1u);
        });
    EXPECT_TRUE(answered);
  }
  EXPECT_EQ(BlockOf(*table, BlockIndex(1)), (std::vector<float>{2, 3}));
}

}  // namespace
}  // namespace oarlock::pserver
