#include "launch/launcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "launch/launch_plan.h"
#include "launch/log_files.h"
#include "tests/base/eventually.h"
#include "tests/base/test_folder.h"
#include "tests/launch/process_testing.h"

namespace oarlock::launch {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// Lines for scripts: a server that ends on SIGTERM, and one that never does.
constexpr char kServerWaits[] =
    "if [ $TRAINING_ROLE = PSERVER ]; then\n"
    "  echo $$ > $DIR/server.$PADDLE_PSERVER_ID\n"
    "  trap 'echo stopping; exit 0' TERM\n"
    "  while true; do sleep 0.05; done\n"
    "fi\n";
constexpr char kWaitForever[] = "while true; do sleep 0.05; done\n";

class LauncherTest : public testing::Test {
 protected:
  LauncherTest() {
    // Longer than any test.
    options_.stop_grace = absl::Hours(1);
    options_.server_linger = absl::Milliseconds(300);
    options_.early_server_grace = absl::Milliseconds(300);
    options_.restart_delay = absl::Milliseconds(50);
  }

  LaunchPlan Plan(int servers, int workers, int max_restart = 0) {
    v1::LaunchConfig config;
    config.set_server_num(servers);
    config.set_worker_num(workers);
    config.set_max_restart(max_restart);
    return Plan(config);
  }

  LaunchPlan CollectivePlan(int workers, int max_restart) {
    v1::LaunchConfig config;
    config.set_nproc_per_node(workers);
    config.set_max_restart(max_restart);
    return Plan(config);
  }

  LaunchPlan Plan(v1::LaunchConfig config) {
    config.set_log_dir(logs());
    const auto plan = PlanLaunch(
        config,
        {{"PATH", "/usr/local/bin:/usr/bin:/bin"}, {"DIR", folder_.path()}});
    EXPECT_TRUE(plan.ok()) << plan.status();
    return *plan;
  }

  // From now on no grace ends before the test says so.
  void StopTime() { options_.clocks = {&clock_, &clock_}; }

  // Runs a script as all processes.
  int Run(const LaunchPlan& plan, const std::string& script) {
    const auto code = Launcher(options_).Run(
        plan, {WriteScript(folder_.path(), script), "a b"});
    EXPECT_TRUE(code.ok()) << code.status();
    return code.ok() ? *code : -1;
  }

  std::string logs() const { return folder_.path() + "/logs"; }
  std::string Log(const std::string& name) const {
    return ReadScriptLog(logs() + "/" + name);
  }

  const TestFolder folder_;
  FakeClock clock_;
  LauncherOptions options_;
};

TEST_F(LauncherTest, EveryProcessHasItsRoleArgumentsAndLog) {
  const std::string script = absl::StrCat(
      "echo $TRAINING_ROLE $PADDLE_TRAINER_ID $1; echo error >&2\n",
      kServerWaits);
  EXPECT_EQ(Run(Plan(2, 2), script), 0);
  EXPECT_EQ(Log("workerlog.0"), "TRAINER 0 a b\nerror\n");
  EXPECT_EQ(Log("workerlog.1"), "TRAINER 1 a b\nerror\n");
  for (const char* log : {"serverlog.0", "serverlog.1"}) {
    EXPECT_EQ(Log(log), "PSERVER a b\nerror\nstopping\n");
  }
}

TEST_F(LauncherTest, ThePreviousLogsAreKept) {
  const std::string script = absl::StrCat("echo run $RUN\n", kServerWaits);
  for (const char* run : {"1", "2", "3"}) {
    LaunchPlan plan = Plan(1, 1);
    plan.base_environment["RUN"] = run;
    EXPECT_EQ(Run(plan, script), 0);
  }
  EXPECT_EQ(Log("workerlog.0"), "run 3\n");
  EXPECT_EQ(Log("workerlog.0.old"), "run 2\n");
  EXPECT_EQ(Log("serverlog.0.old"), "run 2\nstopping\n");
}

TEST_F(LauncherTest, AFailingWorkerEndsTheJobWithItsCode) {
  const std::string script = absl::StrCat(
      kServerWaits, "if [ $PADDLE_TRAINER_ID = 1 ]; then exit 3; fi\n",
      kWaitForever);
  // Whoever obeys SIGTERM is not waited for: the grace never ends.
  StopTime();
  EXPECT_EQ(Run(Plan(2, 2), script), 3);
  EXPECT_EQ(Log("serverlog.0"), "stopping\n");
}

// A dying process closes its files before it can be waited for.
TEST_F(LauncherTest, WhoWasKilledCountsBeforeWhoEndedForThat) {
  ASSERT_EQ(mkfifo((folder_.path() + "/alive").c_str(), 0600), 0);
  EXPECT_EQ(Run(CollectivePlan(2, 0),
                "if [ $PADDLE_TRAINER_ID = 1 ]; then\n"
                "  exec 3> $DIR/alive\n"
                "  kill -9 $$\n"
                "fi\n"
                "read line < $DIR/alive\n"
                "exit 1\n"),
            128 + SIGKILL);
}

TEST_F(LauncherTest, WhatTheFirstWorkerWritesIsShown) {
  options_.follow_first_worker = true;
  testing::internal::CaptureStdout();
  const std::string script =
      absl::StrCat("echo $TRAINING_ROLE $PADDLE_TRAINER_ID\n", kServerWaits);
  EXPECT_EQ(Run(Plan(1, 2), script), 0);
  EXPECT_THAT(testing::internal::GetCapturedStdout(),
              AllOf(HasSubstr("TRAINER 0\n"), Not(HasSubstr("TRAINER 1"))));
}

TEST_F(LauncherTest, AKilledServerIsNoticedWithinASecond) {
  StopTime();
  const Launcher* running = nullptr;
  pid_t server = 0;
  int looks = 0;
  options_.tick = [&] {
    if (server == 0) {
      const std::string pid = ReadFile(folder_.path() + "/server.1");
      if (pid.empty() || pid.back() != '\n') return;
      server = std::stoi(pid);
      kill(server, SIGKILL);
    }
    if (IsGone(server) && running->failure().empty()) ++looks;
  };
  Launcher launcher(options_);
  running = &launcher;
  const std::string script = absl::StrCat(kServerWaits, kWaitForever);
  const auto code =
      launcher.Run(Plan(2, 2), {WriteScript(folder_.path(), script)});
  ASSERT_TRUE(code.ok()) << code.status();
  EXPECT_EQ(*code, 128 + SIGKILL);
  EXPECT_LE(looks * Launcher::kPollInterval, absl::Seconds(1));
}

TEST_F(LauncherTest, WhatIgnoresSigtermIsKilledAfterTheGrace) {
  StopTime();
  // A server hears once more when the workers have gone.
  const auto ignored = [&] {
    return absl::StartsWith(Log("serverlog.0"), "ignored\n");
  };
  options_.tick = [&] {
    if (ignored()) clock_.Advance(options_.stop_grace);
  };
  const std::string script = absl::StrCat(
      "if [ $TRAINING_ROLE = TRAINER ]; then\n",
      "  while [ ! -s $DIR/server ]; do sleep 0.05; done; exit 4; fi\n",
      "trap 'echo ignored' TERM; echo $$ > $DIR/server\n", kWaitForever);
  EXPECT_EQ(Run(Plan(1, 1), script), 4);
  EXPECT_TRUE(ignored()) << Log("serverlog.0");
  EXPECT_TRUE(IsGone(AwaitPid(folder_.path() + "/server")));
}

TEST_F(LauncherTest, AStopRequestFromAnotherNodeEndsAllThatRuns) {
  const std::string script = absl::StrCat(
      "trap 'echo asked; exit 0' TERM\necho $$ > $DIR/rank\n", kWaitForever);
  for (const bool kill : {false, true}) {
    std::remove((folder_.path() + "/rank").c_str());
    options_.stop_request =
        [&]() -> std::optional<LauncherOptions::StopRequest> {
      const std::string pid = ReadFile(folder_.path() + "/rank");
      if (pid.empty() || pid.back() != '\n') return std::nullopt;
      return LauncherOptions::StopRequest{"node 1 has failed", kill};
    };
    Launcher launcher(options_);
    const auto code = launcher.Run(CollectivePlan(1, 3),
                                   {WriteScript(folder_.path(), script)});
    ASSERT_TRUE(code.ok()) << code.status();
    EXPECT_EQ(*code, 1);
    EXPECT_EQ(launcher.failure(), "node 1 has failed");
    EXPECT_FALSE(launcher.is_final());
    EXPECT_EQ(Log("workerlog.0"), kill ? "" : "asked\n");
  }
}

TEST_F(LauncherTest, ALaterAttemptTellsItsProcessesAndKeepsTheirLogs) {
  const std::string script =
      "echo attempt \"$OARLOCK_RESTART\" \"$OARLOCK_RESTART_TOGETHER\"\n";
  EXPECT_EQ(Run(CollectivePlan(1, 0), script), 0);
  options_.attempts_before = 2;
  EXPECT_EQ(Run(CollectivePlan(1, 0), script), 0);
  EXPECT_EQ(Log("workerlog.0"), "attempt  \nattempt 2 1\n");
}

TEST_F(LauncherTest, AFailedProcessIsStartedAgainAsOftenAsAllowed) {
  const std::string script =
      absl::StrCat(kServerWaits, "echo restart \"$OARLOCK_RESTART\"\n",
                   "[ \"$OARLOCK_RESTART\" = 2 ] || kill -9 $$\n");
  EXPECT_EQ(Run(Plan(1, 1, 2), script), 0);
  EXPECT_EQ(Log("workerlog.0"), "restart \nrestart 1\nrestart 2\n");
  EXPECT_EQ(Run(Plan(1, 1, 1), script), 128 + SIGKILL);
  EXPECT_EQ(Log("workerlog.0"), "restart \nrestart 1\n");
}

TEST_F(LauncherTest, AServerThatFailsTakesAllWithItWhereTheyRestartTogether) {
  options_.restart_together = LauncherOptions::Together::kServers;
  // Server 1 fails once; everyone counts its starts.
  const std::string script = absl::StrCat(
      "echo start ${OARLOCK_RESTART:-0}\n"
      "if [ \"$PADDLE_PSERVER_ID.$OARLOCK_RESTART\" = 1. ]; then\n"
      "  while [ ! -e $DIR/worker ]; do sleep 0.02; done; exit 3\n"
      "fi\n",
      kServerWaits,
      "touch $DIR/worker\n"
      "if [ -z \"$OARLOCK_RESTART\" ]; then while true; do sleep 0.05; done; "
      "fi\n");
  EXPECT_EQ(Run(Plan(2, 1, /*max_restart=*/1), script), 0);
  EXPECT_EQ(Log("workerlog.0"), "start 0\nstart 1\n");
  EXPECT_EQ(Log("serverlog.0"), "start 0\nstart 1\nstopping\n");
  EXPECT_EQ(Log("serverlog.1"), "start 0\nstart 1\nstopping\n");
}

TEST_F(LauncherTest, AWorkerOfACollectiveJobTakesAllWithIt) {
  const std::string script =
      "echo start ${OARLOCK_RESTART:-0} ${OARLOCK_RESTART_TOGETHER:-0}\n"
      "[ -z \"$OARLOCK_RESTART\" ] || exit 0\n"
      "if [ $PADDLE_TRAINER_ID = 1 ]; then\n"
      "  while [ ! -e $DIR/worker ]; do sleep 0.02; done; kill -9 $$\n"
      "fi\n"
      "touch $DIR/worker\n"
      "while true; do sleep 0.05; done\n";
  EXPECT_EQ(Run(CollectivePlan(2, /*max_restart=*/1), script), 0);
  EXPECT_EQ(Log("workerlog.0"), "start 0 0\nstart 1 1\n");
  EXPECT_EQ(Log("workerlog.1"), "start 0 0\nstart 1 1\n");
}

TEST_F(LauncherTest, AWorkerThatFailsTakesAllWithItWhereWorkersDo) {
  options_.workers_restart_all = true;
  // Worker 1 fails once, when worker 0 has ended well.
  const std::string script = absl::StrCat(
      "echo start ${OARLOCK_RESTART:-0} ${OARLOCK_RESTART_TOGETHER:-0}\n",
      kServerWaits,
      "if [ \"$PADDLE_TRAINER_ID.$OARLOCK_RESTART\" = 1. ]; then\n"
      "  while [ ! -e $DIR/worker ]; do sleep 0.02; done; sleep 0.3; exit 3\n"
      "fi\n"
      "touch $DIR/worker\n");
  EXPECT_EQ(Run(Plan(1, 2, /*max_restart=*/1), script), 0);
  EXPECT_EQ(Log("workerlog.0"), "start 0 0\nstart 1 1\n");
  EXPECT_EQ(Log("workerlog.1"), "start 0 0\nstart 1 1\n");
  EXPECT_EQ(Log("serverlog.0"), "start 0 0\nstart 1 1\nstopping\n");
}

TEST_F(LauncherTest, RestartsOfAllAreCountedAsThoseOfOne) {
  options_.restart_together = LauncherOptions::Together::kServers;
  const std::string script =
      "echo start\n"
      "if [ $TRAINING_ROLE = PSERVER ]; then sleep 0.1; exit 4; fi\n"
      "while true; do sleep 0.05; done\n";
  EXPECT_EQ(Run(Plan(1, 1, /*max_restart=*/2), script), 4);
  EXPECT_EQ(Log("serverlog.0"), "start\nstart\nstart\n");
}

TEST_F(LauncherTest, AUsageErrorIsNotRepeated) {
  const std::string script =
      absl::StrCat(kServerWaits, "echo wrong flag\nexit 2\n");
  EXPECT_EQ(Run(Plan(1, 1, 5), script), 2);
  EXPECT_EQ(Log("workerlog.0"), "wrong flag\n");
}

TEST_F(LauncherTest, AServerThatEndsBeforeTheWorkersFailsTheJob) {
  const std::string script = absl::StrCat(
      "if [ $TRAINING_ROLE = PSERVER ]; then exit 0; fi\n", kWaitForever);
  EXPECT_EQ(Run(Plan(1, 1), script), 1);
}

TEST_F(LauncherTest, AServerMayEndShortlyBeforeTheLastWorker) {
  StopTime();
  const std::string script =
      "if [ $TRAINING_ROLE = PSERVER ]; then touch $DIR/ended; exit 0; fi\n"
      "while [ ! -e $DIR/ended ]; do sleep 0.01; done; sleep 0.3; exit 0\n";
  EXPECT_EQ(Run(Plan(1, 1), script), 0);
}

TEST_F(LauncherTest, AServerThatFailsAtItsEndFailsTheJob) {
  const std::string script =
      "if [ $TRAINING_ROLE = TRAINER ]; then\n"
      "  while [ ! -e $DIR/ready ]; do sleep 0.01; done; exit 0; fi\n"
      "trap 'exit 7' TERM; touch $DIR/ready\n"
      "while true; do sleep 0.05; done\n";
  EXPECT_EQ(Run(Plan(1, 1), script), 7);
}

TEST_F(LauncherTest, WhatAProcessLeftBehindIsKilled) {
  // The worker's child outlives it and ignores SIGTERM.
  const std::string script = absl::StrCat(
      kServerWaits, "(trap '' TERM; echo $BASHPID > $DIR/grandchild; ",
      "while true; do sleep 0.05; done) &\n",
      "while [ ! -s $DIR/grandchild ]; do sleep 0.01; done\nexit 0\n");
  EXPECT_EQ(Run(Plan(1, 1), script), 0);
  const pid_t grandchild = AwaitPid(folder_.path() + "/grandchild");
  ASSERT_GT(grandchild, 0);
  EXPECT_TRUE(Eventually([&] { return IsGone(grandchild); }));
}

TEST_F(LauncherTest, APythonScriptRunsWithoutBeingExecutable) {
  const std::string path = folder_.path() + "/train.py";
  WriteFile(
      path,
      "import os, sys, time\n"
      "print(os.environ['TRAINING_ROLE'], sys.argv[1:])\n"
      "sys.stdout.flush()\n"
      "time.sleep(60 if os.environ['TRAINING_ROLE'] == 'PSERVER' else 0)\n");
  const auto code = Launcher(options_).Run(Plan(1, 1), {path, "--x", "1"});
  ASSERT_TRUE(code.ok()) << code.status();
  EXPECT_EQ(*code, 0);
  EXPECT_EQ(Log("workerlog.0"), "TRAINER ['--x', '1']\n");
}

TEST_F(LauncherTest, WhatCannotBeStartedIsOneSentence) {
  const LaunchPlan plan = Plan(1, 1);
  const auto error = [&](const std::string& program) {
    return std::string(
        Launcher(options_).Run(plan, {program}).status().message());
  };
  EXPECT_EQ(error("no-such-program"),
            "the program \"no-such-program\" is not in PATH; give its path");
  EXPECT_EQ(error(folder_.path()), "the program " + folder_.path() +
                                       " is not a file; give an existing one");
  const std::string data = folder_.path() + "/data";
  WriteFile(data, "text");
  EXPECT_EQ(error(data),
            "the program " + data + " is not executable; run chmod +x " + data);
  ASSERT_EQ(chmod(data.c_str(), 0755), 0);
  EXPECT_EQ(error(data), "starting server 0: running " + data +
                             " failed: Exec format error");
}

TEST_F(LauncherTest, ALogFolderThatCannotBeMadeIsOneSentence) {
  WriteFile(folder_.path() + "/logs", "a file");
  EXPECT_THAT(
      std::string(
          Launcher(options_).Run(Plan(1, 1), {"/bin/true"}).status().message()),
      HasSubstr("cannot be made"));
}

TEST_F(LauncherTest, TwoJobsDoNotShareTheirLogs) {
  options_.outputs = {"summary.json"};
  const std::string script =
      absl::StrCat("echo result > ", logs(), "/summary.json\n", kServerWaits);
  const LaunchPlan plan = Plan(1, 1);
  Launcher first(options_);
  ASSERT_TRUE(first.Run(plan, {WriteScript(folder_.path(), script)}).ok());
  // The first one's result has not been looked at yet.
  const auto second = Launcher(options_).Run(plan, {"/bin/true"});
  EXPECT_THAT(std::string(second.status().message()),
              AllOf(HasSubstr("another job writes to the log folder " + logs()),
                    HasSubstr("--log_dir")));
  EXPECT_EQ(ReadFile(logs() + "/summary.json"), "result\n");
  EXPECT_EQ(Log("serverlog.0"), "stopping\n");
  EXPECT_TRUE(first.Run(plan, {"/bin/true"}).ok());
  EXPECT_EQ(ReadFile(logs() + "/summary.json"), "");
  EXPECT_EQ(ReadFile(logs() + "/summary.json.old"), "result\n");
}

TEST_F(LauncherTest, TwoLaunchersRunOneAfterTheOtherInOneProgram) {
  Launcher launcher(options_);
  const std::string program = WriteScript(folder_.path(), kServerWaits);
  for (int i = 0; i < 2; ++i) {
    const LaunchPlan plan = Plan(1, 1);
    const auto code = launcher.Run(plan, {program});
    ASSERT_TRUE(code.ok()) << code.status();
    EXPECT_EQ(*code, 0);
  }
}

TEST(LastLinesTest, OnlyTheEndOfAFileIsReturned) {
  const TestFolder folder;
  const std::string path = folder.Path("log");
  EXPECT_TRUE(LastLines(path, 3).empty());
  WriteFile(path, "");
  EXPECT_TRUE(LastLines(path, 3).empty());
  WriteFile(path, "a\nb\n");
  EXPECT_THAT(LastLines(path, 3), ElementsAre("a", "b"));
  WriteFile(path, "a\nb\nc\nd");
  EXPECT_THAT(LastLines(path, 3), ElementsAre("b", "c", "d"));
  WriteFile(path, std::string(1 << 20, 'x') + "\nlast\n");
  EXPECT_EQ(LastLines(path, 1), std::vector<std::string>{"last"});
}

}  // namespace
}  // namespace oarlock::launch
