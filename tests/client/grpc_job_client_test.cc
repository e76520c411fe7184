#include "client/grpc_job_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <future>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "base/clock.h"
#include "tests/base/eventually.h"
#include "tests/integration/mini_cluster.h"

namespace oarlock::client {
namespace {

using ::testing::HasSubstr;

class GrpcJobClientTest : public ::testing::Test {
 protected:
  void Start(uint32_t num_workers) {
    MiniClusterOptions options;
    options.num_servers = 2;
    options.num_workers = num_workers;
    auto cluster = MiniCluster::Start(options);
    ASSERT_TRUE(cluster.ok()) << cluster.status();
    cluster_ = *std::move(cluster);
    for (uint32_t i = 0; i < num_workers; ++i) workers_.push_back(Join(i));
  }
  std::unique_ptr<MiniWorker> Join(uint32_t index) {
    auto worker = MiniWorker::Join(*cluster_, index);
    EXPECT_TRUE(worker.ok()) << worker.status();
    return *std::move(worker);
  }
  GrpcJobClient& job(uint32_t worker) { return workers_[worker]->job(); }

  std::unique_ptr<MiniCluster> cluster_;
  std::vector<std::unique_ptr<MiniWorker>> workers_;
};

TEST_F(GrpcJobClientTest, WorkerBeyondTheJobIsRefused) {
  Start(2);
  EXPECT_EQ(MiniWorker::Join(*cluster_, 2).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(job(1).worker_index(), WorkerIndex(1));
  EXPECT_EQ(job(1).num_workers(), 2u);
}

TEST_F(GrpcJobClientTest, BarrierWaitsForTheLastWorker) {
  Start(3);
  std::atomic<int> passed = 0;
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < 2; ++i) {
    threads.emplace_back([&, i] {
      EXPECT_TRUE(job(i).Barrier("start").ok());
      ++passed;
    });
  }
  EXPECT_EQ(passed, 0);
  EXPECT_TRUE(job(2).Barrier("start").ok());
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(passed, 2);
}

TEST_F(GrpcJobClientTest, EveryRangeIsLeasedOnceAndComesAsItWasDefined) {
  Start(2);
  std::vector<data::DataRange> items;
  for (uint64_t i = 0; i < 40; ++i) {
    data::DataRange item;
    item.source = static_cast<uint32_t>(i % 3);
    item.begin = i * 100;
    item.end = i * 100 + 100;
    item.byte_offset = i * 7000;
    item.skip_lines = i % 2;
    items.push_back(item);
  }
  ASSERT_TRUE(job(0).DefinePhase("train/0", items, 4000, /*order=*/"").ok());
  std::set<uint64_t> begins;
  std::set<uint64_t> leases;
  for (int call = 0; call < 40; ++call) {
    GrpcJobClient& worker = job(call % 2);
    const absl::StatusOr<Leases> leased = worker.LeaseRanges("train/0", 1, {});
    ASSERT_TRUE(leased.ok()) << leased.status();
    ASSERT_EQ(leased->items.size(), 1u);
    const data::DataRange& item = leased->items[0];
    const data::DataRange& defined = items[item.begin / 100];
    EXPECT_EQ(item.source, defined.source);
    EXPECT_EQ(item.end, defined.end);
    EXPECT_EQ(item.byte_offset, defined.byte_offset);
    EXPECT_EQ(item.skip_lines, defined.skip_lines);
    EXPECT_TRUE(begins.insert(item.begin).second);
    EXPECT_TRUE(leases.insert(item.lease).second);
    const absl::StatusOr<Leases> after =
        worker.LeaseRanges("train/0", 0, {item.lease});
    ASSERT_TRUE(after.ok()) << after.status();
    EXPECT_EQ(after->exhausted, call == 39);
  }
}

TEST_F(GrpcJobClientTest, ReportsOfAllWorkersAddUp) {
  Start(2);
  for (uint32_t i = 0; i < 2; ++i) {
    job(i).SetProgressSource([given = false, i]() mutable {
      std::vector<v1::PhaseProgress> reports;
      if (!std::exchange(given, true)) {
        reports.emplace_back();
        reports[0].set_phase("train");
        reports[0].set_examples(100 + i);
      }
      return reports;
    });
  }
  for (uint32_t i = 0; i < 2; ++i) ASSERT_TRUE(job(i).Report().ok());
  const absl::StatusOr<v1::JobStatusResponse> status = job(1).GetJobStatus();
  ASSERT_TRUE(status.ok()) << status.status();
  ASSERT_EQ(status->phases_size(), 1);
  EXPECT_EQ(status->phases(0).progress().examples(), 201u);
  for (uint32_t i = 0; i < 2; ++i) job(i).SetProgressSource(nullptr);
}

TEST_F(GrpcJobClientTest, WorkersMeetInRounds) {
  Start(2);
  for (uint32_t i = 0; i < 2; ++i) {
    const absl::StatusOr<uint64_t> round = job(i).JoinRounds();
    ASSERT_TRUE(round.ok()) << round.status();
    EXPECT_EQ(*round, 0u);
  }
  for (uint32_t i = 0; i < 2; ++i) EXPECT_TRUE(job(i).LeaveRounds().ok());
}

TEST_F(GrpcJobClientTest, SuccessorFencesItsPredecessor) {
  Start(1);
  EXPECT_TRUE(job(0).Alive().ok());
  const std::unique_ptr<MiniWorker> successor = Join(0);
  EXPECT_GT(successor->job().generation(), job(0).generation());
  EXPECT_TRUE(Eventually([&] { return absl::IsAborted(job(0).Alive()); }));
  EXPECT_TRUE(absl::IsAborted(job(0).Barrier("any")));
  EXPECT_TRUE(successor->job().Alive().ok());
  EXPECT_TRUE(successor->job().Barrier("any").ok());
}

TEST_F(GrpcJobClientTest, GivingUpTellsTheOthersWhy) {
  Start(2);
  auto waiting =
      std::async(std::launch::async, [&] { return job(0).Barrier("never"); });
  ASSERT_TRUE(job(1).Finish(absl::DataLossError("disk on fire")).ok());
  const absl::Status barrier = waiting.get();
  EXPECT_FALSE(barrier.ok());
  EXPECT_THAT(std::string(barrier.message()), HasSubstr("disk on fire"));
  EXPECT_TRUE(Eventually([&] { return !job(0).Alive().ok(); }));
  EXPECT_THAT(std::string(job(0).Alive().message()), HasSubstr("disk on fire"));
}

TEST_F(GrpcJobClientTest, FinishedWorkersAreNotWaitedFor) {
  Start(2);
  ASSERT_TRUE(job(1).Finish(absl::OkStatus()).ok());
  EXPECT_TRUE(job(0).Barrier("alone").ok());
}

}  // namespace
}  // namespace oarlock::client
