#include "launch/node_rendezvous.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/clock.h"

namespace oarlock::launch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int kNodes = 3;

class NodeRendezvousTest : public testing::Test {
 protected:
  explicit NodeRendezvousTest(int max_restart = 1)
      : max_restart_(max_restart), rendezvous_(Options(), clock_) {}

  v1::NodeReport From(int id, int rank = -1) const {
    v1::NodeReport report;
    report.set_protocol_version(kNodeRendezvousVersion);
    report.set_job_id("job");
    report.set_num_nodes(kNodes);
    report.set_max_restart(max_restart_);
    report.set_launcher_id(id);
    report.set_rank(rank);
    return report;
  }
  // Its only port is `id`.
  v1::NodeReport ReadyOf(int id, int rank = -1) const {
    v1::NodeReport report = From(id, rank);
    report.mutable_ready()->set_host(absl::StrCat("h", id));
    report.mutable_ready()->set_collective(true);
    report.mutable_ready()->add_worker_ports(id);
    return report;
  }
  NodeRendezvous::Options Options() const {
    return {.expected = ReadyOf(100),
            .endpoint = "h100:1",
            .rendezvous_timeout = absl::Seconds(2),
            .heartbeat_timeout = absl::Seconds(1)};
  }

  v1::NodeReportResponse Report(const v1::NodeReport& report) {
    const auto response = rendezvous_.Report(report);
    EXPECT_TRUE(response.ok()) << response.status();
    return response.ok() ? *response : v1::NodeReportResponse();
  }
  v1::NodeReportResponse Ready(int id, int rank = -1) {
    return Report(ReadyOf(id, rank));
  }
  v1::NodeReportResponse Running(int id, uint32_t attempt) {
    v1::NodeReport report = From(id);
    report.set_running(attempt);
    return Report(report);
  }
  v1::NodeReportResponse Done(int id, uint32_t attempt) {
    v1::NodeReport report = From(id);
    report.set_done(attempt);
    return Report(report);
  }
  v1::NodeReportResponse Failed(int id, uint32_t attempt, bool final = false) {
    v1::NodeReport report = From(id);
    report.mutable_failed()->set_attempt(attempt);
    report.mutable_failed()->set_what("worker 7 ended with signal 9");
    report.mutable_failed()->set_final(final);
    return Report(report);
  }
  // All three come and run the first attempt; 100 is node 0.
  void Begin() {
    for (int id : {100, 1, 2, 100, 1}) Ready(id);
    for (int id : {100, 1, 2}) ASSERT_TRUE(Running(id, 0).has_ready());
  }
  // The others' reports come, and time goes by, but nothing from `silent`.
  void MissHeartbeatsOf(int silent, uint32_t attempt) {
    for (int tick = 0; tick <= kHeartbeatsPerTimeout; ++tick) {
      for (int id : {100, 1, 2}) {
        if (id != silent) Running(id, attempt);
      }
      rendezvous_.Tick();
    }
  }
  std::string RefusalOf(const v1::NodeReport& report) {
    return std::string(rendezvous_.Report(report).status().message());
  }

  const int max_restart_;
  FakeClock clock_;
  NodeRendezvous rendezvous_;
};

class NodeRendezvousWithoutRestartTest : public NodeRendezvousTest {
 protected:
  NodeRendezvousWithoutRestartTest() : NodeRendezvousTest(0) {}
};

std::vector<int> PortsOf(const v1::NodeReportResponse& response) {
  std::vector<int> ports;
  for (const v1::NodeShare& share : response.ready().nodes()) {
    ports.push_back(share.worker_ports(0));
  }
  return ports;
}

TEST_F(NodeRendezvousTest, NodesWithoutARankAreNumberedInOrderOfArrival) {
  // Node 0's own report may come after the others'.
  EXPECT_EQ(Ready(2).waiting().missing(), "node 0 (h100), node 2");
  EXPECT_EQ(Ready(100).waiting().missing(), "node 2");
  const v1::NodeReportResponse last = Ready(1);
  EXPECT_THAT(PortsOf(last), ElementsAre(100, 2, 1));
  EXPECT_EQ(last.ready().node(), 2u);
  EXPECT_EQ(Ready(2).ready().node(), 1u);
  EXPECT_EQ(Ready(100).ready().node(), 0u);
}

TEST_F(NodeRendezvousTest, AGivenRankIsKeptFromThoseWithout) {
  Ready(5);
  EXPECT_EQ(Ready(6, 1).waiting().missing(), "node 0 (h100)");
  EXPECT_THAT(PortsOf(Ready(100)), ElementsAre(100, 6, 5));
}

TEST_F(NodeRendezvousTest, WhoDoesNotBelongIsToldWhy) {
  Ready(1, 1);
  v1::NodeReport other = ReadyOf(9);
  other.set_job_id("x");
  EXPECT_THAT(RefusalOf(other),
              HasSubstr("--job_id is \"x\" here and \"job\""));
  other = ReadyOf(9);
  other.set_num_nodes(4);
  EXPECT_THAT(RefusalOf(other), HasSubstr("--nnodes is 4 here and 3 on node"));
  other = ReadyOf(9);
  other.set_max_restart(7);
  EXPECT_THAT(RefusalOf(other), HasSubstr("--max_restart is 7 here and 1"));
  other = ReadyOf(9);
  other.mutable_ready()->set_collective(false);
  EXPECT_THAT(RefusalOf(other), HasSubstr("the job is one with servers here"));
  EXPECT_THAT(RefusalOf(ReadyOf(9, 3)), HasSubstr("--rank is 3; it must be"));
  EXPECT_THAT(RefusalOf(ReadyOf(9, 1)),
              HasSubstr("node 1 (h1) has come already"));
  EXPECT_THAT(RefusalOf(ReadyOf(9, 0)), HasSubstr("node 0 (h100) has come"));
  Ready(2);
  EXPECT_THAT(RefusalOf(ReadyOf(9)), HasSubstr("are all nodes of the job"));
  // None of them has taken a place.
  EXPECT_THAT(PortsOf(Ready(100)), ElementsAre(100, 1, 2));
}

TEST_F(NodeRendezvousTest, WhoHasNotComeInTimeIsNamed) {
  const int ticks = 2 * kHeartbeatsPerTimeout;
  for (int tick = 0; tick < ticks; ++tick) {
    EXPECT_TRUE(Ready(100).has_waiting());
    EXPECT_TRUE(Ready(1).has_waiting());
    rendezvous_.Tick();
  }
  const v1::AttemptOver over = Ready(1).over();
  EXPECT_FALSE(over.success() || over.again());
  EXPECT_EQ(over.reason(), "node 2 did not come to h100:1 within 2s");
}

TEST_F(NodeRendezvousTest, AJobIsDoneWhenAllNodesAre) {
  Begin();
  EXPECT_TRUE(Done(1, 0).has_ready());
  EXPECT_TRUE(Done(100, 0).has_ready());
  EXPECT_TRUE(Done(2, 0).over().success());
  EXPECT_TRUE(Done(1, 0).over().success());
  EXPECT_TRUE(Done(100, 0).over().success());
  rendezvous_.AwaitAllNotified(absl::InfiniteDuration());
}

TEST_F(NodeRendezvousTest, AFailureStartsAllNodesAgainAndThenEndsTheJob) {
  Begin();
  // One that is done already takes part in the next attempt.
  Done(1, 0);
  EXPECT_TRUE(Failed(2, 0).over().again());
  const v1::AttemptOver over = Running(100, 0).over();
  EXPECT_TRUE(over.again());
  EXPECT_EQ(over.reason(), "node 2 (h2): worker 7 ended with signal 9");
  EXPECT_TRUE(Done(1, 0).over().again());
  // What node 100 says because of node 2 does not count.
  EXPECT_EQ(Failed(100, 0).over().reason(), over.reason());
  EXPECT_EQ(Ready(2).waiting().missing(), "node 0 (h100), node 1 (h1)");
  Ready(1);
  EXPECT_EQ(Ready(100).ready().attempt(), 1u);
  EXPECT_EQ(Ready(1).ready().node(), 1u);
  EXPECT_TRUE(Running(1, 1).has_ready());
  const v1::AttemptOver end = Failed(1, 1).over();
  EXPECT_FALSE(end.again() || end.success());
  EXPECT_FALSE(Running(2, 1).over().again());
}

TEST_F(NodeRendezvousTest, AFinalFailureIsNotTriedAgain) {
  Begin();
  EXPECT_FALSE(Failed(2, 0, /*final=*/true).over().again());
}

TEST_F(NodeRendezvousTest, AFinalFailureEndsAJobThatWaitsForTheNextAttempt) {
  Begin();
  EXPECT_TRUE(Failed(2, 0).over().again());
  Ready(100);
  const v1::AttemptOver over = Failed(1, 0, /*final=*/true).over();
  EXPECT_FALSE(over.again());
  EXPECT_THAT(over.reason(), HasSubstr("node 1 (h1): worker 7"));
  EXPECT_FALSE(Ready(2).over().again());
}

TEST_F(NodeRendezvousTest, NodesOfARendezvousBeforeThisOneAreToldToComeAnew) {
  const v1::AttemptOver over = Running(5, 0).over();
  EXPECT_TRUE(over.again());
  EXPECT_THAT(over.reason(), HasSubstr("started anew"));
}

TEST_F(NodeRendezvousWithoutRestartTest, TheFirstFailureEndsTheJob) {
  Begin();
  EXPECT_FALSE(Failed(2, 0).over().again());
  EXPECT_FALSE(Running(1, 0).over().again());
}

TEST_F(NodeRendezvousTest, ASilentNodeIsNamedAndAnotherMayComeInItsPlace) {
  Begin();
  MissHeartbeatsOf(1, 0);
  const v1::AttemptOver over = Running(2, 0).over();
  EXPECT_TRUE(over.again());
  EXPECT_THAT(over.reason(), HasSubstr("node 1 (h1) sent no heartbeat for 1s"));
  // It is back, and is told; its processes are to end first.
  EXPECT_EQ(Running(1, 0).over().reason(), over.reason());
  Ready(100);
  EXPECT_EQ(Ready(2).waiting().missing(), "node 1 (last at h1)");
  const v1::NodeReportResponse response = Ready(8);
  EXPECT_THAT(PortsOf(response), ElementsAre(100, 8, 2));
  EXPECT_EQ(response.ready().attempt(), 1u);
}

TEST_F(NodeRendezvousTest, ANodeThatAsksToStartAnewHasEndedTheAttempt) {
  Begin();
  // It has lost sight of node 0 for a while, which has not noticed.
  EXPECT_TRUE(Ready(2).has_waiting());
  EXPECT_THAT(Running(1, 0).over().reason(),
              HasSubstr("node 2 (h2) was cut off, and is back"));
}

TEST_F(NodeRendezvousTest, AResponseThatWasLostIsGivenAgain) {
  for (int id : {100, 1, 2}) Ready(id);
  EXPECT_EQ(Ready(2).ready().node(), 2u);
  EXPECT_EQ(Ready(2).ready().node(), 2u);
  EXPECT_TRUE(Running(2, 0).has_ready());
  Failed(1, 0, /*final=*/true);
  EXPECT_FALSE(Running(2, 0).over().again());
  EXPECT_FALSE(Running(2, 0).over().again());
}

}  // namespace
}  // namespace oarlock::launch
