// Replicas that stay in the memory of a device, an emulated one: the same
// training as with a replica in the host's memory, without its copies.

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "tests/base/test_folder.h"
#include "tests/fleet/data_parallel/replica_training.h"

namespace oarlock {
namespace {

void ExpectClose(const std::vector<float>& a, const std::vector<float>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_NEAR(a[i], b[i], 1e-4 * (1 + std::fabs(a[i]))) << "number " << i;
  }
}

TEST(DeviceReplicaTest, AloneOnADeviceTrainsAsOnTheCpu) {
  for (const v1::OptimizerConfig& optimizer : {Momentum(), Lars()}) {
    SCOPED_TRACE(optimizer.ShortDebugString());
    const Outcome device = TrainAlone({.optimizer = optimizer});
    const Outcome host =
        TrainAlone({.optimizer = optimizer, .memory = Memory::kHost});
    ASSERT_TRUE(device.status.ok()) << device.status;
    ASSERT_TRUE(host.status.ok()) << host.status;
    ExpectClose(device.parameters, host.parameters);
    ExpectClose(device.statistics, host.statistics);
    EXPECT_NEAR(device.scores.mean_loss(), host.scores.mean_loss(), 1e-4);
    EXPECT_EQ(device.optimizer_state.size(), host.optimizer_state.size());
  }
}

// What differs is where the replica lies alone, so nothing may.
TEST(DeviceReplicaTest, AReplicaOnADeviceHasTheBitsOfOneInTheHostsMemory) {
  for (const uint32_t size : {1, 2}) {
    for (const uint32_t accumulate_steps : {1, 2}) {
      SCOPED_TRACE(testing::Message() << size << " ranks, " << accumulate_steps
                                      << " steps an update, seed " << kSeed);
      TrainingRun run;
      run.strategy.accumulate_steps = accumulate_steps;
      run.strategy.bucket_bytes = 1000;
      run.until = 2;
      const std::vector<Outcome> device =
          TrainTogether(std::vector<TrainingRun>(size, run));
      run.memory = Memory::kHostOfADevice;
      const std::vector<Outcome> host =
          TrainTogether(std::vector<TrainingRun>(size, run));
      for (uint32_t rank = 0; rank < size; ++rank) {
        ExpectSameBits(device[rank], host[rank]);
        EXPECT_EQ(device[rank].parameters, device[0].parameters);
      }
    }
  }
}

TEST(DeviceReplicaTest, AloneNothingButBatchesAndScoresIsCopied) {
  nn::cuda::CopiedBytes copied;
  const Outcome device = TrainAlone({.copied = &copied});
  ASSERT_TRUE(device.status.ok()) << device.status;
  constexpr size_t kRest = kSteps - 1;
  constexpr size_t kBatchBytes = kBatch * (kSide * kSide + sizeof(float));
  constexpr size_t kScoreBytes = kBatch * kClasses * sizeof(float) + 64;
  EXPECT_EQ(copied.in, kRest * kBatchBytes);
  EXPECT_LE(copied.out, kRest * kScoreBytes);
  // Else the bounds would say nothing.
  const size_t replica_bytes = device.parameters.size() * sizeof(float);
  EXPECT_GT(replica_bytes, 10 * kBatchBytes);
  const Outcome host =
      TrainAlone({.memory = Memory::kHostOfADevice, .copied = &copied});
  ASSERT_TRUE(host.status.ok()) << host.status;
  EXPECT_GE(copied.in, kRest * replica_bytes);
  EXPECT_GE(copied.out, kRest * replica_bytes);
}

TEST(DeviceReplicaTest, ACheckpointGoesOnWhereverTheReplicaLies) {
  const TestFolder straight_folder, folder;
  const Outcome straight =
      TrainAlone({.until = 3, .folder = straight_folder.path()});
  TrainingRun part = {.folder = folder.path()};
  Outcome last;
  for (const Memory memory :
       {Memory::kDevice, Memory::kHostOfADevice, Memory::kDevice}) {
    part.memory = memory;
    last = TrainAlone(part);
    ASSERT_TRUE(last.status.ok()) << last.status;
    ++part.until;
  }
  ASSERT_TRUE(straight.status.ok()) << straight.status;
  EXPECT_EQ(last.parameters, straight.parameters);
  EXPECT_EQ(last.statistics, straight.statistics);
  EXPECT_EQ(last.optimizer_state, straight.optimizer_state);
}

TEST(DeviceReplicaTest, RanksMayKeepReplicasInDifferentMemories) {
  const std::vector<Outcome> ranks = TrainTogether(
      {{.memory = Memory::kDevice}, {.memory = Memory::kHostOfADevice}});
  for (const Outcome& rank : ranks) {
    ASSERT_TRUE(rank.status.ok()) << rank.status;
    EXPECT_EQ(rank.parameters, ranks[0].parameters);
    EXPECT_EQ(rank.optimizer_state, ranks[0].optimizer_state);
  }
}

TEST(DeviceReplicaTest, RanksOfARuleThatTakesMeansMayNot) {
  for (const Outcome& rank :
       TrainTogether({{.optimizer = Lars(), .memory = Memory::kDevice},
                      {.optimizer = Lars(), .memory = Memory::kHost}})) {
    EXPECT_EQ(rank.status.code(), absl::StatusCode::kInvalidArgument)
        << rank.status;
    EXPECT_NE(rank.status.message().find("lars"), std::string::npos)
        << rank.status;
  }
}

}  // namespace
}  // namespace oarlock
