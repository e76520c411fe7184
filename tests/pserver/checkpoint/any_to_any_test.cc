// Checkpoints of any number of servers, restored by any other.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/random.h"
#include "tests/pserver/checkpoint/job_servers.h"
#include "tests/storage/checkpoint_testing.h"

namespace oarlock::pserver {
namespace {

using ::testing::IsEmpty;

constexpr uint32_t kNumServers[] = {1, 2, 3, 5};
constexpr uint32_t kDim = 4;
constexpr uint64_t kDenseSize = 70;
constexpr uint32_t kBlockSize = 8;
constexpr uint32_t kNumBlocks = 9;
constexpr TableId kSparse{1};
constexpr TableId kDense{2};
constexpr uint64_t kLastStep = 40;

// A table with statistics, an extended part and a rule with much state, and a
// dense one.
void CreateTables(JobServers& job) {
  v1::TableConfig sparse = SparseConfig(kDim, 0.1f);
  sparse.mutable_optimizer()->mutable_adam();
  sparse.mutable_sparse()->set_accessor(v1::CTR);
  sparse.mutable_sparse()->mutable_initializer()->set_uniform_range(0.1f);
  sparse.mutable_sparse()->set_extended_dim(2);
  sparse.mutable_sparse()->set_extended_threshold(1.5f);
  ASSERT_TRUE(job.Create(sparse).ok());
  v1::TableConfig dense = DenseConfig(kDenseSize, kBlockSize, 0.1f);
  dense.mutable_optimizer()->mutable_adam();
  dense.mutable_optimizer()->set_warmup_steps(30);
  ASSERT_TRUE(job.Create(dense).ok());
}

// The same step of the same job, on however many servers. How many groups and
// blocks had it already.
uint32_t Step(JobServers& job, uint64_t step) {
  DenseGradients dense;
  for (uint32_t b = 0; b < kNumBlocks; ++b) {
    std::vector<float>& gradient = dense[BlockIndex(b)];
    const size_t size =
        std::min<size_t>(kBlockSize, kDenseSize - b * kBlockSize);
    for (size_t i = 0; i < size; ++i) {
      gradient.push_back(RandomNormal(step, b * kBlockSize + i));
    }
  }
  return job.PushSparse(kSparse, step, RandomGradients(step, 50, 300, kDim)) +
         job.PushDense(kDense, step, dense);
}

TEST(AnyToAnyTest, EveryNumberOfServersRestoresWhatAnyOtherSaved) {
  JobServers undisturbed(storage::FreshFolder("any_undisturbed"), 1);
  CreateTables(undisturbed);
  for (uint64_t step = 1; step <= kLastStep + 1; ++step) {
    Step(undisturbed, step);
  }
  ASSERT_TRUE(undisturbed.Save(1).ok());
  for (const uint32_t n : kNumServers) {
    JobServers saved(storage::FreshFolder(absl::StrCat("any_from_", n)), n);
    CreateTables(saved);
    // A base and two deltas.
    uint64_t step = 0;
    for (const uint64_t cut : {1, 2, 3}) {
      // Few rows change after the base.
      const uint64_t end = kLastStep - 3 + cut;
      while (step < end) EXPECT_EQ(Step(saved, ++step), 0u);
      ASSERT_TRUE(saved.Save(cut).ok());
    }
    ASSERT_EQ(step, kLastStep);
    const checkpoint::OpenCheckpoint checkpoint =
        OpenCurrent(saved.directory());
    EXPECT_FALSE(checkpoint.loaded.manifest.servers(0).tables(0).full());
    for (const uint32_t m : kNumServers) {
      SCOPED_TRACE(testing::Message() << n << " to " << m << " servers");
      JobServers restored(
          storage::FreshFolder(absl::StrCat("any_", n, "_to_", m)), m);
      const absl::Status loaded = restored.Load(checkpoint.loaded);
      ASSERT_TRUE(loaded.ok()) << loaded;
      ASSERT_TRUE(restored.Save(4).ok());
      EXPECT_THAT(Differences(saved.directory(), restored.directory()),
                  IsEmpty());
      // What the job remembers of its pushes came along.
      EXPECT_GT(Step(restored, kLastStep), kNumBlocks);
      ASSERT_TRUE(restored.Save(5).ok());
      EXPECT_THAT(Differences(saved.directory(), restored.directory()),
                  IsEmpty());
      // And it goes on as one that never stopped.
      EXPECT_EQ(Step(restored, kLastStep + 1), 0u);
      ASSERT_TRUE(restored.Save(6).ok());
      EXPECT_THAT(Differences(saved.directory(), restored.directory()),
                  testing::Not(IsEmpty()));
      EXPECT_THAT(Differences(undisturbed.directory(), restored.directory()),
                  IsEmpty());
    }
  }
}

TEST(AnyToAnyTest, ParametersAloneForgetThePushes) {
  JobServers saved(storage::FreshFolder("any_parameters"), 3);
  CreateTables(saved);
  for (uint64_t step = 1; step <= kLastStep; ++step) Step(saved, step);
  ASSERT_TRUE(saved.Save(1).ok());
  JobServers restored(storage::FreshFolder("any_parameters_loaded"), 2);
  const absl::Status loaded =
      restored.Load(OpenCurrent(saved.directory()).loaded,
                    /*parameters_only=*/true);
  ASSERT_TRUE(loaded.ok()) << loaded;
  ASSERT_TRUE(restored.Save(1).ok());
  EXPECT_THAT(Differences(saved.directory(), restored.directory()), IsEmpty());
  EXPECT_EQ(Step(restored, kLastStep), 0u);
}

}  // namespace
}  // namespace oarlock::pserver
