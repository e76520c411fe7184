// Servers of a job that stays go back to a cut in place.

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "base/types.h"
#include "cluster/partition_map.h"
#include "coordinator/coordinator.h"
#include "proto/v1/checkpoint.grpc.pb.h"
#include "tests/base/eventually.h"
#include "tests/base/test_folder.h"
#include "tests/pserver/mini_job.h"

namespace oarlock::pserver {
namespace {

class RollBackTest : public testing::Test {
 protected:
  // Two servers that stay, each with a thread that waits for its end.
  void Start(const std::string& checkpoint_dir) {
    job_ = std::make_unique<MiniJob>(2, 1, [&](ServerOptions* options) {
      options->stay = true;
      options->checkpoint_dir = checkpoint_dir;
      options->checkpoint_interval = absl::ZeroDuration();
    });
    for (uint32_t i = 0; i < 2; ++i) {
      generations_[i] = job_->server(i).generation();
      waiting_.emplace_back(
          [this, i] { outcomes_[i] = job_->server(i).Wait(); });
    }
  }
  void Stop() {
    for (const uint32_t i : {1, 0}) job_->server(i).Shutdown();
    for (std::thread& thread : waiting_) thread.join();
    waiting_.clear();
  }
  void TearDown() override {
    if (!waiting_.empty()) Stop();
  }

  // Registers once the servers take somebody.
  v1::RegisterWorkerResponse Join() {
    v1::RegisterWorkerRequest request;
    request.set_protocol_version(cluster::kProtocolVersion);
    request.set_min_workers(1);
    request.set_max_workers(1);
    v1::RegisterWorkerResponse response;
    EXPECT_TRUE(Eventually([&] {
      return job_->client(0)
          .Admin(&v1::CoordinatorService::Stub::RegisterWorker, request,
                 &response)
          .ok();
    }));
    return response;
  }
  absl::Status AskToGoBack(uint64_t generation) {
    v1::FinishWorkerRequest request;
    request.set_worker_generation(generation);
    request.set_roll_back(true);
    request.set_reason("a test");
    v1::FinishWorkerResponse response;
    return job_->client(0).Admin(&v1::CoordinatorService::Stub::FinishWorker,
                                 request, &response);
  }
  // A push that makes one row more on the server.
  void Push(uint32_t server, uint64_t generation) {
    const cluster::PartitionMap map = cluster::PartitionMap::Even(16, 2);
    Key key{++last_key_};
    while (map.Owner(map.PartitionOf(key)).value() != server) {
      key = Key{++last_key_};
    }
    v1::PushSparseRequest request;
    *request.mutable_header() = Client::PushHeader(0, generation, last_key_);
    request.set_table(1);
    request.add_partitions(map.PartitionOf(key).value());
    request.add_group_sizes(1);
    request.add_keys(static_cast<uint64_t>(key));
    for (int i = 0; i < 2; ++i) request.add_values(1);
    v1::PushResponse response;
    absl::Status status;
    // It has to hear of the worker first.
    EXPECT_TRUE(Eventually([&] {
      status = job_->client(server).Data(
          &v1::ParameterService::Stub::PushSparse, request, &response);
      return !absl::IsUnavailable(status);
    }));
    EXPECT_TRUE(status.ok()) << status;
  }
  bool HaveGoneBack() {
    return Eventually([this] {
      return job_->server(0).generation() > generations_[0] &&
             job_->server(1).generation() > generations_[1];
    });
  }
  // Rows that a server has of the only table; -1: there is none.
  int64_t Rows(uint32_t server) {
    v1::ServerStatusRequest request;
    v1::ServerStatusResponse response;
    const absl::Status status = job_->client(server).Admin(
        &v1::ServerAdminService::Stub::GetServerStatus, request, &response);
    EXPECT_TRUE(status.ok()) << status;
    if (response.tables().empty()) return -1;
    return static_cast<int64_t>(response.tables(0).rows());
  }

  std::unique_ptr<MiniJob> job_;
  Generation generations_[2] = {Generation(0), Generation(0)};
  absl::Status outcomes_[2];
  std::vector<std::thread> waiting_;
  uint64_t last_key_ = 0;
};

TEST_F(RollBackTest, ToTheBeginningWithTheTablesAsTheyWereCreated) {
  Start("");
  const v1::RegisterWorkerResponse first = Join();
  EXPECT_EQ(first.run(), 1u);
  const int ports[] = {job_->server(0).port(), job_->server(1).port()};
  for (const uint32_t i : {0, 1}) {
    ASSERT_TRUE(job_->client(i).CreateTable(v1::ASYNC).ok());
    Push(i, first.worker_generation());
    EXPECT_EQ(Rows(i), 1);
  }
  ASSERT_TRUE(AskToGoBack(first.worker_generation()).ok());
  ASSERT_TRUE(HaveGoneBack());
  const absl::Status told =
      job_->client(0).Heartbeat(0, first.worker_generation());
  EXPECT_TRUE(absl::IsAborted(told)) << told;
  EXPECT_TRUE(absl::StrContains(told.message(), "asked for it: a test"))
      << told;
  const v1::RegisterWorkerResponse next = Join();
  EXPECT_EQ(next.run(), 2u);
  EXPECT_GT(next.worker_generation(), first.worker_generation());
  for (const uint32_t i : {0, 1}) {
    EXPECT_EQ(job_->server(i).port(), ports[i]);
    EXPECT_EQ(Rows(i), 0);
    // What is late does nothing.
    EXPECT_FALSE(job_->client(i).Push(0, first.worker_generation(), 2).ok());
    EXPECT_EQ(Rows(i), 0);
  }
  // And again.
  for (const uint32_t i : {0, 1}) {
    generations_[i] = job_->server(i).generation();
  }
  ASSERT_TRUE(AskToGoBack(next.worker_generation()).ok());
  ASSERT_TRUE(HaveGoneBack());
  EXPECT_EQ(Join().run(), 3u);
  Stop();
  EXPECT_TRUE(outcomes_[0].ok()) << outcomes_[0];
  EXPECT_TRUE(outcomes_[1].ok()) << outcomes_[1];
}

TEST_F(RollBackTest, ToTheNewestCheckpoint) {
  const TestFolder dir;
  Start(dir.path());
  const uint64_t worker = Join().worker_generation();
  for (const uint32_t i : {0, 1}) {
    ASSERT_TRUE(job_->client(i).CreateTable(v1::ASYNC).ok());
    Push(i, worker);
  }
  ASSERT_TRUE(job_->client(0).Finish(0, worker).ok());
  v1::CheckpointRequest make;
  v1::CheckpointResponse made;
  const absl::Status checkpoint = job_->client(0).Admin(
      &v1::CoordinatorService::Stub::Checkpoint, make, &made);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint;
  const uint64_t next = Join().worker_generation();
  for (const uint32_t i : {0, 1}) {
    Push(i, next);
    EXPECT_EQ(Rows(i), 2);
  }
  ASSERT_TRUE(AskToGoBack(next).ok());
  ASSERT_TRUE(HaveGoneBack());
  EXPECT_EQ(Join().run(), 3u);
  for (const uint32_t i : {0, 1}) EXPECT_EQ(Rows(i), 1);
}

TEST_F(RollBackTest, AServerThatIsAwayIsWaitedForAndAStopIsNotDelayed) {
  Start("");
  const uint64_t worker = Join().worker_generation();
  ASSERT_TRUE(AskToGoBack(worker).ok());
  job_->server(1).Shutdown();
  job_->server(0).Shutdown();
  for (std::thread& thread : waiting_) thread.join();
  waiting_.clear();
  EXPECT_TRUE(outcomes_[0].ok()) << outcomes_[0];
}

TEST_F(RollBackTest, OnlyServersOfAJobThatStaysGoBack) {
  MiniJob job(2, 1, [](ServerOptions* options) { options->stay = false; });
  v1::RollBackRequest request;
  request.set_term(coordinator::Coordinator::kTerm);
  request.set_generation(UINT64_MAX);
  v1::RollBackResponse response;
  for (const uint32_t i : {0, 1}) {
    grpc::ClientContext context;
    const grpc::Status status =
        v1::CheckpointService::NewStub(job.client(i).channel())
            ->RollBack(&context, request, &response);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNIMPLEMENTED);
  }
  Start("");
  grpc::ClientContext context;
  const grpc::Status status =
      v1::CheckpointService::NewStub(job_->client(0).channel())
          ->RollBack(&context, request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  // One that it has already.
  request.set_generation(job_->server(1).generation().value());
  grpc::ClientContext other;
  const grpc::Status had =
      v1::CheckpointService::NewStub(job_->client(1).channel())
          ->RollBack(&other, request, &response);
  EXPECT_TRUE(had.ok()) << had.error_message();
  EXPECT_EQ(response.server_generation(), request.generation());
  // By accident, and not by going back.
  EXPECT_FALSE(response.gone_back());
  EXPECT_EQ(job_->server(1).generation(), generations_[1]);
}

}  // namespace
}  // namespace oarlock::pserver
