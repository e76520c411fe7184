#include "coordinator/log/log_compatibility.h"

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

class LogCompatibilityTest : public ::testing::Test {
 protected:
  LogCompatibilityTest()
      : log_dir_(absl::StrCat(
            testing::TempDir(), "/log_compatibility_",
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

  std::unique_ptr<RunFile> Begin(
      RunFile::Begin begin = RunFile::Begin::kWithoutLogs) {
    auto run_file =
        RunFile::Create(storage::FileSystem::Real(), log_dir_, run_, begin);
    EXPECT_TRUE(run_file.ok()) << run_file.status();
    return *std::move(run_file);
  }
  static absl::Status Hear(uint32_t server, RunFile* run_file) {
    v1::CoordinatorCall call;
    call.mutable_server_heartbeat()->set_server_index(server);
    return run_file->RecordCall(call);
  }
  static absl::Status DefineWithoutRanges(const std::string& phase_name,
                                          RunFile* run_file) {
    v1::CoordinatorCall call;
    call.mutable_define_phase()->set_phase_name(phase_name);
    return run_file->RecordCall(call);
  }
  // A run whose logs suffice.
  std::unique_ptr<RunFile> BeginWhole() {
    auto run_file = Begin();
    for (uint32_t server : {0, 1}) {
      EXPECT_TRUE(Hear(server, run_file.get()).ok());
    }
    return run_file;
  }
  ReplayDecision Decide() const {
    const auto decision =
        DecideReplay(storage::FileSystem::Real(), log_dir_, run_);
    EXPECT_TRUE(decision.ok()) << decision.status();
    return *decision;
  }

  const std::string log_dir_;
  LogCompatibility run_;
};

TEST_F(LogCompatibilityTest, LogsAreGoneOnFromOnceEveryServerHasBegunItsOwn) {
  const auto run_file = Begin();
  EXPECT_FALSE(Decide().go_on);
  ASSERT_TRUE(Hear(1, run_file.get()).ok());
  ASSERT_TRUE(Hear(1, run_file.get()).ok());
  EXPECT_FALSE(Decide().go_on);
  ASSERT_TRUE(Hear(0, run_file.get()).ok());
  EXPECT_TRUE(Decide().go_on) << Decide().why;
  EXPECT_EQ(Decide().num_workers, 3);
}

TEST_F(LogCompatibilityTest, ServersThatTheJobHasNotCountForNothing) {
  const auto run_file = Begin();
  ASSERT_TRUE(Hear(0, run_file.get()).ok());
  ASSERT_TRUE(Hear(2, run_file.get()).ok());
  EXPECT_FALSE(Decide().go_on);
}

TEST_F(LogCompatibilityTest, ARunThatBeginsWithoutThemForgetsThem) {
  BeginWhole();
  Begin();
  EXPECT_FALSE(Decide().go_on);
  // All servers do so, at about the same time.
  BeginWhole();
  EXPECT_TRUE(ForgetLogs(storage::FileSystem::Real(), log_dir_).ok());
  EXPECT_TRUE(ForgetLogs(storage::FileSystem::Real(), log_dir_).ok());
  EXPECT_FALSE(Decide().go_on);
}

TEST_F(LogCompatibilityTest, WhatTheLogsAreUnderstoodByMustBeTheSame) {
  BeginWhole();
  const LogCompatibility before = run_;
  const std::vector<std::pair<std::string, LogCompatibility>> others = [&] {
    std::vector<std::pair<std::string, LogCompatibility>> runs(6, {"", before});
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
    EXPECT_FALSE(Decide().go_on);
    EXPECT_NE(Decide().why.find(why), std::string::npos)
        << Decide().why << " does not tell of: " << why;
  }
  run_ = before;
  EXPECT_TRUE(Decide().go_on);
}

TEST_F(LogCompatibilityTest, AnyNumberOfWorkersGoesOnAndTheMostAreRemembered) {
  BeginWhole();
  run_.num_workers = 1;
  EXPECT_TRUE(Decide().go_on);
  Begin(RunFile::Begin::kFromLogs);
  EXPECT_EQ(Decide().num_workers, 3);
  run_.num_workers = 8;
  Begin(RunFile::Begin::kFromLogs);
  run_.num_workers = 2;
  EXPECT_TRUE(Decide().go_on);
  EXPECT_EQ(Decide().num_workers, 8);
}

TEST_F(LogCompatibilityTest, ALogThatSomebodyRemovedIsMissed) {
  BeginWhole();
  std::filesystem::remove_all(log_dir_ + "/server-001");
  EXPECT_FALSE(Decide().go_on);
  EXPECT_NE(Decide().why.find("server-001 is missing"), std::string::npos);
}

TEST_F(LogCompatibilityTest, AFileOfAnotherFormIsNoFile) {
  for (const std::string text :
       {"", "\n", "1", "2 this-boot 2 16 6000 1000 3 0\n",
        "1 this-boot 2 16 6000 1000 3 0", "1 this-boot 2 16 6000 1000 3\n",
        "1 this-boot x 16 6000 1000 3 0\n"}) {
    std::ofstream(log_dir_ + "/RUN") << text;
    EXPECT_FALSE(Decide().go_on) << text;
    EXPECT_FALSE(Decide().why.empty());
  }
  std::ofstream(log_dir_ + "/RUN") << FormatLogCompatibility(run_);
  EXPECT_TRUE(Decide().go_on);
}

TEST_F(LogCompatibilityTest, DataThatIsNotLeasedForbidsIt) {
  auto run_file = BeginWhole();
  ASSERT_TRUE(DefineWithoutRanges("test/0", run_file.get()).ok());
  EXPECT_TRUE(Decide().go_on);
  ASSERT_TRUE(DefineWithoutRanges("train/0", run_file.get()).ok());
  EXPECT_FALSE(Decide().go_on);
  // For good.
  for (uint32_t server : {0, 1}) {
    ASSERT_TRUE(Hear(server, run_file.get()).ok());
  }
  EXPECT_FALSE(Decide().go_on);
}

TEST_F(LogCompatibilityTest, WhatWasForbiddenStaysSoForASuccessor) {
  ASSERT_TRUE(BeginWhole()->Forbid("--mode sync").ok());
  const auto successor = Begin(RunFile::Begin::kAsSuccessor);
  for (uint32_t server : {0, 1}) {
    ASSERT_TRUE(Hear(server, successor.get()).ok());
  }
  EXPECT_FALSE(Decide().go_on);
}

TEST_F(LogCompatibilityTest, ARunThatWentOnFromLogsRefusesWhatTheyDoNotTell) {
  BeginWhole();
  const auto next = Begin(RunFile::Begin::kFromLogs);
  EXPECT_TRUE(absl::IsFailedPrecondition(next->Forbid("--mode sync")));
  EXPECT_TRUE(Decide().go_on);
  const auto successor = Begin(RunFile::Begin::kAsSuccessor);
  EXPECT_TRUE(absl::IsFailedPrecondition(
      DefineWithoutRanges("train/3", successor.get())));
  EXPECT_TRUE(Decide().go_on);
}

TEST_F(LogCompatibilityTest, HostsOfSeveralBootsAreNotGoneOnFrom) {
  run_.boot_id = "";
  BeginWhole();
  EXPECT_FALSE(Decide().go_on);
}

}  // namespace
}  // namespace oarlock::coordinator
