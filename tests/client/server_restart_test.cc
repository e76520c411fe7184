// Real servers that are stopped and started again, on the same port and under
// another generation, while a worker uses them. They have no checkpoints: a
// server comes back empty.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "base/random.h"
#include "tests/base/eventually.h"
#include "tests/base/test_folder.h"
#include "tests/client/blocking_calls.h"
#include "tests/client/parameter_client_testing.h"
#include "tests/integration/mini_cluster.h"

namespace oarlock::client {
namespace {

using ::testing::HasSubstr;

// Each push adds its gradient to the row: with gradients of 1 a row counts the
// pushes that were applied to it.
v1::TableConfig CountingTable(v1::UpdateMode mode = v1::ASYNC) {
  v1::TableConfig table = SparseTableOf(1);
  table.set_mode(mode);
  table.mutable_optimizer()->set_learning_rate(-1);
  table.mutable_optimizer()->mutable_sgd();
  table.mutable_sparse()->mutable_initializer()->set_uniform_range(0);
  return table;
}
v1::TableConfig CountingVector() {
  v1::TableConfig table = DenseTableOf(64, 8);
  table.mutable_optimizer()->set_learning_rate(-1);
  table.mutable_optimizer()->mutable_sgd();
  return table;
}

class ServerRestartTest : public ::testing::Test {
 protected:
  static constexpr uint32_t kRestarted = 1;

  void Start(bool accept_loss) { StartAs(accept_loss, nullptr); }
  void StartAs(bool accept_loss,
               std::function<void(pserver::ServerOptions*)> adjust) {
    MiniClusterOptions options;
    options.adjust = std::move(adjust);
    options.num_servers = 2;
    options.num_partitions = kPartitions;
    options.accept_loss = accept_loss;
    auto cluster = MiniCluster::Start(options);
    ASSERT_TRUE(cluster.ok()) << cluster.status();
    cluster_ = *std::move(cluster);
    auto worker = MiniWorker::Join(*cluster_, 0);
    ASSERT_TRUE(worker.ok()) << worker.status();
    worker_ = *std::move(worker);
    // One key on each server.
    for (uint64_t k = 0; keys_.size() < 2; ++k) {
      const cluster::PartitionMap& map = worker_->connections().partition_map();
      if (map.Owner(map.PartitionOf(Key{k})).value() == keys_.size()) {
        keys_.push_back(Key{k});
      }
    }
  }
  void Create(const v1::TableConfig& table) {
    const absl::Status status = worker_->parameters().CreateTable(table);
    ASSERT_TRUE(status.ok()) << status;
  }
  void Restart() {
    const Generation before = cluster_->server(kRestarted).generation();
    cluster_->StopServer(kRestarted);
    const absl::Status status = cluster_->StartServer(kRestarted);
    ASSERT_TRUE(status.ok()) << status;
    ASSERT_NE(cluster_->server(kRestarted).generation(), before);
  }

  std::shared_ptr<RowBatch> Ones() const {
    auto ones = std::make_shared<RowBatch>();
    ones->keys.Build(keys_, 6);
    ones->values = {1, 1};
    return ones;
  }
  // The counts of keys_.
  std::vector<float> Counts() {
    RowBatch rows;
    const absl::Status status =
        PullRows(worker_->parameters(), kRows, keys_, 1, &rows);
    EXPECT_TRUE(status.ok()) << status;
    std::vector<float> counts;
    for (const uint32_t row : rows.keys.row_of_key()) {
      counts.push_back(rows.values[row]);
    }
    return counts;
  }

  std::unique_ptr<MiniCluster> cluster_;
  std::unique_ptr<MiniWorker> worker_;
  std::vector<Key> keys_;
};

TEST_F(ServerRestartTest, PushesUnderWayAreAppliedOnceWhereTheyWereNot) {
  Start(/*accept_loss=*/true);
  Create(CountingTable());
  constexpr int kThreads = 4;
  constexpr int kRestarts = 3;
  std::atomic<bool> stop = false;
  std::atomic<uint64_t> begun = 0;
  std::atomic<uint64_t> done = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      while (!stop) {
        ++begun;
        const absl::Status status =
            PushRows(worker_->parameters(), kRows, *Ones());
        ASSERT_TRUE(status.ok()) << status;
        ++done;
      }
    });
  }
  const auto await_pushes = [&](uint64_t more) {
    const uint64_t from = done;
    ASSERT_TRUE(Eventually([&] { return done >= from + more; }));
  };
  uint64_t done_before = 0;
  uint64_t begun_before = 0;
  for (int i = 0; i < kRestarts && !HasFatalFailure(); ++i) {
    await_pushes(50);
    done_before = done;
    Restart();
    begun_before = begun;
    await_pushes(50);
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  const std::vector<float> counts = Counts();
  EXPECT_EQ(counts[0], static_cast<float>(done.load()));
  // What was answered before the last restart is gone, what began after it is
  // there, what was under way may have been answered by one or the other.
  EXPECT_LE(counts[1], static_cast<float>(done - done_before));
  EXPECT_GE(counts[1], static_cast<float>(begun - begun_before));
}

TEST_F(ServerRestartTest, LossOfAcknowledgedPushesIsAnErrorUnlessAccepted) {
  Start(/*accept_loss=*/false);
  Create(CountingTable());
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(PushRows(worker_->parameters(), kRows, *Ones()).ok());
  }
  Restart();
  // However often it is tried.
  for (int i = 0; i < 2; ++i) {
    const absl::Status status = PushRows(worker_->parameters(), kRows, *Ones());
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("without 3 pushes of worker 0"));
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("server 1 at " + cluster_->endpoints()[1]));
  }
}

// A server with a log, whose machine loses power: another boot, and without
// `lost_bytes` of the end of its log.
class PowerLossTest : public ServerRestartTest {
 protected:
  // The record that closes the log, and a part of the one before it.
  static constexpr uint64_t kEndOfLastPush = 48 + 8;

  void StartWithLog(bool accept_loss) {
    StartAs(accept_loss, [this](pserver::ServerOptions* server) {
      server->checkpoint_dir = folder_.Path("checkpoints");
      server->checkpoint_interval = absl::ZeroDuration();
      server->log_pushes = true;
      server->boot_id = boot_id_;
      server->resume = server->replay_log = restarts_;
    });
    Create(CountingTable());
    for (int i = 0; i < 20; ++i) {
      ASSERT_TRUE(PushRows(worker_->parameters(), kRows, *Ones()).ok());
    }
  }
  void LosePower(uint64_t lost_bytes) {
    cluster_->StopServer(kRestarted);
    std::string newest;
    for (const auto& entry : std::filesystem::directory_iterator(
             folder_.Path("checkpoints/log/server-001"))) {
      newest = std::max(newest, entry.path().string());
    }
    std::filesystem::resize_file(
        newest, std::filesystem::file_size(newest) - lost_bytes);
    boot_id_ = "another boot";
    restarts_ = true;
    const absl::Status status = cluster_->StartServer(kRestarted);
    ASSERT_TRUE(status.ok()) << status;
  }

 private:
  const TestFolder folder_;
  std::string boot_id_ = "a boot";
  bool restarts_ = false;
};

TEST_F(PowerLossTest, WhatAMachineForgotThatItHadAcknowledgedIsTold) {
  StartWithLog(/*accept_loss=*/false);
  LosePower(kEndOfLastPush);
  const absl::Status status = PushRows(worker_->parameters(), kRows, *Ones());
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
  EXPECT_THAT(
      std::string(status.message()),
      HasSubstr("server 1 at " + cluster_->endpoints()[1] +
                " came back after a loss of power with what its log has left, "
                "without 1 push of worker 0 that it had acknowledged"));
}

TEST_F(PowerLossTest, NothingIsSaidToBeLostThatIsThere) {
  StartWithLog(/*accept_loss=*/false);
  LosePower(0);
  const absl::Status status = PushRows(worker_->parameters(), kRows, *Ones());
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(Counts(), (std::vector<float>{21, 21}));
}

TEST_F(PowerLossTest, ALossThatIsAcceptedIsWhatIsGone) {
  StartWithLog(/*accept_loss=*/true);
  LosePower(kEndOfLastPush);
  const absl::Status status = PushRows(worker_->parameters(), kRows, *Ones());
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(Counts(), (std::vector<float>{21, 20}));
}

TEST_F(ServerRestartTest, WhoeverHasPushedNothingLosesNothing) {
  Start(/*accept_loss=*/false);
  Create(CountingTable());
  Restart();
  const absl::Status status = PushRows(worker_->parameters(), kRows, *Ones());
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(Counts(), (std::vector<float>{1, 1}));
}

TEST_F(ServerRestartTest, AReplicaIsFreshAfterARestart) {
  Start(/*accept_loss=*/true);
  Create(CountingVector());
  const auto push = [&](float gradient) {
    auto gradients = std::make_shared<std::vector<float>>(64, gradient);
    PushRequest request;
    request.dense.push_back({kVector, gradients->data(), 1});
    const absl::Status status =
        PushAndWait(worker_->parameters(), request, gradients);
    ASSERT_TRUE(status.ok()) << status;
  };
  push(1);
  DenseReplica replica;
  ASSERT_TRUE(PullAll(worker_->parameters(), kVector, &replica).ok());
  Restart();
  // As many pushes as before: a count of them would be the same.
  push(5);
  const std::vector<uint64_t> versions = replica.block_versions;
  ASSERT_TRUE(PullAll(worker_->parameters(), kVector, &replica).ok());
  DenseReplica fresh;
  ASSERT_TRUE(PullAll(worker_->parameters(), kVector, &fresh).ok());
  EXPECT_EQ(replica.values, fresh.values);
  int same = 0;
  for (size_t b = 0; b < versions.size(); ++b) {
    same += versions[b] == fresh.block_versions[b];
  }
  EXPECT_EQ(same, 0) << "a version was used twice";
}

// The server knows nothing of rounds: the worker joins them again first.
TEST_F(ServerRestartTest, RoundInProgressIsSentAgain) {
  Start(/*accept_loss=*/false);
  Create(CountingTable(v1::SYNC));
  ASSERT_TRUE(worker_->job().JoinRounds().ok());
  cluster_->StopServer(kRestarted);
  const std::shared_ptr<RowBatch> ones = Ones();
  PushRequest push;
  push.sparse.push_back({kRows, &ones->keys, ones->values.data()});
  push.round = 1;
  absl::Notification done;
  absl::Status status;
  worker_->parameters().Push(push, nullptr, ones, [&](absl::Status result) {
    status = std::move(result);
    done.Notify();
  });
  const absl::Status started = cluster_->StartServer(kRestarted);
  ASSERT_TRUE(started.ok()) << started;
  ASSERT_TRUE(done.WaitForNotificationWithTimeout(absl::Minutes(1)));
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(Counts(), (std::vector<float>{1, 1}));
}

}  // namespace
}  // namespace oarlock::client
