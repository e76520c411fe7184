#include "worker/config/push_size.h"

#include <gtest/gtest.h>

namespace oarlock::worker {
namespace {

models::ModelSpec SpecOf(size_t row_dim, int num_slots) {
  models::ModelSpec spec;
  models::SparseInputSpec& input = spec.sparse_inputs.emplace_back();
  input.table = "embedding";
  input.row_dim = row_dim;
  for (int i = 0; i < num_slots; ++i) input.slots.push_back(i);
  return spec;
}

TEST(PushSizeTest, APartitionsPartFitsIntoAMessage) {
  v1::JobConfig config;
  config.set_sparse_feature_dim(0);
  config.set_num_partitions(1);
  // Rows of 2 floats take 16 bytes: 40 MiB of them.
  constexpr int kRows = (40 << 20) / 16;
  const models::ModelSpec spec = SpecOf(2, 1);
  for (const int more : {-1, 0}) {
    config.set_batch_size(kRows + more);
    EXPECT_TRUE(CheckPushSize(spec, config).ok()) << more;
  }
  config.set_batch_size(kRows + 1);
  EXPECT_EQ(CheckPushSize(spec, config).message(),
            "--num_partitions is 1, and a push to table 'embedding' may have "
            "40 MB of rows, 40 MB of a partition at most; give "
            "--num_partitions 2, or lower --batch_size");
  config.set_num_partitions(2);
  EXPECT_TRUE(CheckPushSize(spec, config).ok());
}

TEST(PushSizeTest, CountsWhatIsPushedTogether) {
  v1::JobConfig config;
  config.set_sparse_feature_dim(0);
  config.set_num_partitions(1);
  config.set_batch_size(1 << 20);
  config.set_thread_num(3);
  const models::ModelSpec spec = SpecOf(2, 1);
  EXPECT_TRUE(CheckPushSize(spec, config).ok()) << "each thread by itself";
  config.set_mode("sync");
  EXPECT_FALSE(CheckPushSize(spec, config).ok());
  // There are no more keys.
  config.set_sparse_feature_dim(1 << 20);
  EXPECT_TRUE(CheckPushSize(spec, config).ok());
  config.set_sparse_feature_dim(0);
  config.set_mode("geo");
  config.set_thread_num(1);
  config.set_geo_steps(10);
  EXPECT_FALSE(CheckPushSize(spec, config).ok());
  config.set_geo_rows_max(1 << 20);
  EXPECT_TRUE(CheckPushSize(spec, config).ok());
}

TEST(PushSizeTest, LargeSizesFitTheDefault) {
  v1::JobConfig config;
  config.set_batch_size(65536);
  EXPECT_TRUE(CheckPushSize(SpecOf(1025, 26), config).ok());
}

}  // namespace
}  // namespace oarlock::worker
