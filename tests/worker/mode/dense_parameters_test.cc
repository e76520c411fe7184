#include "worker/mode/dense_parameters.h"

#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <thread>
#include <utility>

#include "absl/synchronization/mutex.h"

namespace oarlock {
namespace {

constexpr TableId kTable(3);

// A table of two floats. A pull is answered when the test says so, with the
// value that the table has then.
class HeldClient : public ParameterClient {
 public:
  absl::Status CreateTable(const v1::TableConfig&) override {
    return absl::OkStatus();
  }
  int partition_bits() const override { return 0; }
  void PullSparse(TableId, const KeyBatch&, float*, TableVersions*,
                  std::shared_ptr<const void>, Done done) override {
    done(absl::UnimplementedError("no rows here"));
  }
  void Push(const PushRequest&, TableVersions*, std::shared_ptr<const void>,
            Done done) override {
    done(absl::UnimplementedError("no pushes here"));
  }
  void PullDense(TableId table, DenseReplica* replica,
                 std::shared_ptr<const void> memory, Done done) override {
    EXPECT_EQ(table, kTable);
    absl::MutexLock lock(&mutex_);
    EXPECT_EQ(replica_, nullptr) << "two pulls at a time";
    ++num_pulls_;
    seen_.insert(replica);
    replica_ = replica;
    memory_ = std::move(memory);
    done_ = std::move(done);
  }

  // Answers the pull under way.
  void Answer(float value, absl::Status status = absl::OkStatus()) {
    Done done;
    std::shared_ptr<const void> memory;
    {
      absl::MutexLock lock(&mutex_);
      ASSERT_NE(replica_, nullptr) << "no pull is under way";
      if (status.ok()) replica_->values = {value, value};
      replica_ = nullptr;
      done = std::move(done_);
      memory = std::move(memory_);
    }
    // As a client does, it lets go of the memory only after the callback.
    done(std::move(status));
  }

  int num_pulls() const {
    absl::MutexLock lock(&mutex_);
    return num_pulls_;
  }
  size_t num_replicas() const {
    absl::MutexLock lock(&mutex_);
    return seen_.size();
  }

 private:
  mutable absl::Mutex mutex_;
  int num_pulls_ = 0;
  std::set<DenseReplica*> seen_;
  DenseReplica* replica_ = nullptr;
  std::shared_ptr<const void> memory_;
  Done done_;
};

TEST(DenseParametersTest, RequestsDuringAPullBecomeOneMorePull) {
  HeldClient client;
  DenseParameters dense(&client, kTable);
  for (int i = 0; i < 5; ++i) dense.StartPull();
  EXPECT_EQ(client.num_pulls(), 1);
  client.Answer(1);
  // The second sees what was pushed before any of the five calls.
  EXPECT_EQ(client.num_pulls(), 2);
  EXPECT_EQ(dense.Current()->values[0], 1);
  client.Answer(2);
  EXPECT_EQ(client.num_pulls(), 2);
  EXPECT_TRUE(dense.WaitForPull().ok());
  EXPECT_EQ(dense.Current()->values[0], 2);
}

TEST(DenseParametersTest, WaitingCoversThePullThatFollows) {
  HeldClient client;
  DenseParameters dense(&client, kTable);
  dense.StartPull();
  dense.StartPull();
  std::atomic<bool> waited = false;
  std::thread waiter([&] {
    EXPECT_TRUE(dense.WaitForPull().ok());
    EXPECT_EQ(dense.Current()->values[0], 2);
    waited = true;
  });
  client.Answer(1);
  EXPECT_FALSE(waited);
  client.Answer(2);
  waiter.join();
}

TEST(DenseParametersTest, ReplicaInUseIsNotWrittenTo) {
  HeldClient client;
  DenseParameters dense(&client, kTable);
  dense.StartPull();
  client.Answer(1);
  const std::shared_ptr<const DenseReplica> held = dense.Current();
  for (int value = 2; value < 10; ++value) {
    dense.StartPull();
    client.Answer(static_cast<float>(value));
    EXPECT_EQ(held->values[0], 1);
    EXPECT_EQ(dense.Current()->values[0], value);
  }
}

TEST(DenseParametersTest, ReplicasAreUsedAgain) {
  HeldClient client;
  DenseParameters dense(&client, kTable);
  for (int value = 0; value < 20; ++value) {
    dense.StartPull();
    client.Answer(static_cast<float>(value));
  }
  // The current one and the one that is filled.
  EXPECT_EQ(client.num_replicas(), 2u);
}

TEST(DenseParametersTest, FailureIsToldAndKeepsTheLastReplica) {
  HeldClient client;
  DenseParameters dense(&client, kTable);
  dense.StartPull();
  client.Answer(1);
  dense.StartPull();
  client.Answer(0, absl::UnavailableError("away"));
  EXPECT_EQ(dense.WaitForPull().message(), "away");
  EXPECT_EQ(dense.Current()->values[0], 1);
  dense.StartPull();
  client.Answer(3);
  EXPECT_TRUE(dense.WaitForPull().ok());
  EXPECT_EQ(dense.Current()->values[0], 3);
}

TEST(DenseParametersTest, FailureIsNotFollowedByTheRequestedPull) {
  HeldClient client;
  DenseParameters dense(&client, kTable);
  dense.StartPull();
  dense.StartPull();
  client.Answer(0, absl::UnavailableError("away"));
  EXPECT_EQ(client.num_pulls(), 1);
  EXPECT_FALSE(dense.WaitForPull().ok());
}

TEST(DenseParametersTest, ModelWithoutDenseParametersNeverCalls) {
  HeldClient client;
  DenseParameters dense(&client, TableId(0));
  EXPECT_TRUE(dense.Pull().ok());
  EXPECT_EQ(client.num_pulls(), 0);
  EXPECT_TRUE(dense.Current()->values.empty());
}

TEST(DenseParametersTest, DestructionWaitsForThePullUnderWay) {
  HeldClient client;
  auto dense = std::make_unique<DenseParameters>(&client, kTable);
  dense->StartPull();
  std::atomic<bool> answered = false;
  std::thread destroyer([&] {
    dense.reset();
    EXPECT_TRUE(answered);
  });
  answered = true;
  client.Answer(1);
  destroyer.join();
}

}  // namespace
}  // namespace oarlock
