// The rendezvous over the wire: a server and its clients in one process.

#include "launch/node_rendezvous_client.h"

#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "cluster/retry.h"
#include "cluster/security.h"
#include "launch/machine.h"
#include "launch/node_rendezvous.h"
#include "launch/node_rendezvous_server.h"
#include "tests/base/eventually.h"
#include "tests/base/test_folder.h"

namespace oarlock::launch {
namespace {

using ::testing::HasSubstr;

constexpr int kNodes = 3;
constexpr absl::Duration kHeartbeatTimeout = absl::Seconds(2);
constexpr absl::Duration kRendezvousTimeout = absl::Hours(1);
// Between two reports of who waits.
const absl::Duration kStep = kHeartbeatTimeout / kHeartbeatsPerTimeout / 4;

class NodeRendezvousClientTest : public testing::Test {
 protected:
  NodeRendezvousClientTest() {
    const auto ports = FreePorts(1);
    EXPECT_TRUE(ports.ok()) << ports.status();
    endpoint_ = absl::StrCat("127.0.0.1:", ports.ok() ? ports->front() : 0);
  }
  ~NodeRendezvousClientTest() override {
    clients_.clear();
    // Some have not heard the last word, and time goes by until it stops
    // waiting for them.
    InBackground([this] { server_.reset(); },
                 [this](const auto& is_over) {
                   EXPECT_TRUE(Eventually([&] {
                     clock_.Advance(kHeartbeatTimeout);
                     return is_over();
                   }));
                 });
  }

  // Calls `function` in a thread of its own, and meanwhile `wait`.
  static void InBackground(
      const std::function<void()>& function,
      const std::function<void(const std::function<bool()>& is_over)>& wait) {
    std::atomic<bool> over = false;
    std::thread thread([&] {
      function();
      over = true;
    });
    wait([&] { return over.load(); });
    thread.join();
  }

  // Lets time go by step by step until `condition`. All who report or count
  // reports have done in each step what there is to do.
  bool AdvanceUntil(const std::function<bool()>& condition,
                    absl::Duration step = kStep) {
    const size_t num_threads = clients_.size() + (server_ == nullptr ? 0 : 1);
    return Eventually([&] {
      if (condition()) return true;
      if (clock_.AwaitWaiters(num_threads)) clock_.Advance(step);
      return false;
    });
  }

  static v1::NodeShare ShareOf(int id) {
    v1::NodeShare share;
    share.set_host(absl::StrCat("h", id));
    share.set_collective(true);
    share.add_worker_ports(id);
    return share;
  }
  static v1::NodeReport ReportOf(int id) {
    v1::NodeReport report;
    report.set_protocol_version(kNodeRendezvousVersion);
    report.set_job_id("job");
    report.set_num_nodes(kNodes);
    report.set_max_restart(1);
    report.set_launcher_id(id);
    report.set_rank(-1);
    return report;
  }

  void Serve(const cluster::SecurityOptions& security = {}) {
    v1::NodeReport expected = ReportOf(1);
    *expected.mutable_ready() = ShareOf(1);
    auto server =
        NodeRendezvousServer::Start({.expected = expected,
                                     .endpoint = endpoint_,
                                     .rendezvous_timeout = kRendezvousTimeout,
                                     .heartbeat_timeout = kHeartbeatTimeout},
                                    security, clock_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  std::unique_ptr<NodeRendezvousClient> NewClient(
      int id, const std::string& token = "",
      absl::Duration timeout = kRendezvousTimeout) {
    auto credentials = cluster::MakeChannelCredentials({}, {});
    EXPECT_TRUE(credentials.ok()) << credentials.status();
    return std::make_unique<NodeRendezvousClient>(
        NodeRendezvousClient::Options{.report = ReportOf(id),
                                      .endpoint = endpoint_,
                                      .token = token,
                                      .rendezvous_timeout = timeout,
                                      .heartbeat_timeout = kHeartbeatTimeout,
                                      .clocks = {&clock_, &clock_}},
        grpc::CreateCustomChannel(endpoint_, *credentials,
                                  cluster::MakeChannelArguments()));
  }

  // Calls `function` for each client in a thread of its own, while time goes
  // by.
  template <typename Function>
  void OnEach(Function function) {
    std::atomic<int> num_over = 0;
    std::vector<std::thread> threads;
    for (int i = 0; i < kNodes; ++i) {
      threads.emplace_back([&, i] {
        function(i, *clients_[i]);
        ++num_over;
      });
    }
    EXPECT_TRUE(AdvanceUntil([&] { return num_over == kNodes; }));
    for (std::thread& thread : threads) thread.join();
  }
  void JoinAll(uint32_t attempt) {
    OnEach([attempt](int i, NodeRendezvousClient& client) {
      const auto joined = client.Join(ShareOf(i + 1));
      ASSERT_TRUE(joined.ok()) << joined.status();
      EXPECT_EQ(joined->attempt(), attempt);
      ASSERT_EQ(joined->nodes_size(), kNodes);
      EXPECT_EQ(joined->nodes(joined->node()).host(), absl::StrCat("h", i + 1));
      EXPECT_EQ(joined->nodes(0).host(), "h1");
    });
  }
  void ServeAndConnect() {
    Serve();
    for (int id = 1; id <= kNodes; ++id) clients_.push_back(NewClient(id));
  }

  FakeClock clock_;
  std::string endpoint_;
  std::unique_ptr<NodeRendezvousServer> server_;
  std::vector<std::unique_ptr<NodeRendezvousClient>> clients_;
};

TEST_F(NodeRendezvousClientTest, NodesMeetStartAgainAfterAFailureAndAreDone) {
  ServeAndConnect();
  JoinAll(0);
  OnEach([](int i, NodeRendezvousClient& client) {
    const v1::AttemptOver over =
        i == 1 ? client.Failed("worker 1 ended with signal 9", false)
               : client.Done();
    EXPECT_TRUE(over.again());
    EXPECT_THAT(over.reason(), HasSubstr("worker 1 ended with signal 9"));
  });
  JoinAll(1);
  OnEach([](int i, NodeRendezvousClient& client) {
    EXPECT_TRUE(client.Done().success());
  });
}

TEST_F(NodeRendezvousClientTest, ALauncherThatIsGoneIsNamedToTheOthers) {
  ServeAndConnect();
  JoinAll(0);
  clients_.pop_back();
  for (const auto& client : clients_) {
    ASSERT_TRUE(AdvanceUntil([&] { return client->over().has_value(); }));
    EXPECT_TRUE(client->over()->again());
    EXPECT_THAT(client->over()->reason(), HasSubstr("sent no heartbeat"));
  }
}

TEST_F(NodeRendezvousClientTest, WhenNodeZeroIsGoneTheOthersSaySo) {
  ServeAndConnect();
  JoinAll(0);
  InBackground([this] { server_.reset(); },
               [this](const auto&) {
                 // It counts, and gives the clients the time to hear a last
                 // word.
                 EXPECT_TRUE(clock_.AwaitWaiters(kNodes + 2));
                 clock_.Advance(kHeartbeatTimeout);
               });
  for (const auto& client : clients_) {
    ASSERT_TRUE(AdvanceUntil([&] { return client->over().has_value(); },
                             kHeartbeatTimeout / kHeartbeatsPerTimeout));
    EXPECT_THAT(
        client->over()->reason(),
        HasSubstr(absl::StrCat("node 0 (", endpoint_, ") sent no heartbeat")));
  }
}

TEST_F(NodeRendezvousClientTest, WhereNobodyListensTheErrorNamesTheMaster) {
  clients_.push_back(NewClient(1, "", absl::Seconds(1)));
  absl::StatusOr<v1::NodesReady> joined;
  InBackground([&] { joined = clients_[0]->Join(ShareOf(1)); },
               [this](const auto& is_over) {
                 EXPECT_TRUE(AdvanceUntil(is_over, absl::Seconds(1)));
               });
  EXPECT_EQ(joined.status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(joined.status().message()),
              HasSubstr("node 0 did not answer at --master " + endpoint_ +
                        " within 1s"));
}

TEST_F(NodeRendezvousClientTest, AWrongTokenIsRefusedAtOnce) {
  const TestFolder folder;
  cluster::SecurityOptions security;
  security.token_file = folder.Write("token", "secret");
  Serve(security);
  const auto joined = NewClient(2, "guess")->Join(ShareOf(2));
  EXPECT_EQ(joined.status().code(), absl::StatusCode::kUnauthenticated);
  EXPECT_THAT(std::string(joined.status().message()), HasSubstr("node 0 at"));
}

}  // namespace
}  // namespace oarlock::launch
