// The data plane alone behind gRPC, for tests.

#ifndef OARLOCK_TESTS_PSERVER_SERVICE_PARAMETER_SERVICE_TESTING_H_
#define OARLOCK_TESTS_PSERVER_SERVICE_PARAMETER_SERVICE_TESTING_H_

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/mix.h"
#include "cluster/partition_map.h"
#include "cluster/retry.h"
#include "cluster/wire_version.h"
#include "proto/v1/parameter.grpc.pb.h"
#include "pserver/aggregator/hold_budget.h"
#include "pserver/fencing/push_ledger.h"
#include "pserver/fencing/worker_fences.h"
#include "pserver/rpc/call_queues.h"
#include "pserver/service/parameter_service.h"
#include "pserver/table/table_registry.h"
#include "tests/pserver/service/push_testing.h"

namespace oarlock::pserver {

inline constexpr uint64_t kJobHash = 77;
inline constexpr uint64_t kServerGeneration = 1234;
inline constexpr uint32_t kDim = 3;
inline constexpr uint32_t kNumWorkers = 4;

// A server with the data plane alone, on a free port of the loopback, and the
// stub that protoc makes, as a client in another language would have it.
class ParameterServiceTest : public ::testing::Test {
 protected:
  void Start(ParameterServiceOptions options = {}, uint32_t num_servers = 1,
             int num_threads = 2) {
    const cluster::PartitionMap map =
        cluster::PartitionMap::Even(1u << kTestPartitionBits, num_servers);
    options.server = ServerIndex(0);
    options.job_hash = kJobHash;
    options.server_generation = Generation(kServerGeneration);
    ASSERT_TRUE(options.Validate().ok());
    holds_ = std::make_unique<HoldBudget>(max_held_bytes_);
    fences_ = std::make_unique<WorkerFences>(kNumWorkers);
    ledger_ = std::make_unique<PushLedger>(fences_.get());
    registry_ = std::make_unique<TableRegistry>(map, options.server, clock_);
    service_ = std::make_unique<ParameterService>(
        options, registry_.get(), ledger_.get(), holds_.get(), map, clock_);
    grpc::ServerBuilder builder;
    cluster::ApplyServerArguments(&builder);
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                             &port);
    builder.RegisterService(service_->service());
    queues_ = std::make_unique<CallQueues>(num_threads);
    queues_->AddTo(&builder);
    server_ = builder.BuildAndStart();
    ASSERT_NE(server_, nullptr);
    queues_->Start({service_->Acceptor(queues_->gate())});
    channel_ = grpc::CreateCustomChannel(absl::StrCat("127.0.0.1:", port),
                                         grpc::InsecureChannelCredentials(),
                                         cluster::MakeChannelArguments());
    stub_ = v1::ParameterService::NewStub(channel_);
  }

  void TearDown() override {
    if (server_ == nullptr) return;
    registry_->Shutdown();
    server_->Shutdown(GrpcDeadline(absl::Seconds(1)));
    queues_->Shutdown();
  }

  static v1::RequestHeader Header() {
    v1::RequestHeader header;
    header.set_protocol_version(cluster::kProtocolVersion);
    header.set_job_hash(kJobHash);
    header.set_server_generation(kServerGeneration);
    return header;
  }
  static v1::RequestHeader HeaderOfPush(uint32_t worker, uint64_t sequence,
                                        uint64_t round = 0) {
    v1::RequestHeader header = PushHeader(worker, 1, sequence, round);
    header.MergeFrom(Header());
    return header;
  }

  // Messages as generated code makes them.
  static v1::PullSparseRequest PullOf(const std::vector<Key>& keys) {
    v1::PullSparseRequest request;
    *request.mutable_header() = Header();
    request.set_table(1);
    std::map<uint32_t, std::vector<Key>> groups;
    for (const Key key : keys) {
      groups[PartitionOfMix(Mix(key), kTestPartitionBits).value()].push_back(
          key);
    }
    for (const auto& [partition, group] : groups) {
      request.add_partitions(partition);
      request.add_group_sizes(group.size());
      for (const Key key : group) {
        request.add_keys(static_cast<uint64_t>(key));
      }
    }
    return request;
  }
  static v1::PushSparseRequest PushOf(const v1::RequestHeader& header,
                                      const SparseGradients& gradients) {
    std::vector<Key> keys;
    for (const auto& [key, gradient] : gradients) keys.push_back(key);
    const v1::PullSparseRequest grouped = PullOf(keys);
    v1::PushSparseRequest request;
    *request.mutable_header() = header;
    request.set_table(1);
    *request.mutable_partitions() = grouped.partitions();
    *request.mutable_group_sizes() = grouped.group_sizes();
    *request.mutable_keys() = grouped.keys();
    for (const uint64_t key : grouped.keys()) {
      for (const float g : gradients.at(Key{key})) request.add_values(g);
    }
    return request;
  }

  static void SetDeadline(grpc::ClientContext* context) {
    context->set_deadline(GrpcDeadline(absl::Minutes(1)));
  }
  grpc::Status Pull(const v1::PullSparseRequest& request,
                    v1::PullSparseResponse* response) {
    grpc::ClientContext context;
    SetDeadline(&context);
    return stub_->PullSparse(&context, request, response);
  }
  grpc::Status Pull(const v1::PullSparseRequest& request) {
    v1::PullSparseResponse response;
    return Pull(request, &response);
  }
  grpc::Status Push(const v1::PushSparseRequest& request,
                    v1::PushResponse* response) {
    grpc::ClientContext context;
    SetDeadline(&context);
    return stub_->PushSparse(&context, request, response);
  }
  grpc::Status Push(const v1::PushSparseRequest& request) {
    v1::PushResponse response;
    return Push(request, &response);
  }
  sparse_table::SparseTable& sparse() {
    return *(*registry_->Find(TableId(1)))->sparse;
  }

  // Calls that the service has left behind use these.
  const FakeClock clock_;
  uint64_t max_held_bytes_ = uint64_t{1} << 30;
  std::unique_ptr<HoldBudget> holds_;
  std::unique_ptr<WorkerFences> fences_;
  std::unique_ptr<PushLedger> ledger_;
  std::unique_ptr<TableRegistry> registry_;
  std::unique_ptr<ParameterService> service_;
  std::unique_ptr<CallQueues> queues_;
  std::unique_ptr<grpc::Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::ParameterService::Stub> stub_;
};

// An error of one line with these fragments.
inline void ExpectError(const grpc::Status& status, grpc::StatusCode code,
                        const std::vector<std::string>& fragments = {}) {
  EXPECT_EQ(status.error_code(), code) << status.error_message();
  for (const std::string& fragment : fragments) {
    EXPECT_TRUE(absl::StrContains(status.error_message(), fragment))
        << status.error_message();
  }
  EXPECT_FALSE(absl::StrContains(status.error_message(), "\n"));
}

}  // namespace oarlock::pserver

#endif  // OARLOCK_TESTS_PSERVER_SERVICE_PARAMETER_SERVICE_TESTING_H_
