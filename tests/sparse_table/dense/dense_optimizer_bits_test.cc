// A job means the same with parameter servers and without: the optimizer of
// local parameters against the servers' dense tables, bit by bit.

#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "base/push_stamp.h"
#include "base/random.h"
#include "cluster/partition_map.h"
#include "optim/dense_optimizer.h"
#include "sparse_table/dense/dense_table.h"
#include "tests/optim/rule_testing.h"

namespace oarlock::sparse_table {
namespace {

constexpr uint64_t kSeed = 7;
constexpr size_t kSize = 1500;
constexpr size_t kBlockSize = 400;
constexpr int kNumSteps = 12;

// What a server with the whole vector has after pushing each of `gradients`
// once; it begins with zeros.
std::vector<float> ByServer(const v1::OptimizerConfig& optimizer,
                            const std::vector<std::vector<float>>& gradients) {
  v1::TableConfig config;
  config.set_id(1);
  *config.mutable_optimizer() = optimizer;
  config.mutable_dense()->set_size(kSize);
  config.mutable_dense()->set_block_size(kBlockSize);
  const cluster::PartitionMap map =
      cluster::PartitionMap::Even(/*num_partitions=*/4, /*num_servers=*/1);
  auto table = DenseTable::Create(config, map, ServerIndex(0));
  EXPECT_TRUE(table.ok()) << table.status();
  std::vector<float> values(kSize);
  for (uint64_t step = 1; step <= gradients.size(); ++step) {
    const PushStamp stamp = {.worker = WorkerIndex(0),
                             .generation = Generation(1),
                             .sequence = Sequence(step)};
    for (uint32_t b = 0; b < (*table)->num_blocks(); ++b) {
      (*table)->Push(BlockIndex(b), gradients[step - 1].data() + b * kBlockSize,
                     {&stamp, 1});
    }
  }
  for (uint32_t b = 0; b < (*table)->num_blocks(); ++b) {
    (*table)->Pull(BlockIndex(b), 0, values.data() + b * kBlockSize);
  }
  return values;
}

std::vector<float> Locally(const v1::OptimizerConfig& config,
                           const std::vector<optim::ParameterBlock>& blocks,
                           const std::vector<std::vector<float>>& gradients) {
  absl::StatusOr<optim::DenseOptimizer> optimizer =
      optim::DenseOptimizer::Create(config, blocks);
  EXPECT_TRUE(optimizer.ok()) << optimizer.status();
  std::vector<float> values(kSize);
  for (const std::vector<float>& g : gradients) {
    optimizer->Step(values.data(), g.data());
  }
  return values;
}

bool SharesState(const v1::OptimizerConfig& config) {
  return config.has_shared_adagrad() || config.has_shared_adam() ||
         config.has_paddle_adagrad() || config.has_paddle_adagrad_v2() ||
         config.has_paddle_shared_adam() || config.has_lars();
}

TEST(DenseOptimizerBitsTest, EveryRuleGivesTheBitsOfTheServersTable) {
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  RandomSequence random(kSeed);
  std::vector<std::vector<float>> gradients;
  for (int i = 0; i < kNumSteps; ++i) {
    gradients.push_back(optim::RandomGradients(&random, kSize));
  }
  const std::vector<optim::ParameterBlock> parameters = {
      {.size = 801}, {.size = 9}, {.size = 690}};
  const std::vector<optim::ParameterBlock> servers_blocks = {
      {.size = 400}, {.size = 400}, {.size = 400}, {.size = 300}};
  int num_elementwise = 0;
  for (v1::OptimizerConfig config : optim::OneOfEachRule()) {
    for (const bool with_options : {false, true}) {
      if (with_options) {
        config.set_warmup_steps(4);
        config.mutable_schedule()->mutable_step()->set_steps(5);
        config.mutable_schedule()->mutable_step()->set_rate(0.5f);
        config.mutable_weight_bounds()->set_lower(-1);
        config.mutable_weight_bounds()->set_upper(1);
      }
      SCOPED_TRACE(config.ShortDebugString());
      const std::vector<float> expected = ByServer(config, gradients);
      EXPECT_EQ(Locally(config, servers_blocks, gradients), expected);
      // What weights share depends on who shares it.
      if (SharesState(config)) continue;
      ++num_elementwise;
      EXPECT_EQ(Locally(config, parameters, gradients), expected);
    }
  }
  EXPECT_GE(num_elementwise, 20);
}

}  // namespace
}  // namespace oarlock::sparse_table
