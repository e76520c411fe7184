// Ranks as processes: they die, stop, come late, or do not belong together.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <csignal>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/clock.h"
#include "collective/sockets.h"
#include "tests/base/eventually.h"
#include "tests/base/test_folder.h"
#include "tests/collective/group_testing.h"
#include "tests/launch/process_testing.h"

namespace oarlock::collective {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kRankMain[] = "tests/collective/rank_main";

using Environment = std::map<std::string, std::string>;

Environment FleetEnvironment(const std::vector<std::string>& endpoints,
                             int rank) {
  return {{"PADDLE_TRAINER_ENDPOINTS", absl::StrJoin(endpoints, ",")},
          {"PADDLE_CURRENT_ENDPOINT", endpoints[rank]},
          {"PADDLE_TRAINER_ID", absl::StrCat(rank)}};
}

// The ranks of a group that have been started.
class Ranks {
 public:
  explicit Ranks(int size) : endpoints_(FreeEndpoints(size)), ranks_(size) {}

  const std::vector<std::string>& endpoints() const { return endpoints_; }
  int size() const { return static_cast<int>(ranks_.size()); }
  launch::TestProcess& operator[](int rank) { return *ranks_[rank]; }

  void Start(int rank, const std::string& words) {
    Start(rank, words, FleetEnvironment(endpoints_, rank));
  }
  void Start(int rank, const std::string& words,
             const Environment& environment) {
    ranks_[rank] = NewProcess(words, environment);
  }
  std::unique_ptr<launch::TestProcess> NewProcess(
      const std::string& words, const Environment& environment) {
    std::vector<std::string> argv = {kRankMain};
    for (absl::string_view word : absl::StrSplit(words, ' ')) {
      argv.emplace_back(word);
    }
    return std::make_unique<launch::TestProcess>(argv, environment,
                                                 folder_.path());
  }
  void StartAll(const std::string& words) {
    for (int rank = 0; rank < size(); ++rank) Start(rank, words);
  }

  // Until every rank says so.
  bool AwaitOutput(const std::string& text) {
    return Eventually([&] {
      for (auto& rank : ranks_) {
        if (!absl::StrContains(rank->Output(), text)) return false;
      }
      return true;
    });
  }

  // All ranks but `dead` end with Unavailable that names it.
  void ExpectOthersName(int dead) {
    for (int rank = 0; rank < size(); ++rank) {
      if (rank == dead) continue;
      EXPECT_EQ(ranks_[rank]->Wait(), 1) << "rank " << rank;
      EXPECT_THAT(LastLine(rank),
                  HasSubstr(absl::StrCat("UNAVAILABLE: rank ", dead, " (",
                                         endpoints_[dead], ")")))
          << "rank " << rank;
    }
  }

  std::string LastLine(int rank) {
    const std::string output = ranks_[rank]->Output();
    return std::string(
        absl::StripSuffix(output, "\n")
            .substr(absl::StripSuffix(output, "\n").rfind('\n') + 1));
  }

 private:
  const std::vector<std::string> endpoints_;
  const TestFolder folder_;
  std::vector<std::unique_ptr<launch::TestProcess>> ranks_;
};

class RankProcessesTest : public ::testing::TestWithParam<int> {};

INSTANTIATE_TEST_SUITE_P(Sizes, RankProcessesTest,
                         ::testing::Values(1, 2, 3, 5));

TEST_P(RankProcessesTest, SumAsThePlainModelDoes) {
  Ranks ranks(GetParam());
  ranks.StartAll("sums");
  for (int rank = 0; rank < ranks.size(); ++rank) {
    EXPECT_EQ(ranks[rank].Wait(), 0) << ranks[rank].Output();
    EXPECT_EQ(ranks.LastLine(rank), "left");
  }
}

TEST(RankProcessesEnvironmentTest, FluidsVariablesMakeAGroupToo) {
  Ranks ranks(2);
  const std::string host =
      ranks.endpoints()[0].substr(0, ranks.endpoints()[0].rfind(':'));
  const std::string port = ranks.endpoints()[0].substr(host.size() + 1);
  // Two addresses of this machine, one port.
  for (const int rank : {1, 0}) {
    ranks.Start(rank, "sums",
                {{"PADDLE_TRAINER_IPS", absl::StrCat(host, ",127.0.0.1")},
                 {"PADDLE_PSERVER_PORT", port},
                 {"PADDLE_CURRENT_IP", rank == 0 ? host : "127.0.0.1"},
                 {"PADDLE_TRAINER_ID", absl::StrCat(rank)}});
  }
  for (const int rank : {0, 1}) {
    EXPECT_EQ(ranks[rank].Wait(), 0) << ranks[rank].Output();
  }
}

// Size of the group, who dies, bytes of the operation.
class RankDeathTest
    : public ::testing::TestWithParam<std::tuple<int, int, int>> {};

INSTANTIATE_TEST_SUITE_P(
    Deaths, RankDeathTest,
    ::testing::Values(std::tuple(2, 0, 1000), std::tuple(2, 1, 1000),
                      std::tuple(3, 0, 8000000), std::tuple(3, 1, 8000000),
                      std::tuple(3, 2, 64), std::tuple(5, 0, 1000000),
                      std::tuple(5, 2, 1000000), std::tuple(5, 4, 1000000)));

TEST_P(RankDeathTest,
       ARankThatIsKilledIsNamedByAllOthersBeforeItsHeartbeatTimeout) {
  const auto [size, dead, num_bytes] = GetParam();
  Ranks ranks(size);
  // An hour: nobody waits for that.
  ranks.StartAll(
      absl::StrCat("loop ", num_bytes, " heartbeat_timeout_ms=3600000"));
  ASSERT_TRUE(ranks.AwaitOutput("running"));
  ranks[dead].Signal(SIGKILL);
  ranks.ExpectOthersName(dead);
}

TEST_P(RankDeathTest,
       ARankThatStopsIsNamedByAllOthersAfterItsHeartbeatTimeout) {
  const auto [size, stopped, num_bytes] = GetParam();
  Ranks ranks(size);
  ranks.StartAll(
      absl::StrCat("loop ", num_bytes, " heartbeat_timeout_ms=1500"));
  ASSERT_TRUE(ranks.AwaitOutput("running"));
  ranks[stopped].Signal(SIGSTOP);
  ranks.ExpectOthersName(stopped);
  for (int rank = 0; rank < size; ++rank) {
    if (rank != stopped) {
      EXPECT_THAT(ranks.LastLine(rank),
                  HasSubstr("sent no heartbeat for 1.5s"));
    }
  }
}

TEST(RankStopTest, AGroupThatIsStoppedAsAWholeGoesOnWhereItWas) {
  Ranks ranks(3);
  ranks.StartAll("loop 1000 heartbeat_timeout_ms=1000");
  ASSERT_TRUE(ranks.AwaitOutput("running"));
  for (const int rank : {0, 1, 2}) ranks[rank].Signal(SIGSTOP);
  // The clock of this test: another group's heartbeat timeout, which is twice
  // as long.
  Ranks clock(2);
  clock.StartAll("loop 1000 heartbeat_timeout_ms=2000");
  ASSERT_TRUE(clock.AwaitOutput("running"));
  clock[1].Signal(SIGSTOP);
  clock.ExpectOthersName(1);
  for (const int rank : {0, 1, 2}) ranks[rank].Signal(SIGCONT);
  // They live: only a death ends them, and it is the one that is named.
  ranks[2].Signal(SIGKILL);
  ranks.ExpectOthersName(2);
  EXPECT_THAT(ranks.LastLine(0), Not(HasSubstr("no heartbeat")));
}

TEST(RankQuitTest, ARankThatGivesUpIsNamedByTheOthers) {
  for (const int quitter : {0, 1}) {
    Ranks ranks(3);
    for (const int rank : {0, 1, 2}) {
      ranks.Start(rank, rank == quitter ? "quit" : "loop 0");
    }
    ranks.ExpectOthersName(quitter);
  }
}

TEST(RankArrivalTest, RankZeroMayComeLast) {
  Ranks ranks(3);
  ranks.Start(2, "sums");
  ranks.Start(1, "sums");
  // Long enough to have looked for rank 0: a third one gives up meanwhile.
  auto early = ranks.NewProcess("sums join_ms=300",
                                FleetEnvironment(ranks.endpoints(), 1));
  EXPECT_EQ(early->Wait(), 1);
  EXPECT_THAT(early->Output(),
              HasSubstr(absl::StrCat("DEADLINE_EXCEEDED: rank 0 (",
                                     ranks.endpoints()[0],
                                     ") did not answer within 300ms")));
  ranks.Start(0, "sums");
  for (const int rank : {0, 1, 2}) {
    EXPECT_EQ(ranks[rank].Wait(), 0) << ranks[rank].Output();
  }
}

TEST(RankArrivalTest, WhoDoesNotComeIsNamedByThoseWhoWait) {
  Ranks ranks(3);
  ranks.Start(0, "sums join_ms=1500");
  ranks.Start(2, "sums join_ms=1500");
  for (const int rank : {0, 2}) {
    EXPECT_EQ(ranks[rank].Wait(), 1);
    EXPECT_THAT(ranks.LastLine(rank),
                HasSubstr(absl::StrCat("DEADLINE_EXCEEDED: rank 1 (",
                                       ranks.endpoints()[1],
                                       ") did not come to rank 0 within")));
  }
}

TEST(RankArrivalTest, APlaceOfWhoDiedBeforeAllCameIsFreeAgain) {
  Ranks ranks(3);
  ranks.Start(0, "sums");
  // Of two that come for a place one is refused: then the other has it.
  const Environment environment = FleetEnvironment(ranks.endpoints(), 1);
  std::unique_ptr<launch::TestProcess> holder =
      ranks.NewProcess("sums", environment);
  std::unique_ptr<launch::TestProcess> other =
      ranks.NewProcess("sums", environment);
  const auto refused = [](launch::TestProcess& process) {
    return absl::StrContains(process.Output(), "ALREADY_EXISTS");
  };
  ASSERT_TRUE(Eventually([&] { return refused(*holder) || refused(*other); }));
  if (refused(*holder)) std::swap(holder, other);
  EXPECT_EQ(other->Wait(), 1);
  holder->Signal(SIGKILL);
  EXPECT_EQ(holder->Wait(), -SIGKILL);
  ASSERT_TRUE(Eventually([&] {
    return absl::StrContains(ranks[0].Output(), "has gone before all had come");
  }));
  ranks.Start(1, "sums");
  ranks.Start(2, "sums");
  for (const int rank : {0, 1, 2}) {
    EXPECT_EQ(ranks[rank].Wait(), 0) << ranks[rank].Output();
  }
}

// What is different about a process that does not belong to the group.
struct Stranger {
  std::string name;
  std::string words;
  Environment environment;
  std::string code;
  std::string message;
};

class StrangerTest : public ::testing::TestWithParam<Stranger> {};

INSTANTIATE_TEST_SUITE_P(
    Strangers, StrangerTest,
    ::testing::Values(
        Stranger{"size",
                 "sums",
                 {{"PADDLE_TRAINER_ENDPOINTS", "+,127.0.0.1:2"}},
                 "INVALID_ARGUMENT",
                 "rank 1 has a group of 3 ranks, rank 0 has 2"},
        Stranger{"job",
                 "sums",
                 {{"PADDLE_JOB_ID", "another"}},
                 "INVALID_ARGUMENT",
                 "rank 1 has the job \"another\", rank 0 has \"default\""},
        Stranger{"digest",
                 "sums digest=conv",
                 {},
                 "INVALID_ARGUMENT",
                 "rank 1 has the digest \"conv\", rank 0 has \"\""}),
    [](const auto& info) { return info.param.name; });

TEST_P(StrangerTest, IsRefusedInOneLineOnBothSidesAndTheRightOneIsAwaited) {
  Ranks ranks(2);
  ranks.Start(0, "sums");
  Environment environment = FleetEnvironment(ranks.endpoints(), 1);
  for (const auto& [name, value] : GetParam().environment) {
    if (value[0] == '+') {
      environment[name] += value.substr(1);
    } else {
      environment[name] = value;
    }
  }
  auto stranger = ranks.NewProcess(GetParam().words, environment);
  EXPECT_EQ(stranger->Wait(), 1);
  EXPECT_THAT(stranger->Output(),
              HasSubstr(absl::StrCat(GetParam().code, ": rank 0 (",
                                     ranks.endpoints()[0],
                                     ") refused: ", GetParam().message)));
  ranks.Start(1, "sums");
  for (const int rank : {0, 1}) {
    EXPECT_EQ(ranks[rank].Wait(), 0) << ranks[rank].Output();
  }
  EXPECT_THAT(ranks[0].Output(), HasSubstr(absl::StrCat("refused a process: ",
                                                        GetParam().message)));
}

TEST(RankTokenTest, OnlyWhoKnowsTheJobsTokenIsLetIn) {
  const TestFolder folder;
  const auto knows = [&](const std::string& token) {
    return absl::StrCat("sums token_file=", folder.Write(token, token + "\n"));
  };
  Ranks ranks(2);
  const std::string right = knows("opensesame");
  ranks.Start(0, right);
  for (const std::string& words : {std::string("sums"), knows("openbarley")}) {
    auto stranger =
        ranks.NewProcess(words, FleetEnvironment(ranks.endpoints(), 1));
    EXPECT_EQ(stranger->Wait(), 1);
    EXPECT_THAT(stranger->Output(), HasSubstr("UNAUTHENTICATED: rank 0"));
    EXPECT_THAT(stranger->Output(), HasSubstr("--token_file"));
  }
  ranks.Start(1, right);
  EXPECT_EQ(ranks[0].Wait(), 0) << ranks[0].Output();
  EXPECT_EQ(ranks[1].Wait(), 0) << ranks[1].Output();
}

TEST(RankGenerationTest, ANewRankEndsTheOldGroupAndWaitsForTheNewRankZero) {
  Ranks ranks(2);
  ranks.Start(0, "sums generation=1");
  ranks.Start(1, "sums generation=2");
  EXPECT_NE(ranks[0].Wait(), 0);
  EXPECT_THAT(ranks[0].Output(),
              HasSubstr("was started again with all ranks of its node"));
  auto old = ranks.NewProcess("sums generation=1",
                              FleetEnvironment(ranks.endpoints(), 1));
  ranks.Start(0, "sums generation=2");
  EXPECT_EQ(ranks[0].Wait(), 0) << ranks[0].Output();
  EXPECT_EQ(ranks[1].Wait(), 0) << ranks[1].Output();
  old->Signal(SIGKILL);
}

TEST(RankEndpointTest, RankZeroSaysThatItsPortIsTaken) {
  const FakeClock clock;
  auto taken = RingAcceptor::Open("127.0.0.1", clock);
  ASSERT_TRUE(taken.ok()) << taken.status();
  Ranks ranks(1);
  auto process = ranks.NewProcess(
      "sums", FleetEnvironment({(*taken)->address(), "127.0.0.1:2"}, 0));
  EXPECT_EQ(process->Wait(), 1);
  EXPECT_THAT(process->Output(),
              HasSubstr(absl::StrCat("FAILED_PRECONDITION: rank 0 cannot serve "
                                     "the rendezvous at ",
                                     (*taken)->address())));
  EXPECT_THAT(process->Output(), HasSubstr("in use by another process"));
}

// Something that takes connections and says nothing.
TEST(RankEndpointTest, ARankZeroThatNeverAnswersIsNamedWhenTimeIsOver) {
  const FakeClock clock;
  auto silent = RingAcceptor::Open("127.0.0.1", clock);
  ASSERT_TRUE(silent.ok()) << silent.status();
  Ranks ranks(1);
  auto process = ranks.NewProcess(
      "sums join_ms=1000",
      FleetEnvironment({(*silent)->address(), "127.0.0.1:2"}, 1));
  EXPECT_EQ(process->Wait(), 1);
  EXPECT_THAT(process->Output(),
              HasSubstr(absl::StrCat("DEADLINE_EXCEEDED: rank 0 (",
                                     (*silent)->address(),
                                     ") did not answer within 1s")));
}

TEST(RankEndpointTest, BeyondLoopbackSecurityIsDemanded) {
  Ranks ranks(1);
  auto process = ranks.NewProcess(
      "sums", {{"PADDLE_TRAINER_ENDPOINTS", "0.0.0.0:1,127.0.0.1:2"},
               {"PADDLE_TRAINER_ID", "0"}});
  EXPECT_EQ(process->Wait(), 1);
  EXPECT_THAT(process->Output(), HasSubstr("FAILED_PRECONDITION"));
  EXPECT_THAT(process->Output(), HasSubstr("beyond loopback"));
}

TEST(RankEndpointTest, ARankWhoseAddressIsNotThisMachinesSaysSo) {
  // Of a documentation network: nobody has it, and nothing is sent to it.
  Ranks ranks(1);
  auto process = ranks.NewProcess(
      "sums", {{"PADDLE_TRAINER_ENDPOINTS", "127.0.0.1:1,192.0.2.1:2"},
               {"PADDLE_TRAINER_ID", "1"}});
  EXPECT_EQ(process->Wait(), 1);
  EXPECT_THAT(process->Output(), HasSubstr("cannot listen on 192.0.2.1"));
}

}  // namespace
}  // namespace oarlock::collective
