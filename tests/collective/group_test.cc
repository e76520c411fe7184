// What concerns joining, and no particular backend.

#include "collective/group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "collective/sockets.h"
#include "tests/base/eventually.h"
#include "tests/cluster/test_certificates.h"
#include "tests/collective/group_testing.h"

namespace oarlock::collective {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Statuses of two ranks that join with these options and meet.
std::vector<absl::Status> JoinTwo(const GroupOptions& first,
                                  const GroupOptions& second) {
  std::vector<absl::Status> statuses(2);
  std::vector<std::thread> threads;
  for (const GroupOptions* options : {&first, &second}) {
    threads.emplace_back([options, &statuses] {
      absl::Status& status = statuses[options->rank];
      auto communicator = JoinGroup(*options);
      status = communicator.status();
      if (status.ok()) status = (*communicator)->Barrier();
      if (status.ok()) status = (*communicator)->Leave();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return statuses;
}

TEST(GroupOptionsTest, AreReadFromTheRoleThatTheEnvironmentGives) {
  cluster::RoleAssignment role;
  role.role = cluster::Role::kCollective;
  role.worker_endpoints = {"a:1", "b:2"};
  role.worker_index = 1;
  role.job_id = "job";
  role.security.insecure = true;
  role.restarts = 3;
  EXPECT_EQ(GroupOptionsOf(role).generation, 0u);
  role.restarted_together = true;
  const GroupOptions options = GroupOptionsOf(role);
  EXPECT_EQ(options.rank, 1);
  EXPECT_THAT(options.endpoints, ElementsAre("a:1", "b:2"));
  EXPECT_EQ(options.job_id, "job");
  EXPECT_TRUE(options.security.insecure);
  EXPECT_EQ(options.generation, 3u);
  EXPECT_TRUE(GroupOptionsOf(cluster::RoleAssignment()).endpoints.empty());
}

TEST(GroupOptionsTest, WrongOnesAreRefusedBeforeAnyNetwork) {
  const auto message = [](auto change) {
    GroupOptions options = TestOptions({"127.0.0.1:1", "127.0.0.1:2"}, 1);
    change(options);
    const absl::Status status = JoinGroup(options).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    return std::string(status.message());
  };
  EXPECT_THAT(message([](GroupOptions& o) { o.rank = 2; }),
              HasSubstr("rank 2 of a group of 2"));
  EXPECT_THAT(message([](GroupOptions& o) { o.endpoints[0] = "nohost"; }),
              HasSubstr("\"nohost\""));
  EXPECT_THAT(message([](GroupOptions& o) {
                o.heartbeat_timeout = absl::Milliseconds(499);
              }),
              HasSubstr("heartbeat_timeout is 499ms"));
  EXPECT_THAT(message([](GroupOptions& o) {
                o.operation_timeout = absl::ZeroDuration();
              }),
              HasSubstr("operation_timeout is 0"));
  EXPECT_THAT(message([](GroupOptions& o) {
                o.join_timeout = -absl::InfiniteDuration();
              }),
              HasSubstr("join_timeout is -inf"));
}

TEST(GroupTest, OneRankNeedsNeitherEndpointNorRightToServe) {
  GroupOptions options;
  EXPECT_TRUE(JoinGroup(options).ok());
  options.endpoints = {"192.0.2.1:6170"};
  auto communicator = JoinGroup(options);
  ASSERT_TRUE(communicator.ok()) << communicator.status();
  EXPECT_EQ((*communicator)->size(), 1);
}

TEST(GroupTest, TheRendezvousSpeaksTlsAndDemandsTheToken) {
  const std::string folder =
      absl::StrCat(::testing::TempDir(), "/tls_of_group");
  std::filesystem::create_directories(folder);
  const cluster::SecurityOptions security =
      cluster::WriteTestCertificates(folder);
  // The certificate is for this address alone.
  const FakeClock clock;
  auto probe = RingAcceptor::Open("127.0.0.1", clock);
  ASSERT_TRUE(probe.ok()) << probe.status();
  const std::string endpoint = (*probe)->address();
  probe->reset();
  GroupOptions first = TestOptions({endpoint, "127.0.0.1:2"}, 0);
  first.security = security;
  first.join_timeout = absl::Seconds(3);
  GroupOptions second = first;
  second.rank = 1;
  EXPECT_THAT(JoinTwo(first, second),
              ElementsAre(absl::OkStatus(), absl::OkStatus()));
  second.security.token_file = "";
  const auto without_token = JoinTwo(first, second);
  EXPECT_TRUE(absl::IsUnauthenticated(without_token[1])) << without_token[1];
  EXPECT_TRUE(absl::IsDeadlineExceeded(without_token[0])) << without_token[0];
}

TEST(GroupTest, Ipv6EndpointsWorkWhereTheMachineHasThem) {
  const FakeClock clock;
  auto probe = RingAcceptor::Open("[::1]", clock);
  if (!probe.ok()) GTEST_SKIP() << "no IPv6 here: " << probe.status();
  const std::string endpoint = (*probe)->address();
  probe->reset();
  EXPECT_THAT(JoinTwo(TestOptions({endpoint, "[::1]:2"}, 0),
                      TestOptions({endpoint, "[::1]:2"}, 1)),
              ElementsAre(absl::OkStatus(), absl::OkStatus()));
}

TEST(GroupTest, WhoeverWaitsForLongGivesUpAtTheLimitAndNotBefore) {
  FakeClock clock;
  // Nobody listens there. Heartbeats are rarer than lines about the wait.
  GroupOptions options = TestOptions({"127.0.0.1:1", "127.0.0.1:2"}, 1);
  options.heartbeat_timeout = absl::Minutes(10);
  options.join_timeout = absl::Hours(1);
  options.clocks = {&clock, &clock};
  const absl::Time start = clock.Now();
  std::atomic<bool> over = false;
  absl::Status status;
  std::thread rank([&] {
    status = JoinGroup(options).status();
    over = true;
  });
  EXPECT_TRUE(Eventually([&] {
    if (over) return true;
    clock.Advance(absl::Seconds(30));
    return false;
  }));
  rank.join();
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("did not answer within 1h"));
  EXPECT_GE(clock.Now() - start, options.join_timeout);
}

TEST(CheckAllAgreeTest, NamesWhoHasOtherThanRankZero) {
  const auto statuses =
      RunRanks(Backends()[0], 4, [](Communicator& communicator) {
        const int rank = communicator.rank();
        return CheckAllAgree(communicator, "the parameters",
                             rank == 1 || rank == 3 ? "conv 32" : "conv 64");
      });
  for (const absl::Status& status : statuses) {
    EXPECT_EQ(status,
              absl::InvalidArgumentError(
                  "the parameters must be the same on all ranks; those of rank "
                  "1, 3 differ from rank 0's"));
  }
}

}  // namespace
}  // namespace oarlock::collective
