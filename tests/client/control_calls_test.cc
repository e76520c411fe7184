#include "client/control_calls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>

#include "absl/synchronization/notification.h"
#include "client/completion_thread.h"
#include "client/grpc_job_client.h"
#include "proto/v1/coordinator_job.pb.h"
#include "proto/v1/coordinator_workers.pb.h"
#include "tests/integration/mini_cluster.h"

namespace oarlock::client {
namespace {

using ::testing::HasSubstr;

constexpr char kStatusPath[] = "/oarlock.v1.CoordinatorService/GetJobStatus";
constexpr char kBarrierPath[] = "/oarlock.v1.CoordinatorService/Barrier";

// An outcome that a test waits for.
template <typename Response>
struct Outcome {
  auto Setter() {
    return [this](const absl::StatusOr<Response>& response) {
      outcome = response;
      ended.Notify();
    };
  }
  absl::Status Status() {
    ended.WaitForNotification();
    return outcome.status();
  }

  absl::StatusOr<Response> outcome;
  absl::Notification ended;
};

class ControlCallsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    MiniClusterOptions options;
    options.num_workers = 2;
    auto cluster = MiniCluster::Start(options);
    ASSERT_TRUE(cluster.ok()) << cluster.status();
    cluster_ = *std::move(cluster);
    ConnectionOptions connection = cluster_->Connection();
    connection.rpc_timeout = absl::Seconds(1);
    auto connections = ServerConnections::Connect(connection);
    ASSERT_TRUE(connections.ok()) << connections.status();
    connections_ = *std::move(connections);
    completions_ = std::make_unique<CompletionThread>(connections_.get());
    calls_ =
        std::make_unique<ControlCalls>(connections_.get(), completions_.get());
  }

  v1::BarrierRequest ArrivalOf(const GrpcJobClient& job) {
    v1::BarrierRequest request;
    request.set_name("meet");
    request.set_worker_index(job.worker_index().value());
    request.set_worker_generation(job.generation().value());
    request.set_wait_ms(1);
    return request;
  }

  std::unique_ptr<MiniCluster> cluster_;
  std::unique_ptr<ServerConnections> connections_;
  std::unique_ptr<CompletionThread> completions_;
  std::unique_ptr<ControlCalls> calls_;
};

TEST_F(ControlCallsTest, AResponseIsGivenAsAMessage) {
  Outcome<v1::JobStatusResponse> status;
  calls_->Start<v1::JobStatusResponse>(ServerIndex(0), kStatusPath,
                                       v1::JobStatusRequest(), status.Setter());
  ASSERT_TRUE(status.Status().ok()) << status.Status();
  EXPECT_EQ(status.outcome->num_workers(), 2u);
}

TEST_F(ControlCallsTest, ARefusalNamesTheServerAndIsNotRepeated) {
  Outcome<v1::BarrierResponse> refused;
  v1::BarrierRequest request;
  request.set_worker_index(7);
  calls_->Start<v1::BarrierResponse>(ServerIndex(0), kBarrierPath, request,
                                     refused.Setter());
  EXPECT_EQ(refused.Status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.Status().message()),
              HasSubstr("server 0 at " + cluster_->endpoints()[0]));
}

TEST_F(ControlCallsTest, NotYetIsAskedAgainForAsLongAsItTakes) {
  auto first = GrpcJobClient::Register(connections_.get(), WorkerIndex(0));
  auto second = GrpcJobClient::Register(connections_.get(), WorkerIndex(1));
  ASSERT_TRUE(first.ok() && second.ok());
  Outcome<v1::BarrierResponse> passed;
  Outcome<v1::BarrierResponse> other;
  calls_->Start<v1::BarrierResponse>(ServerIndex(0), kBarrierPath,
                                     ArrivalOf(**first), passed.Setter());
  // Many times "not yet" by then.
  EXPECT_FALSE(
      passed.ended.WaitForNotificationWithTimeout(absl::Milliseconds(50)));
  calls_->Start<v1::BarrierResponse>(ServerIndex(0), kBarrierPath,
                                     ArrivalOf(**second), other.Setter());
  EXPECT_TRUE(passed.Status().ok()) << passed.Status();
  EXPECT_TRUE(other.Status().ok()) << other.Status();
}

TEST_F(ControlCallsTest, ACallThatIsCancelledEndsAndOthersGoOn) {
  auto job = GrpcJobClient::Register(connections_.get(), WorkerIndex(0));
  ASSERT_TRUE(job.ok());
  Outcome<v1::BarrierResponse> waits;
  const uint64_t number = calls_->Start<v1::BarrierResponse>(
      ServerIndex(0), kBarrierPath, ArrivalOf(**job), waits.Setter());
  calls_->Cancel(number);
  calls_->Cancel(number);
  EXPECT_EQ(waits.Status().code(), absl::StatusCode::kCancelled);
  Outcome<v1::JobStatusResponse> status;
  calls_->Start<v1::JobStatusResponse>(ServerIndex(0), kStatusPath,
                                       v1::JobStatusRequest(), status.Setter());
  EXPECT_TRUE(status.Status().ok());
}

TEST_F(ControlCallsTest, ADelayedCallIsCancelledBeforeItIsSent) {
  Outcome<v1::JobStatusResponse> status;
  const uint64_t number = calls_->StartAfter<v1::JobStatusResponse>(
      absl::Hours(1), ServerIndex(0), kStatusPath, v1::JobStatusRequest(),
      status.Setter());
  calls_->Cancel(number);
  EXPECT_EQ(status.Status().code(), absl::StatusCode::kCancelled);
}

TEST_F(ControlCallsTest, WhatIsUnderWayEndsWithTheClient) {
  auto job = GrpcJobClient::Register(connections_.get(), WorkerIndex(0));
  ASSERT_TRUE(job.ok());
  Outcome<v1::BarrierResponse> waits;
  Outcome<v1::JobStatusResponse> delayed;
  calls_->Start<v1::BarrierResponse>(ServerIndex(0), kBarrierPath,
                                     ArrivalOf(**job), waits.Setter());
  calls_->StartAfter<v1::JobStatusResponse>(absl::Hours(1), ServerIndex(0),
                                            kStatusPath, v1::JobStatusRequest(),
                                            delayed.Setter());
  calls_.reset();
  EXPECT_EQ(waits.Status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(delayed.Status().code(), absl::StatusCode::kCancelled);
}

TEST_F(ControlCallsTest, AServerThatIsAwayIsGivenUp) {
  cluster_->StopServer(0);
  Outcome<v1::JobStatusResponse> status;
  ControlCalls::Call call;
  call.path = kStatusPath;
  call.give_up_after = absl::Milliseconds(100);
  call.attempt_timeout = absl::Milliseconds(100);
  absl::Notification ended;
  absl::Status outcome;
  call.done = [&](const absl::StatusOr<std::string>& response) {
    outcome = response.status();
    ended.Notify();
  };
  calls_->Start(std::move(call));
  ended.WaitForNotification();
  EXPECT_EQ(outcome.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(outcome.message()),
              HasSubstr("did not answer within 100ms"));
}

TEST(ServerConnectionsCloseTest, EndsWhoeverWaitsForAServer) {
  const auto cluster = MiniCluster::Reserve({});
  ConnectionOptions options = cluster->Connection();
  options.connect_timeout = absl::Hours(1);
  auto connections = ServerConnections::Create(options);
  ASSERT_TRUE(connections.ok()) << connections.status();
  absl::Status opened;
  std::thread opening([&] { opened = (*connections)->Open(); });
  (*connections)->Close();
  opening.join();
  EXPECT_EQ(opened.code(), absl::StatusCode::kCancelled);
}

}  // namespace
}  // namespace oarlock::client
