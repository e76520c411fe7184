#include "client/server_connections.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <string>

#include "base/clock.h"
#include "cluster/retry.h"
#include "cluster/wire_version.h"
#include "tests/integration/mini_cluster.h"

namespace oarlock::client {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string Text(const absl::Status& status) {
  EXPECT_THAT(std::string(status.message()), Not(HasSubstr("\n")));
  return std::string(status.message());
}

std::unique_ptr<MiniCluster> StartCluster(uint32_t num_servers,
                                          uint32_t num_workers = 1) {
  MiniClusterOptions options;
  options.num_servers = num_servers;
  options.num_workers = num_workers;
  absl::StatusOr<std::unique_ptr<MiniCluster>> cluster =
      MiniCluster::Start(options);
  EXPECT_TRUE(cluster.ok()) << cluster.status();
  return *std::move(cluster);
}

TEST(ServerConnectionsTest, TellsWhatTheServersAre) {
  const auto cluster = StartCluster(3, 5);
  const auto connections = ServerConnections::Connect(cluster->Connection());
  ASSERT_TRUE(connections.ok()) << connections.status();
  EXPECT_EQ((*connections)->num_workers(), 5u);
  EXPECT_EQ((*connections)->job_hash(), cluster::JobHash("mini"));
  EXPECT_EQ((*connections)->partition_map().num_servers(), 3u);
  EXPECT_EQ((*connections)->partition_map().partition_bits(), 6);
  ASSERT_EQ((*connections)->servers().size(), 3u);
  for (uint32_t i = 0; i < 3; ++i) {
    EXPECT_EQ((*connections)->generation(ServerIndex(i)),
              cluster->server(i).generation());
  }
  EXPECT_EQ((*connections)->Name(ServerIndex(1)),
            "server 1 at " + cluster->endpoints()[1]);
}

TEST(ServerConnectionsTest, EmptyListIsRefused) {
  const absl::Status status =
      ServerConnections::Connect(ConnectionOptions()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Text(status), HasSubstr("127.0.0.1:6174"));
}

TEST(ServerConnectionsTest, OtherJobIsRefusedAtOnce) {
  const auto cluster = StartCluster(1);
  ConnectionOptions options = cluster->Connection();
  options.job_id = "another";
  options.connect_timeout = absl::Minutes(10);
  const absl::Status status = ServerConnections::Connect(options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(Text(status), HasSubstr("'mini'"));
  EXPECT_THAT(Text(status), HasSubstr("'another'"));
  EXPECT_THAT(Text(status), HasSubstr("server 0 at"));
}

TEST(ServerConnectionsTest, ListInAnotherOrderIsRefused) {
  const auto cluster = StartCluster(2);
  ConnectionOptions options = cluster->Connection();
  std::swap(options.endpoints[0], options.endpoints[1]);
  const absl::Status status = ServerConnections::Connect(options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(Text(status),
              HasSubstr(cluster->endpoints()[1] +
                        " is server 1, but it stands at place 0"));
}

TEST(ServerConnectionsTest, ListOfAnotherLengthIsRefused) {
  const auto cluster = StartCluster(2);
  ConnectionOptions options = cluster->Connection();
  options.endpoints.pop_back();
  const absl::Status status = ServerConnections::Connect(options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(Text(status), HasSubstr("has 2 servers, this worker's has 1"));
}

TEST(ServerConnectionsTest, MissingServerIsNamedAfterTheConnectTimeout) {
  MiniClusterOptions mini;
  mini.num_servers = 2;
  mini.connect_timeout = absl::Milliseconds(500);
  const SkippingClock clock;
  mini.client_clocks = {.wall = &clock, .monotonic = &clock};
  const auto cluster = MiniCluster::Reserve(mini);
  ASSERT_TRUE(cluster->StartServer(0).ok());
  const absl::Status status =
      ServerConnections::Connect(cluster->Connection()).status();
  EXPECT_EQ(clock.Now() - absl::UnixEpoch(), mini.connect_timeout);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(Text(status),
              HasSubstr("no server answered at " + cluster->endpoints()[1] +
                        " within 500ms"));
  EXPECT_THAT(Text(status), HasSubstr("start server 1 there"));
}

TEST(ServerConnectionsTest, ServersMayStartAfterTheirWorkers) {
  MiniClusterOptions mini;
  mini.num_servers = 2;
  const auto cluster = MiniCluster::Reserve(mini);
  auto connecting = std::async(std::launch::async, [&] {
    return ServerConnections::Connect(cluster->Connection()).status();
  });
  // The last one first.
  ASSERT_TRUE(cluster->StartServer(1).ok());
  ASSERT_TRUE(cluster->StartServer(0).ok());
  EXPECT_TRUE(connecting.get().ok());
}

TEST(ServerConnectionsTest, ControlCallIsGivenUpAfterTheRpcTimeout) {
  const auto cluster = StartCluster(1);
  const SkippingClock clock;
  ConnectionOptions options = cluster->Connection();
  options.rpc_timeout = absl::Seconds(10);
  options.clocks.monotonic = &clock;
  const auto connections = ServerConnections::Connect(options);
  ASSERT_TRUE(connections.ok()) << connections.status();
  const absl::Time start = clock.Now();
  int attempts = 0;
  const absl::Status status =
      (*connections)
          ->CallWithRetries(ServerIndex(0), [&](grpc::ClientContext*) {
            ++attempts;
            return grpc::Status(grpc::StatusCode::UNAVAILABLE, "away");
          });
  EXPECT_GE(clock.Now() - start, options.rpc_timeout);
  // The last pause, with its jitter.
  EXPECT_LE(clock.Now() - start,
            options.rpc_timeout + 1.2 * cluster::kAwayRetries.max_backoff);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(Text(status), HasSubstr("server 0 at"));
  EXPECT_THAT(Text(status), HasSubstr("did not answer within 10s"));
  EXPECT_GE(attempts, 40);
}

TEST(ServerConnectionsTest, ControlCallToAServerThatIsGoneIsGivenUp) {
  const auto cluster = StartCluster(1);
  SkippingClock clock;
  ConnectionOptions options = cluster->Connection();
  options.rpc_timeout = absl::Milliseconds(300);
  options.clocks.monotonic = &clock;
  const auto connections = ServerConnections::Connect(options);
  ASSERT_TRUE(connections.ok()) << connections.status();
  cluster->StopServer(0);
  int attempts = 0;
  const absl::Status status =
      (*connections)
          ->CallWithRetries(ServerIndex(0), [&](grpc::ClientContext* context) {
            ++attempts;
            v1::JobStatusResponse response;
            // It takes as long as it may.
            clock.Advance(options.rpc_timeout);
            return (*connections)
                ->coordinator()
                .GetJobStatus(context, v1::JobStatusRequest(), &response);
          });
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(Text(status), HasSubstr("server 0 at"));
  EXPECT_EQ(attempts, 1);
}

TEST(ServerConnectionsTest, RefusalIsNotRetried) {
  const auto cluster = StartCluster(1);
  const auto connections = ServerConnections::Connect(cluster->Connection());
  ASSERT_TRUE(connections.ok()) << connections.status();
  int attempts = 0;
  const absl::Status status =
      (*connections)
          ->CallWithRetries(ServerIndex(0), [&](grpc::ClientContext*) {
            ++attempts;
            return grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "no");
          });
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(attempts, 1);
}

}  // namespace
}  // namespace oarlock::client
