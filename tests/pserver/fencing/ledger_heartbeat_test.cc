// A server and a coordinator that asks it for ledgers.

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "cluster/wire_version.h"
#include "proto/v1/coordinator_service.grpc.pb.h"
#include "proto/v1/server_admin_service.grpc.pb.h"
#include "pserver/server.h"
#include "tests/base/eventually.h"
#include "tests/pserver/fencing/ledger_testing.h"
#include "tests/pserver/mini_job.h"

namespace oarlock::pserver {
namespace {

// Answers every heartbeat with what the test says.
class ScriptedCoordinator final : public v1::CoordinatorService::Service {
 public:
  ScriptedCoordinator() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                             &port_);
    builder.RegisterService(this);
    builder.RegisterService(&admin_);
    server_ = builder.BuildAndStart();
  }
  ~ScriptedCoordinator() override {
    server_->Shutdown(GrpcDeadline(absl::ZeroDuration()));
  }
  std::string endpoint() const { return absl::StrCat("127.0.0.1:", port_); }

  grpc::Status ServerHeartbeat(grpc::ServerContext*,
                               const v1::ServerHeartbeatRequest* request,
                               v1::ServerHeartbeatResponse* response) override {
    absl::MutexLock lock(&mutex_);
    last_ = *request;
    ++num_heartbeats_;
    *response = response_;
    return grpc::Status::OK;
  }

  void Say(v1::ServerHeartbeatResponse response) {
    absl::MutexLock lock(&mutex_);
    response_ = std::move(response);
  }
  int num_heartbeats() const {
    absl::MutexLock lock(&mutex_);
    return num_heartbeats_;
  }
  v1::ServerHeartbeatRequest last() const {
    absl::MutexLock lock(&mutex_);
    return last_;
  }

 private:
  class Admin final : public v1::ServerAdminService::Service {
   public:
    grpc::Status Connect(grpc::ServerContext*, const v1::ConnectRequest*,
                         v1::ConnectResponse* response) override {
      response->set_num_workers(2);
      response->mutable_partition_map()->set_num_servers(2);
      response->mutable_partition_map()->set_num_partitions(16);
      return grpc::Status::OK;
    }
  };

  Admin admin_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
  mutable absl::Mutex mutex_;
  v1::ServerHeartbeatResponse response_ ABSL_GUARDED_BY(mutex_);
  v1::ServerHeartbeatRequest last_ ABSL_GUARDED_BY(mutex_);
  int num_heartbeats_ ABSL_GUARDED_BY(mutex_) = 0;
};

// Without rows: it lies on any server.
v1::PushSparseRequest PushOf(uint32_t worker, uint64_t generation,
                             uint64_t sequence) {
  v1::PushSparseRequest request;
  v1::RequestHeader* header = request.mutable_header();
  header->set_protocol_version(cluster::kProtocolVersion);
  header->set_job_hash(cluster::JobHash("default"));
  header->set_worker_index(worker);
  header->set_worker_generation(generation);
  header->set_sequence(sequence);
  header->set_oldest_unanswered(sequence);
  header->set_routing_generation(1);
  header->set_message_count(2);
  header->set_table_message_count(1);
  *header->add_examples() = IntervalOf({}, 0, 8);
  request.set_table(1);
  return request;
}

v1::ServerHeartbeatResponse ResponseWith(uint64_t workers_version,
                                         v1::WorkerState::Life life) {
  v1::ServerHeartbeatResponse response;
  response.set_workers_version(workers_version);
  *response.mutable_workers() = StateOf(0, 5, life);
  response.mutable_workers()->MergeFrom(StateOf(1, 6, v1::WorkerState::ALIVE));
  // May push, so its ledger is not told for now.
  response.add_wanted_ledgers()->set_worker_index(1);
  response.mutable_wanted_ledgers(0)->set_worker_generation(6);
  return response;
}

TEST(LedgerHeartbeatTest, AWantedLedgerComesSoonAndAForgottenOneIsGone) {
  ScriptedCoordinator coordinator;
  coordinator.Say(ResponseWith(1, v1::WorkerState::ALIVE));
  ServerOptions options;
  options.server_endpoints = {coordinator.endpoint(),
                              absl::StrCat("127.0.0.1:", Listener().port())};
  options.server_index = 1;
  options.num_workers = 2;
  options.num_partitions = 16;
  options.num_threads = 1;
  // Whoever waited for it would wait longer than the test does.
  options.heartbeat_interval = absl::Seconds(10);
  auto server = Server::Start(options);
  ASSERT_TRUE(server.ok()) << server.status();
  Client client(options.server_endpoints[1]);
  ASSERT_TRUE(client.CreateTable(v1::ASYNC).ok());
  const auto push = [&](const v1::PushSparseRequest& request) {
    v1::PushResponse response;
    return client.Data(&v1::ParameterService::Stub::PushSparse, request,
                       &response);
  };
  ASSERT_TRUE(Eventually([&] { return push(PushOf(0, 5, 3)).ok(); }));
  EXPECT_TRUE(Eventually([&] { return coordinator.num_heartbeats() > 3; }));
  EXPECT_EQ(coordinator.last().ledgers_size(), 0);

  v1::ServerHeartbeatResponse lost = ResponseWith(2, v1::WorkerState::LOST);
  lost.add_wanted_ledgers()->set_worker_generation(5);
  coordinator.Say(lost);
  ASSERT_TRUE(
      Eventually([&] { return coordinator.last().ledgers_size() == 1; }));
  EXPECT_EQ(coordinator.last().workers_version(), 2u);
  EXPECT_EQ(coordinator.last().ledgers(0).ShortDebugString(),
            "worker { worker_generation: 5 } highest: 3 "
            "pushes { sequence: 3 examples { end: 8 } message_count: 2 "
            "messages: 0 routing_generation: 1 }");
  v1::PushSparseRequest completion = PushOf(0, 5, 3);
  completion.mutable_header()->clear_oldest_unanswered();
  completion.mutable_header()->set_completing_worker(1);
  completion.mutable_header()->set_completing_generation(6);
  EXPECT_TRUE(push(completion).ok());

  v1::ServerHeartbeatResponse done = ResponseWith(2, v1::WorkerState::LOST);
  done.add_forgotten()->set_worker_generation(5);
  coordinator.Say(done);
  absl::Status status;
  ASSERT_TRUE(Eventually([&] {
    status = push(completion);
    return !status.ok();
  }));
  EXPECT_TRUE(absl::IsAborted(status)) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "accounted for")) << status;
}

}  // namespace
}  // namespace oarlock::pserver
