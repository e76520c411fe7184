#include "coordinator/log/logs_of_run.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace oarlock::coordinator {
namespace {

class LogsOfRunTest : public ::testing::Test {
 protected:
  LogsOfRunTest()
      : log_dir_(absl::StrCat(
            testing::TempDir(), "/logs_of_run_",
            testing::UnitTest::GetInstance()->current_test_info()->name())) {
    std::filesystem::remove_all(log_dir_);
    for (const char* log : {"coordinator", "server-000", "server-001"}) {
      std::filesystem::create_directories(absl::StrCat(log_dir_, "/", log));
    }
    run_ = {.boot_id = "this-boot",
            .num_servers = 2,
            .num_partitions = 16,
            .lease_ms = 6000,
            .tick_ms = 1000,
            .num_workers = 3};
  }

  std::unique_ptr<LogsKeeper> Begin(
      LogsKeeper::Begin begin = LogsKeeper::Begin::kWithoutLogs) {
    auto keeper =
        LogsKeeper::Create(storage::FileSystem::Real(), log_dir_, run_, begin);
    EXPECT_TRUE(keeper.ok()) << keeper.status();
    return *std::move(keeper);
  }
  static absl::Status Hear(uint32_t server, LogsKeeper* keeper) {
    v1::CoordinatorCall call;
    call.mutable_server_heartbeat()->set_server_index(server);
    return keeper->Note(call);
  }
  static absl::Status DefineWithoutRanges(const std::string& work,
                                          LogsKeeper* keeper) {
    v1::CoordinatorCall call;
    call.mutable_define_work()->set_work(work);
    return keeper->Note(call);
  }
  // A run whose logs suffice.
  std::unique_ptr<LogsKeeper> BeginWhole() {
    auto keeper = Begin();
    for (uint32_t server : {0, 1}) {
      EXPECT_TRUE(Hear(server, keeper.get()).ok());
    }
    return keeper;
  }
  LogsChoice Choose() const {
    const auto choice = ChooseLogs(storage::FileSystem::Real(), log_dir_, run_);
    EXPECT_TRUE(choice.ok()) << choice.status();
    return *choice;
  }

  const std::string log_dir_;
  LogsOfRun run_;
};

TEST_F(LogsOfRunTest, LogsAreGoneOnFromOnceEveryServerHasBegunItsOwn) {
  const auto keeper = Begin();
  EXPECT_FALSE(Choose().go_on);
  ASSERT_TRUE(Hear(1, keeper.get()).ok());
  ASSERT_TRUE(Hear(1, keeper.get()).ok());
  EXPECT_FALSE(Choose().go_on);
  ASSERT_TRUE(Hear(0, keeper.get()).ok());
  EXPECT_TRUE(Choose().go_on) << Choose().why;
  EXPECT_EQ(Choose().num_workers, 3);
}

TEST_F(LogsOfRunTest, ServersThatTheJobHasNotCountForNothing) {
  const auto keeper = Begin();
  ASSERT_TRUE(Hear(0, keeper.get()).ok());
  ASSERT_TRUE(Hear(2, keeper.get()).ok());
  EXPECT_FALSE(Choose().go_on);
}

TEST_F(LogsOfRunTest, ARunThatBeginsWithoutThemForgetsThem) {
  BeginWhole();
  Begin();
  EXPECT_FALSE(Choose().go_on);
  // All servers do so, at about the same time.
  BeginWhole();
  EXPECT_TRUE(ForgetLogs(storage::FileSystem::Real(), log_dir_).ok());
  EXPECT_TRUE(ForgetLogs(storage::FileSystem::Real(), log_dir_).ok());
  EXPECT_FALSE(Choose().go_on);
}

TEST_F(LogsOfRunTest, WhatTheLogsAreUnderstoodByMustBeTheSame) {
  BeginWhole();
  const LogsOfRun before = run_;
  const std::vector<std::pair<std::string, LogsOfRun>> others = [&] {
    std::vector<std::pair<std::string, LogsOfRun>> runs(6, {"", before});
    runs[0] = {"another boot", before};
    runs[0].second.boot_id = "that-boot";
    runs[1] = {"another boot", before};
    runs[1].second.boot_id = "";
    runs[2] = {"of 2 servers, the job has 3 now", before};
    runs[2].second.num_servers = 3;
    runs[3] = {"of 16 partitions", before};
    runs[3].second.num_partitions = 32;
    runs[4] = {"--lease_s", before};
    runs[4].second.lease_ms = 6001;
    runs[5] = {"--tick_s", before};
    runs[5].second.tick_ms = 10;
    return runs;
  }();
  for (const auto& [why, run] : others) {
    run_ = run;
    EXPECT_FALSE(Choose().go_on);
    EXPECT_NE(Choose().why.find(why), std::string::npos)
        << Choose().why << " does not tell of: " << why;
  }
  run_ = before;
  EXPECT_TRUE(Choose().go_on);
}

TEST_F(LogsOfRunTest, AnyNumberOfWorkersGoesOnAndTheMostAreRemembered) {
  BeginWhole();
  run_.num_workers = 1;
  EXPECT_TRUE(Choose().go_on);
  Begin(LogsKeeper::Begin::kFromLogs);
  EXPECT_EQ(Choose().num_workers, 3);
  run_.num_workers = 8;
  Begin(LogsKeeper::Begin::kFromLogs);
  run_.num_workers = 2;
  EXPECT_TRUE(Choose().go_on);
  EXPECT_EQ(Choose().num_workers, 8);
}

TEST_F(LogsOfRunTest, ALogThatSomebodyRemovedIsMissed) {
  BeginWhole();
  std::filesystem::remove_all(log_dir_ + "/server-001");
  EXPECT_FALSE(Choose().go_on);
  EXPECT_NE(Choose().why.find("server-001 is missing"), std::string::npos);
}

TEST_F(LogsOfRunTest, AFileOfAnotherFormIsNoFile) {
  for (const std::string text :
       {"", "\n", "1", "2 this-boot 2 16 6000 1000 3 0\n",
        "1 this-boot 2 16 6000 1000 3 0", "1 this-boot 2 16 6000 1000 3\n",
        "1 this-boot x 16 6000 1000 3 0\n"}) {
    std::ofstream(log_dir_ + "/RUN") << text;
    EXPECT_FALSE(Choose().go_on) << text;
    EXPECT_FALSE(Choose().why.empty());
  }
  std::ofstream(log_dir_ + "/RUN") << FormatLogsOfRun(run_);
  EXPECT_TRUE(Choose().go_on);
}

TEST_F(LogsOfRunTest, DataThatIsNotLeasedForbidsIt) {
  auto keeper = BeginWhole();
  ASSERT_TRUE(DefineWithoutRanges("test/0", keeper.get()).ok());
  EXPECT_TRUE(Choose().go_on);
  ASSERT_TRUE(DefineWithoutRanges("train/0", keeper.get()).ok());
  EXPECT_FALSE(Choose().go_on);
  // For good.
  for (uint32_t server : {0, 1}) {
    ASSERT_TRUE(Hear(server, keeper.get()).ok());
  }
  EXPECT_FALSE(Choose().go_on);
}

TEST_F(LogsOfRunTest, WhatWasForbiddenStaysSoForASuccessor) {
  ASSERT_TRUE(BeginWhole()->Forbid("--mode sync").ok());
  const auto successor = Begin(LogsKeeper::Begin::kAsSuccessor);
  for (uint32_t server : {0, 1}) {
    ASSERT_TRUE(Hear(server, successor.get()).ok());
  }
  EXPECT_FALSE(Choose().go_on);
}

TEST_F(LogsOfRunTest, ARunThatWentOnFromLogsRefusesWhatTheyDoNotTell) {
  BeginWhole();
  const auto next = Begin(LogsKeeper::Begin::kFromLogs);
  EXPECT_TRUE(absl::IsFailedPrecondition(next->Forbid("--mode sync")));
  EXPECT_TRUE(Choose().go_on);
  const auto successor = Begin(LogsKeeper::Begin::kAsSuccessor);
  EXPECT_TRUE(absl::IsFailedPrecondition(
      DefineWithoutRanges("train/3", successor.get())));
  EXPECT_TRUE(Choose().go_on);
}

TEST_F(LogsOfRunTest, HostsOfSeveralBootsAreNotGoneOnFrom) {
  run_.boot_id = "";
  BeginWhole();
  EXPECT_FALSE(Choose().go_on);
}

}  // namespace
}  // namespace oarlock::coordinator
