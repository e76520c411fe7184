#include "tests/integration/mini_cluster.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"

namespace oarlock {
namespace {

// `count` ports of 127.0.0.1 that nobody listens on, all different.
std::vector<int> FreePorts(uint32_t count) {
  std::vector<int> sockets;
  std::vector<int> ports;
  for (uint32_t i = 0; i < count; ++i) {
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    OARLOCK_CHECK(fd >= 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    auto* const generic = reinterpret_cast<sockaddr*>(&address);
    OARLOCK_CHECK(bind(fd, generic, size) == 0);
    OARLOCK_CHECK(getsockname(fd, generic, &size) == 0);
    sockets.push_back(fd);
    ports.push_back(ntohs(address.sin_port));
  }
  for (int fd : sockets) close(fd);
  return ports;
}

}  // namespace

MiniCluster::MiniCluster(const MiniClusterOptions& options)
    : options_(options), servers_(options.num_servers) {
  for (int port : FreePorts(options.num_servers)) {
    endpoints_.push_back(absl::StrCat("127.0.0.1:", port));
  }
}

MiniCluster::~MiniCluster() {
  while (!servers_.empty()) servers_.pop_back();
}

std::unique_ptr<MiniCluster> MiniCluster::Reserve(
    const MiniClusterOptions& options) {
  return absl::WrapUnique(new MiniCluster(options));
}

absl::StatusOr<std::unique_ptr<MiniCluster>> MiniCluster::Start(
    const MiniClusterOptions& options) {
  for (int attempt = 1;; ++attempt) {
    std::unique_ptr<MiniCluster> cluster = Reserve(options);
    absl::Status status;
    for (uint32_t i = 0; i < options.num_servers && status.ok(); ++i) {
      status = cluster->StartServer(i);
    }
    if (status.ok()) return cluster;
    if (!absl::IsAlreadyExists(status) || attempt == kMaxStartAttempts) {
      return status;
    }
  }
}

absl::Status MiniCluster::StartServer(uint32_t index) {
  pserver::ServerOptions server;
  server.server_endpoints = endpoints_;
  server.server_index = index;
  server.job_id = options_.job_id;
  server.num_workers = options_.num_workers;
  server.num_partitions = options_.num_partitions;
  server.lease = options_.lease;
  server.restart_grace = options_.restart_grace;
  server.drain_grace = absl::Milliseconds(200);
  server.num_threads = 2;
  server.clocks = options_.server_clocks;
  if (options_.adjust) options_.adjust(&server);
  OARLOCK_ASSIGN_OR_RETURN(servers_[index], pserver::Server::Start(server));
  return absl::OkStatus();
}

client::ConnectionOptions MiniCluster::Connection() const {
  client::ConnectionOptions connection;
  connection.endpoints = endpoints_;
  connection.job_id = options_.job_id;
  connection.client_name = "test";
  connection.connect_timeout = options_.connect_timeout;
  connection.rpc_timeout = options_.rpc_timeout;
  connection.accept_loss = options_.accept_loss;
  connection.clocks = options_.client_clocks;
  return connection;
}

absl::StatusOr<std::unique_ptr<MiniWorker>> MiniWorker::Join(
    const MiniCluster& cluster, uint32_t index) {
  auto worker = std::make_unique<MiniWorker>();
  OARLOCK_ASSIGN_OR_RETURN(
      worker->connections_,
      client::ServerConnections::Connect(cluster.Connection()));
  OARLOCK_ASSIGN_OR_RETURN(
      worker->job_, client::GrpcJobClient::Register(worker->connections_.get(),
                                                    WorkerIndex(index)));
  worker->parameters_ = std::make_unique<client::GrpcParameterClient>(
      worker->connections_.get(), WorkerIndex(index),
      worker->job_->generation());
  return worker;
}

}  // namespace oarlock
