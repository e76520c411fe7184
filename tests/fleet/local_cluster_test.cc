#include "fleet/local_cluster.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "base/random.h"
#include "tests/client/blocking_calls.h"

namespace oarlock {
namespace {

constexpr TableId kTable(4);

v1::TableConfig SgdTable(uint32_t dim) {
  v1::TableConfig table;
  table.set_id(kTable.value());
  table.set_name("embedding");
  table.set_mode(v1::ASYNC);
  table.set_reduction(v1::SUM);
  table.mutable_optimizer()->set_learning_rate(.5f);
  table.mutable_optimizer()->mutable_sgd();
  table.mutable_sparse()->set_dim(dim);
  table.mutable_sparse()->set_accessor(v1::PLAIN);
  table.mutable_sparse()->mutable_initializer()->set_constant(3);
  return table;
}

client::RowBatch Gradients(const LocalParameterClient& client,
                           const std::vector<Key>& keys, float value,
                           size_t dim) {
  client::RowBatch rows;
  rows.keys.Build(keys, client.partition_bits());
  rows.values.assign(rows.keys.keys().size() * dim, value);
  return rows;
}

TEST(LocalParameterClientTest, PushesApplyTheRuleAndLeaveOtherRowsAlone) {
  LocalParameterClient client(16);
  EXPECT_EQ(client.partition_bits(), 4);
  ASSERT_TRUE(client.CreateTable(SgdTable(2)).ok());
  ASSERT_TRUE(client::PushRows(client, kTable,
                               Gradients(client, {Key{1}, Key{2}}, 1, 2))
                  .ok());
  ASSERT_TRUE(
      client::PushRows(client, kTable, Gradients(client, {Key{2}}, -4, 2))
          .ok());
  client::RowBatch rows;
  ASSERT_TRUE(
      client::PullRows(client, kTable, {Key{1}, Key{2}, Key{3}}, 2, &rows)
          .ok());
  const std::vector<float> expected = {2.5f, 4.5f, 3.0f};
  for (size_t i = 0; i < 3; ++i) {
    for (size_t d = 0; d < 2; ++d) {
      EXPECT_EQ(rows.values[rows.keys.row_of_key()[i] * 2 + d], expected[i]);
    }
  }
}

TEST(LocalParameterClientTest, VersionsCountPushes) {
  LocalParameterClient client(1);
  ASSERT_TRUE(client.CreateTable(SgdTable(1)).ok());
  for (uint64_t pushes = 1; pushes <= 3; ++pushes) {
    client::TableVersions pushed;
    ASSERT_TRUE(client::PushRows(client, kTable,
                                 Gradients(client, {Key{1}}, 1, 1), &pushed)
                    .ok());
    client::RowBatch rows;
    client::TableVersions pulled;
    ASSERT_TRUE(
        client::PullRows(client, kTable, {Key{1}}, 1, &rows, &pulled).ok());
    EXPECT_EQ(pushed, client::TableVersions{pushes});
    EXPECT_EQ(pulled, client::TableVersions{pushes});
  }
}

// What a dense table moves by in one push of `num_steps` steps, and then in one
// of one step. In warm-up the learning rate tells how many it has counted.
std::vector<float> MovesOfTwoPushes(v1::UpdateMode mode, uint32_t num_steps) {
  v1::TableConfig table = SgdTable(1);
  table.mutable_dense()->set_size(1);
  table.mutable_dense()->set_block_size(1);
  table.mutable_optimizer()->set_learning_rate(-1);
  table.mutable_optimizer()->set_warmup_steps(8);
  table.set_mode(mode);
  LocalParameterClient client(1);
  EXPECT_TRUE(client.CreateTable(table).ok());
  std::vector<float> moves;
  float last = 0;
  for (const uint32_t steps : {num_steps, 1u}) {
    const auto gradient = std::make_shared<float>(1);
    const auto updated = std::make_shared<client::DenseReplica>();
    client::PushRequest push;
    push.dense.push_back({kTable, gradient.get(), steps, updated.get()});
    EXPECT_TRUE(client::PushAndWait(client, push, gradient).ok());
    moves.push_back(updated->values[0] - last);
    last = updated->values[0];
  }
  return moves;
}

TEST(LocalParameterClientTest, AsyncDensePushesCountTheStepsTheyAreSummedOf) {
  EXPECT_EQ(MovesOfTwoPushes(v1::ASYNC, 3), (std::vector<float>{.375f, .5f}));
}

TEST(LocalParameterClientTest, ARoundIsOneStepOfDenseTables) {
  EXPECT_EQ(MovesOfTwoPushes(v1::SYNC, 3), (std::vector<float>{.125f, .25f}));
}

TEST(LocalParameterClientTest, StaleDenseGradientsMoveTheTableByLess) {
  v1::TableConfig table = SgdTable(1);
  table.mutable_dense()->set_size(1);
  table.mutable_dense()->set_block_size(1);
  table.mutable_dense()->set_staleness_power(1);
  table.mutable_optimizer()->set_learning_rate(-1);
  LocalParameterClient client(1);
  ASSERT_TRUE(client.CreateTable(table).ok());
  client::DenseReplica begin;
  ASSERT_TRUE(client::PullAll(client, kTable, &begin).ok());
  float expected = begin.values[0];
  for (const float move : {1.0f, 1.0f / 2, 1.0f / 3}) {
    const auto gradient = std::make_shared<float>(1);
    const auto updated = std::make_shared<client::DenseReplica>(begin);
    client::PushRequest push;
    push.dense.push_back(
        {kTable, gradient.get(), 1, updated.get(), begin.block_versions});
    ASSERT_TRUE(client::PushAndWait(client, push, gradient).ok());
    EXPECT_FLOAT_EQ(updated->values[0], expected += move);
  }
}

TEST(LocalParameterClientTest, UnknownTableIsAnError) {
  LocalParameterClient client(4);
  client::RowBatch rows;
  client::DenseReplica replica;
  EXPECT_FALSE(client::PullRows(client, kTable, {Key{1}}, 1, &rows).ok());
  EXPECT_FALSE(client::PullAll(client, kTable, &replica).ok());
  EXPECT_FALSE(
      client::PushRows(client, kTable, Gradients(client, {Key{1}}, 1, 1)).ok());
}

TEST(LocalParameterClientTest, OtherTableOfTheSameNameIsRefused) {
  LocalParameterClient client(4);
  ASSERT_TRUE(client.CreateTable(SgdTable(1)).ok());
  EXPECT_TRUE(client.CreateTable(SgdTable(1)).ok());
  EXPECT_EQ(client.CreateTable(SgdTable(2)).code(),
            absl::StatusCode::kAlreadyExists);
}

TEST(LocalJobClientTest, RangesAreLeasedOnceAndThenExhausted) {
  LocalJobClient job;
  std::vector<data::DataRange> items(3);
  for (uint64_t i = 0; i < 3; ++i) {
    items[i].begin = i * 10;
    items[i].end = i * 10 + 10;
    items[i].byte_offset = i * 700;
  }
  ASSERT_TRUE(job.DefinePhase("train/0", items, 30, /*order=*/"").ok());
  std::vector<uint64_t> done;
  for (uint64_t i = 0; i < 3; ++i) {
    const absl::StatusOr<client::Leases> leases =
        job.LeaseRanges("train/0", 1, done);
    ASSERT_TRUE(leases.ok()) << leases.status();
    ASSERT_EQ(leases->items.size(), 1u);
    EXPECT_EQ(leases->items[0].begin, i * 10);
    EXPECT_EQ(leases->items[0].byte_offset, i * 700);
    EXPECT_FALSE(leases->exhausted);
    done = {leases->items[0].lease};
  }
  const absl::StatusOr<client::Leases> end =
      job.LeaseRanges("train/0", 1, done);
  ASSERT_TRUE(end.ok()) << end.status();
  EXPECT_TRUE(end->items.empty());
  EXPECT_TRUE(end->exhausted);
}

TEST(LocalJobClientTest, BarriersPassAndProgressReachesTheStatus) {
  LocalJobClient job;
  EXPECT_TRUE(job.Barrier("a").ok());
  EXPECT_TRUE(job.Barrier("a").ok());
  job.SetProgressSource([] {
    std::vector<v1::PhaseProgress> reports(1);
    reports[0].set_phase("train");
    reports[0].set_examples(5);
    return reports;
  });
  ASSERT_TRUE(job.Report().ok());
  // Collects what is new.
  const absl::StatusOr<v1::JobStatusResponse> status = job.GetJobStatus();
  ASSERT_TRUE(status.ok()) << status.status();
  ASSERT_EQ(status->phases_size(), 1);
  EXPECT_EQ(status->phases(0).progress().examples(), 10u);
  job.SetProgressSource(nullptr);
  EXPECT_TRUE(job.Finish(absl::OkStatus()).ok());
}

}  // namespace
}  // namespace oarlock
