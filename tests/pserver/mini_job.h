// The servers of a job inside this process, on loopback, and what a worker's
// control plane would call.

#ifndef OARLOCK_TESTS_PSERVER_MINI_JOB_H_
#define OARLOCK_TESTS_PSERVER_MINI_JOB_H_

#include <arpa/inet.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/metrics.h"
#include "cluster/retry.h"
#include "cluster/security.h"
#include "cluster/wire_version.h"
#include "proto/v1/coordinator_service.grpc.pb.h"
#include "proto/v1/parameter.grpc.pb.h"
#include "proto/v1/server_admin_service.grpc.pb.h"
#include "pserver/server.h"
#include "tests/base/eventually.h"
#include "tests/base/skippable_clock.h"

namespace oarlock::pserver {

// A listening socket on 127.0.0.1.
class Listener {
 public:
  Listener() : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(fd_, 1), 0);
    EXPECT_EQ(getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size),
              0);
    port_ = ntohs(address.sin_port);
  }
  ~Listener() { close(fd_); }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;
  int port() const { return port_; }

 private:
  const int fd_;
  int port_ = 0;
};

// A connection to one server.
class Client {
 public:
  explicit Client(const std::string& endpoint, std::string token = "")
      : channel_(grpc::CreateCustomChannel(endpoint,
                                           grpc::InsecureChannelCredentials(),
                                           cluster::MakeChannelArguments())),
        admin_(v1::ServerAdminService::NewStub(channel_)),
        coordinator_(v1::CoordinatorService::NewStub(channel_)),
        parameter_(v1::ParameterService::NewStub(channel_)),
        token_(std::move(token)) {}

  // Calls a method of a stub of the control plane or of the data plane.
  template <typename Stub, typename Request, typename Response>
  absl::Status Admin(grpc::Status (Stub::*method)(grpc::ClientContext*,
                                                  const Request&, Response*),
                     const Request& request, Response* response) {
    grpc::ClientContext context;
    Prepare(&context);
    if constexpr (std::is_same_v<Stub, v1::CoordinatorService::Stub>) {
      return cluster::FromGrpc(
          ((*coordinator_).*method)(&context, request, response));
    } else {
      return cluster::FromGrpc(
          ((*admin_).*method)(&context, request, response));
    }
  }
  template <typename Method, typename Request, typename Response>
  absl::Status Data(Method method, const Request& request, Response* response) {
    grpc::ClientContext context;
    Prepare(&context);
    return cluster::FromGrpc(
        ((*parameter_).*method)(&context, request, response));
  }

  absl::Status Connect(const std::string& job_id,
                       uint32_t version = cluster::kProtocolVersion) {
    v1::ConnectRequest request;
    request.set_job_id(job_id);
    request.set_protocol_version(version);
    request.set_client("test");
    v1::ConnectResponse response;
    return Admin(&v1::ServerAdminService::Stub::Connect, request, &response);
  }
  uint64_t Register(uint32_t worker) {
    v1::RegisterWorkerRequest request;
    request.set_worker_index(worker);
    request.set_protocol_version(cluster::kProtocolVersion);
    v1::RegisterWorkerResponse response;
    const absl::Status status = Admin(
        &v1::CoordinatorService::Stub::RegisterWorker, request, &response);
    EXPECT_TRUE(status.ok()) << status;
    return response.worker_generation();
  }
  absl::Status Heartbeat(uint32_t worker, uint64_t generation,
                         v1::HeartbeatResponse* response = nullptr) {
    v1::HeartbeatRequest request;
    request.set_worker_index(worker);
    request.set_worker_generation(generation);
    v1::HeartbeatResponse ignored;
    return Admin(&v1::CoordinatorService::Stub::Heartbeat, request,
                 response == nullptr ? &ignored : response);
  }
  absl::Status Finish(uint32_t worker, uint64_t generation,
                      bool succeeded = true, const std::string& why = "") {
    v1::FinishWorkerRequest request;
    request.set_worker_index(worker);
    request.set_worker_generation(generation);
    request.set_succeeded(succeeded);
    request.set_reason(why);
    v1::FinishWorkerResponse response;
    const absl::Status status =
        Admin(&v1::CoordinatorService::Stub::FinishWorker, request, &response);
    // That the response was heard. A worker that gave up is not waited for.
    if (status.ok() && succeeded) Heartbeat(worker, generation).IgnoreError();
    return status;
  }
  absl::Status Barrier(const std::string& name, uint32_t worker,
                       uint64_t generation, uint32_t wait_ms) {
    v1::BarrierRequest request;
    request.set_name(name);
    request.set_worker_index(worker);
    request.set_worker_generation(generation);
    request.set_wait_ms(wait_ms);
    v1::BarrierResponse response;
    return Admin(&v1::CoordinatorService::Stub::Barrier, request, &response);
  }
  absl::Status CreateTable(v1::UpdateMode mode, uint32_t dim = 2) {
    v1::CreateTableRequest request;
    v1::TableConfig* config = request.mutable_config();
    config->set_id(1);
    config->set_name("embedding");
    config->set_mode(mode);
    config->set_reduction(v1::SUM);
    config->mutable_optimizer()->set_learning_rate(0.1f);
    config->mutable_optimizer()->mutable_sgd();
    config->mutable_sparse()->set_dim(dim);
    config->mutable_sparse()->set_accessor(v1::PLAIN);
    v1::CreateTableResponse response;
    return Admin(&v1::ServerAdminService::Stub::CreateTable, request,
                 &response);
  }
  absl::Status SetRoundMembership(uint32_t worker, uint64_t generation,
                                  bool joins, uint64_t number = 0) {
    v1::RoundMembershipRequest request;
    request.set_worker_index(worker);
    request.set_worker_generation(generation);
    request.set_joins(joins);
    request.set_request(number);
    v1::RoundMembershipResponse response;
    return Admin(&v1::ServerAdminService::Stub::SetRoundMembership, request,
                 &response);
  }
  // Of a push of one message, in round 1.
  static v1::RequestHeader PushHeader(uint32_t worker, uint64_t generation,
                                      uint64_t sequence) {
    v1::RequestHeader header;
    header.set_protocol_version(cluster::kProtocolVersion);
    header.set_job_hash(cluster::JobHash("default"));
    header.set_worker_index(worker);
    header.set_worker_generation(generation);
    header.set_sequence(sequence);
    header.set_oldest_unanswered(sequence);
    header.set_routing_generation(1);
    header.set_message_count(1);
    header.set_table_message_count(1);
    header.set_round(1);
    return header;
  }
  // A push without rows.
  absl::Status Push(uint32_t worker, uint64_t generation, uint64_t sequence) {
    v1::PushSparseRequest request;
    *request.mutable_header() = PushHeader(worker, generation, sequence);
    request.set_table(1);
    v1::PushResponse response;
    return Data(&v1::ParameterService::Stub::PushSparse, request, &response);
  }

  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }

 private:
  void Prepare(grpc::ClientContext* context) const {
    context->set_deadline(GrpcDeadline(absl::Minutes(1)));
    if (!token_.empty())
      context->AddMetadata(cluster::kTokenMetadataKey, token_);
  }

  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<v1::ServerAdminService::Stub> admin_;
  const std::unique_ptr<v1::CoordinatorService::Stub> coordinator_;
  const std::unique_ptr<v1::ParameterService::Stub> parameter_;
  const std::string token_;
};

// Servers on free ports, which live by one clock. `change` adapts the options
// of each.
class MiniJob {
 public:
  explicit MiniJob(uint32_t num_servers, uint32_t num_workers,
                   const std::function<void(ServerOptions*)>& change = {}) {
    ServerOptions options;
    options.num_workers = num_workers;
    options.num_partitions = 16;
    options.num_threads = 1;
    // Nobody waits for what could be noticed at once.
    options.deadline_interval = absl::Milliseconds(5);
    options.heartbeat_interval = absl::Milliseconds(10);
    options.drain_grace = absl::Milliseconds(100);
    options.clocks = {.wall = &clock_, .monotonic = &clock_};
    {
      std::vector<std::unique_ptr<Listener>> listeners;
      for (uint32_t i = 0; i < num_servers; ++i) {
        listeners.push_back(std::make_unique<Listener>());
        options.server_endpoints.push_back(
            absl::StrCat("127.0.0.1:", listeners.back()->port()));
      }
    }
    for (uint32_t i = 0; i < num_servers; ++i) {
      options.server_index = i;
      ServerOptions own = options;
      if (change) change(&own);
      options_.push_back(own);
      servers_.emplace_back();
      Start(i);
      clients_.push_back(std::make_unique<Client>(options.server_endpoints[i]));
    }
  }

  void Start(uint32_t server) {
    auto started = Server::Start(options_[server]);
    ASSERT_TRUE(started.ok()) << started.status();
    servers_[server] = *std::move(started);
  }

  Server& server(uint32_t index) { return *servers_[index]; }
  Client& client(uint32_t index) { return *clients_[index]; }
  const ServerOptions& options(uint32_t index) { return options_[index]; }
  SkippableClock& clock() { return clock_; }

  // Moves the clock on until `condition` holds; whether it does. In steps that
  // the coordinator sees one by one: it takes a longer one for a standstill of
  // its own, and extends all leases. `renew` is called after each.
  bool SkipLeasesUntil(
      const std::function<bool()>& condition,
      const std::function<void()>& renew = [] {}) {
    return Eventually([&] {
      if (condition()) return true;
      const double before = LogicalTime();
      clock_.Skip(options_[0].lease / 4);
      renew();
      return Eventually(
                 [&] { return LogicalTime() > before || condition(); }) &&
             condition();
    });
  }

 private:
  // The coordinator's, in ticks: its checks of deadlines move it on.
  double LogicalTime() {
    MetricsSnapshot snapshot;
    servers_[0]->CollectMetrics(&snapshot);
    return snapshot.families()
        .at("oarlock_server_logical_time_ticks")
        .samples[0]
        .value;
  }

  SkippableClock clock_;
  std::vector<ServerOptions> options_;
  std::vector<std::unique_ptr<Server>> servers_;
  std::vector<std::unique_ptr<Client>> clients_;
};

}  // namespace oarlock::pserver

#endif  // OARLOCK_TESTS_PSERVER_MINI_JOB_H_
