#include "worker/dense/dense_parameters.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <utility>

namespace oarlock::worker {
namespace {

constexpr TableId kTable(3);

// A table of two floats, both the same.
class CountingClient : public client::ParameterClient {
 public:
  absl::Status CreateTable(const v1::TableConfig&) override {
    return absl::OkStatus();
  }
  void SetCutObserver(CutObserver /*observer*/) override {}
  int partition_bits() const override { return 0; }
  void PullSparse(TableId, const client::KeyBatch&, float*,
                  client::TableVersions*, std::shared_ptr<const void>,
                  Done done) override {
    done(absl::UnimplementedError("no rows here"));
  }
  void Push(const client::PushRequest&, client::TableVersions*,
            std::shared_ptr<const void>, Done done) override {
    done(absl::UnimplementedError("no pushes here"));
  }
  void PullDense(TableId table, client::DenseReplica* replica,
                 std::shared_ptr<const void>, Done done) override {
    EXPECT_EQ(table, kTable);
    ++num_pulls_;
    seen_.insert(replica);
    if (status_.ok()) replica->values = {value_, value_};
    done(status_);
  }

  void SetValue(float value) { value_ = value; }
  void FailWith(absl::Status status) { status_ = std::move(status); }
  int num_pulls() const { return num_pulls_; }
  size_t num_replicas() const { return seen_.size(); }

 private:
  float value_ = 0;
  absl::Status status_;
  int num_pulls_ = 0;
  std::set<client::DenseReplica*> seen_;
};

TEST(DenseParametersTest, PullInstallsWhatTheTableHolds) {
  CountingClient client;
  DenseParameters dense(&client, kTable);
  for (float value = 1; value <= 3; ++value) {
    client.SetValue(value);
    ASSERT_TRUE(dense.Pull().ok());
    EXPECT_EQ(dense.Current()->values[0], value);
  }
}

TEST(DenseParametersTest, ReplicaInUseIsNotWrittenTo) {
  CountingClient client;
  DenseParameters dense(&client, kTable);
  client.SetValue(1);
  ASSERT_TRUE(dense.Pull().ok());
  const std::shared_ptr<const client::DenseReplica> held = dense.Current();
  for (int value = 2; value < 10; ++value) {
    client.SetValue(static_cast<float>(value));
    ASSERT_TRUE(dense.Pull().ok());
    EXPECT_EQ(held->values[0], 1);
    EXPECT_EQ(dense.Current()->values[0], value);
  }
}

TEST(DenseParametersTest, ReplicasAreUsedAgain) {
  CountingClient client;
  DenseParameters dense(&client, kTable);
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(dense.Pull().ok());
  // The current one and the one that is filled.
  EXPECT_EQ(client.num_replicas(), 2u);
}

TEST(DenseParametersTest, SpareReplicaBecomesTheNewestWhenInstalled) {
  CountingClient client;
  DenseParameters dense(&client, kTable);
  ASSERT_TRUE(dense.Pull().ok());
  std::shared_ptr<client::DenseReplica> spare = dense.Spare();
  EXPECT_NE(spare, dense.Current());
  spare->values = {7, 7};
  dense.Install(spare);
  EXPECT_EQ(dense.Current()->values[0], 7);
  EXPECT_NE(dense.Spare(), spare);
}

TEST(DenseParametersTest, FailureIsReportedAndKeepsTheLastReplica) {
  CountingClient client;
  DenseParameters dense(&client, kTable);
  client.SetValue(1);
  ASSERT_TRUE(dense.Pull().ok());
  client.FailWith(absl::UnavailableError("away"));
  EXPECT_EQ(dense.Pull().message(), "away");
  EXPECT_EQ(dense.Current()->values[0], 1);
  client.FailWith(absl::OkStatus());
  client.SetValue(3);
  ASSERT_TRUE(dense.Pull().ok());
  EXPECT_EQ(dense.Current()->values[0], 3);
}

TEST(DenseParametersTest, ModelWithoutDenseParametersNeverCalls) {
  CountingClient client;
  DenseParameters dense(&client, TableId(0));
  EXPECT_TRUE(dense.Pull().ok());
  EXPECT_EQ(client.num_pulls(), 0);
  EXPECT_TRUE(dense.Current()->values.empty());
}

}  // namespace
}  // namespace oarlock::worker
