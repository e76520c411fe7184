// The launcher as a program of its own: signals, kill -9, two nodes.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "launch/machine.h"
#include "tests/base/eventually.h"
#include "tests/base/test_folder.h"
#include "tests/launch/process_testing.h"

namespace oarlock::launch {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kProgram[] = "tests/launch/launch_main";

// Writes its number, and that of a child of its own, and waits.
constexpr char kTree[] =
    "name=$TRAINING_ROLE.$PADDLE_PSERVER_ID$PADDLE_TRAINER_ID\n"
    "(while true; do sleep 0.05; done) &\n"
    "echo $! > $DIR/child.$name\n"
    "echo $$ > $DIR/$name\n";
constexpr char kForever[] = "while true; do sleep 0.05; done\n";

// A child of a process by its name (/proc/PID/comm); 0: there is none.
pid_t ChildNamed(const std::string& name, pid_t parent) {
  std::istringstream children(
      ReadFile(absl::StrCat("/proc/", parent, "/task/", parent, "/children")));
  for (pid_t pid = 0; children >> pid;) {
    if (ReadFile(absl::StrCat("/proc/", pid, "/comm")) == name + "\n") {
      return pid;
    }
  }
  return 0;
}

class LaunchCommandTest : public testing::Test {
 protected:
  std::unique_ptr<TestProcess> Start(
      const std::vector<std::string>& args,
      std::map<std::string, std::string> environment = {}) {
    std::vector<std::string> argv = {kProgram};
    argv.insert(argv.end(), args.begin(), args.end());
    environment.insert({"PATH", "/usr/local/bin:/usr/bin:/bin"});
    environment.insert({"DIR", folder_.path()});
    return std::make_unique<TestProcess>(argv, environment, folder_.path());
  }

  std::unique_ptr<TestProcess> Launch(const std::string& script) {
    return Start({"launch", "--server_num", "2", "--worker_num", "2",
                  "--log_dir", folder_.path() + "/logs",
                  WriteScript(folder_.path(), script)});
  }

  // The launcher's children and theirs, once all have started.
  std::vector<pid_t> AwaitTree() {
    std::vector<pid_t> pids;
    for (const char* name :
         {"PSERVER.0", "PSERVER.1", "TRAINER.0", "TRAINER.1"}) {
      pids.push_back(AwaitPid(absl::StrCat(folder_.path(), "/", name)));
      pids.push_back(AwaitPid(absl::StrCat(folder_.path(), "/child.", name)));
    }
    for (const pid_t pid : pids) {
      EXPECT_GT(pid, 0);
      EXPECT_FALSE(IsGone(pid));
    }
    return pids;
  }

  void ExpectAllGone(const std::vector<pid_t>& pids) {
    for (const pid_t pid : pids) {
      EXPECT_TRUE(Eventually([&] { return IsGone(pid); })) << pid;
    }
  }

  const TestFolder folder_;
};

TEST_F(LaunchCommandTest, NothingSurvivesKillMinusNineOfTheLauncher) {
  const auto launcher =
      Launch(absl::StrCat("trap '' TERM INT HUP\n", kTree, kForever));
  const std::vector<pid_t> pids = AwaitTree();
  launcher->Signal(SIGKILL);
  EXPECT_EQ(launcher->Wait(), -SIGKILL);
  ExpectAllGone(pids);
}

TEST_F(LaunchCommandTest, AnotherGuardianHasThePlaceOfOneThatDied) {
  const auto launcher =
      Launch(absl::StrCat("trap '' TERM INT HUP\n", kTree, kForever));
  const std::vector<pid_t> pids = AwaitTree();
  // It gives itself that name some time after its fork.
  pid_t guardian = 0;
  ASSERT_TRUE(Eventually([&] {
    guardian = ChildNamed("oarlock-guard", launcher->pid());
    return guardian > 0;
  }));
  ASSERT_EQ(kill(guardian, SIGKILL), 0);
  ASSERT_TRUE(Eventually([&] {
    return absl::StrContains(launcher->Output(),
                             absl::StrCat("the guardian (pid ", guardian, ")"));
  }));
  for (const pid_t pid : pids) EXPECT_FALSE(IsGone(pid));
  launcher->Signal(SIGKILL);
  EXPECT_EQ(launcher->Wait(), -SIGKILL);
  ExpectAllGone(pids);
}

TEST_F(LaunchCommandTest, SignalsAreForwardedAndEndTheJob) {
  for (const int signal : {SIGTERM, SIGINT}) {
    const auto launcher = Launch(absl::StrCat(
        "trap 'echo got TERM; exit 0' TERM\ntrap 'echo got INT; exit 0' INT\n",
        kTree, kForever));
    const std::vector<pid_t> pids = AwaitTree();
    launcher->Signal(signal);
    EXPECT_EQ(launcher->Wait(), 128 + signal);
    ExpectAllGone(pids);
    for (const char* log : {"serverlog.1", "workerlog.0"}) {
      EXPECT_EQ(ReadScriptLog(absl::StrCat(folder_.path(), "/logs/", log)),
                signal == SIGTERM ? "got TERM\n" : "got INT\n");
    }
    for (const char* name :
         {"PSERVER.0", "PSERVER.1", "TRAINER.0", "TRAINER.1"}) {
      std::remove(absl::StrCat(folder_.path(), "/", name).c_str());
      std::remove(absl::StrCat(folder_.path(), "/child.", name).c_str());
    }
  }
}

// Server 0 waits until workers know that the job ends; these are gone.
TEST_F(LaunchCommandTest, ServersHearOnceMoreWhenTheWorkersHaveGone) {
  const auto launcher = Launch(absl::StrCat(
      "if [ $TRAINING_ROLE = PSERVER ]; then\n"
      "  trap 'trap \"echo again; exit 143\" TERM; echo TERM; "
      ": > $DIR/heard.$name' TERM\n"
      // A second signal that comes before the first one was heard is lost.
      "else\n"
      "  trap 'until [ -e $DIR/heard.PSERVER.0 -a -e $DIR/heard.PSERVER.1 ]; "
      "do sleep 0.02; done; exit 143' TERM\n"
      "fi\n",
      kTree, kForever));
  const std::vector<pid_t> pids = AwaitTree();
  launcher->Signal(SIGTERM);
  EXPECT_EQ(launcher->Wait(), 128 + SIGTERM);
  ExpectAllGone(pids);
  for (const char* log : {"serverlog.0", "serverlog.1"}) {
    EXPECT_EQ(ReadScriptLog(absl::StrCat(folder_.path(), "/logs/", log)),
              "TERM\nagain\n");
  }
}

TEST_F(LaunchCommandTest, ASecondSignalKills) {
  const auto launcher =
      Launch(absl::StrCat("trap '' INT TERM\n", kTree, kForever));
  const std::vector<pid_t> pids = AwaitTree();
  launcher->Signal(SIGINT);
  ASSERT_TRUE(Eventually(
      [&] { return absl::StrContains(launcher->Output(), "interrupted"); }));
  launcher->Signal(SIGINT);
  EXPECT_EQ(launcher->Wait(), 128 + SIGINT);
  // The grace after the first would end them, too: what it says is that it did
  // not wait for that.
  EXPECT_THAT(launcher->Output(),
              HasSubstr("second signal: killing all processes"));
  ExpectAllGone(pids);
}

TEST_F(LaunchCommandTest, ADeathIsReportedWithTheEndOfTheLog) {
  const auto launcher = Launch(absl::StrCat(
      kTree,
      "if [ $name = TRAINER.1 ]; then for i in $(seq 30); do echo line $i; "
      "done; exit 9; fi\n",
      kForever));
  EXPECT_EQ(launcher->Wait(), 9);
  const std::string output = launcher->Output();
  EXPECT_THAT(output, HasSubstr("worker 1 (pid "));
  EXPECT_THAT(output, HasSubstr(") ended with exit code 9 after "));
  EXPECT_THAT(output, HasSubstr("/logs/workerlog.1:\n    line 11\n"));
  EXPECT_THAT(output, HasSubstr("    line 30\n"));
  EXPECT_THAT(output, Not(HasSubstr("line 10\n")));
  EXPECT_THAT(output, HasSubstr("stopping the other 3 processes"));
}

TEST_F(LaunchCommandTest, PrintConfigPrintsAndRunsAndDryRunOnlyPrints) {
  const std::string script =
      WriteScript(folder_.path(),
                  "touch $DIR/ran.$TRAINING_ROLE\n"
                  "while [ ! -e $DIR/ran.TRAINER ]; do sleep 0.05; done\n");
  std::vector<std::string> args = {"launch", "--server_num=1", "--worker_num=1",
                                   "--log_dir=" + folder_.path() + "/logs"};
  std::vector<std::string> dry = args;
  dry.insert(dry.end(), {"--dry_run", script});
  auto launcher = Start(dry);
  EXPECT_EQ(launcher->Wait(), 0);
  EXPECT_THAT(launcher->Output(), HasSubstr("  TRAINING_ROLE=TRAINER\n"));
  EXPECT_EQ(ReadFile(folder_.path() + "/logs/workerlog.0"), "");
  EXPECT_FALSE(std::ifstream(folder_.path() + "/ran.TRAINER").good());
  args.insert(args.end(), {"--print_config", "True", script});
  launcher = Start(args);
  EXPECT_EQ(launcher->Wait(), 0);
  EXPECT_THAT(launcher->Output(), HasSubstr("  TRAINING_ROLE=TRAINER\n"));
  EXPECT_TRUE(std::ifstream(folder_.path() + "/ran.TRAINER").good());
}

TEST_F(LaunchCommandTest, TwoNodesGiveTheirProcessesOneCluster) {
  // Every process asks the same program who it is. Servers stay until both
  // nodes' workers are done, which each worker marks.
  const std::string script = WriteScript(
      folder_.path(),
      "$PROGRAM explain-env\n"
      "[ $TRAINING_ROLE = TRAINER ] && touch $DIR/done.$PADDLE_TRAINER_ID\n"
      "while [ $TRAINING_ROLE = PSERVER ]; do\n"
      "  [ -e $DIR/done.0 -a -e $DIR/done.1 -a -e $DIR/done.2 -a -e "
      "$DIR/done.3 ] && exit 0\n"
      "  sleep 0.05\n"
      "done\nexit 0\n");
  std::vector<std::unique_ptr<TestProcess>> launchers;
  for (const char* node : {"127.0.0.2", "127.0.0.3"}) {
    launchers.push_back(
        Start({"launch", "--cluster_node_ips", "127.0.0.2,127.0.0.3",
               "--node_ip", node, "--server_num", "1", "--worker_num", "2",
               "--log_dir", folder_.path() + "/logs", script},
              {{"PROGRAM", kProgram}}));
  }
  for (const auto& launcher : launchers) {
    EXPECT_EQ(launcher->Wait(), 0) << launcher->Output();
  }
  const std::string common =
      "servers   2: 127.0.0.2:6170, 127.0.0.3:6170\n"
      "workers   4: 127.0.0.2:6171, 127.0.0.2:6172, 127.0.0.3:6171, "
      "127.0.0.3:6172\n";
  for (int i = 0; i < 4; ++i) {
    const std::string log =
        ReadFile(absl::StrCat(folder_.path(), "/logs/workerlog.", i));
    EXPECT_THAT(log, HasSubstr(absl::StrCat("role      worker ", i, " of 4")));
    EXPECT_THAT(log, HasSubstr(common));
    EXPECT_THAT(log, Not(HasSubstr("warning")));
  }
  for (int i = 0; i < 2; ++i) {
    const std::string log =
        ReadFile(absl::StrCat(folder_.path(), "/logs/serverlog.", i));
    EXPECT_THAT(log, HasSubstr(absl::StrCat("role      server ", i, " of 2")));
    EXPECT_THAT(log, HasSubstr(absl::StrCat("listens   127.0.0.", i + 2)));
    EXPECT_THAT(log, HasSubstr(common));
    EXPECT_THAT(log, Not(HasSubstr("warning")));
  }
}

// Both nodes are this machine: the first that comes is node 0.
TEST_F(LaunchCommandTest, NodesThatMeetStartAllAgainWhenOneProcessDies) {
  const auto ports = FreePorts(1);
  ASSERT_TRUE(ports.ok()) << ports.status();
  const std::string script = WriteScript(
      folder_.path(),
      "$PROGRAM explain-env\n"
      "echo restart \"$OARLOCK_RESTART\" \"$OARLOCK_RESTART_TOGETHER\"\n"
      "[ \"$OARLOCK_RESTART\" = 1 ] && exit 0\n"
      "[ $PADDLE_TRAINER_ID = 2 ] && exit 3\n"
      "while true; do sleep 0.05; done\n");
  std::vector<std::unique_ptr<TestProcess>> launchers;
  for (int i = 0; i < 2; ++i) {
    launchers.push_back(
        Start({"launch", "--master", absl::StrCat("127.0.0.1:", ports->front()),
               "--nnodes", "2", "--nproc_per_node", "2", "--max_restart", "1",
               "--log_dir", folder_.path() + "/logs", script},
              {{"PROGRAM", kProgram}}));
  }
  for (const auto& launcher : launchers) {
    EXPECT_EQ(launcher->Wait(), 0) << launcher->Output();
    EXPECT_THAT(launcher->Output(),
                HasSubstr("node 1 (127.0.0.1): worker 2 (pid "));
  }
  for (int i = 0; i < 4; ++i) {
    const std::string log =
        ReadScriptLog(absl::StrCat(folder_.path(), "/logs/workerlog.", i));
    EXPECT_THAT(log, HasSubstr(absl::StrCat("role      collective worker ", i,
                                            " of 4\n")));
    EXPECT_THAT(log, HasSubstr("restart  \n"));
    EXPECT_THAT(log, HasSubstr("restart 1 1\n"));
    EXPECT_THAT(log, Not(HasSubstr("warning")));
  }
}

TEST_F(LaunchCommandTest, NodesThatMeetHaveServersToo) {
  const auto ports = FreePorts(1);
  ASSERT_TRUE(ports.ok()) << ports.status();
  const std::string script =
      WriteScript(folder_.path(), "$PROGRAM explain-env\nexit 0\n");
  std::vector<std::unique_ptr<TestProcess>> launchers;
  for (int i = 0; i < 2; ++i) {
    launchers.push_back(
        Start({"launch", "--master", absl::StrCat("127.0.0.1:", ports->front()),
               "--nnodes", "2", "--rank", absl::StrCat(i), "--server_num", "1",
               "--worker_num", absl::StrCat(1 + i), "--log_dir",
               folder_.path() + "/logs", script},
              {{"PROGRAM", kProgram}}));
  }
  for (const auto& launcher : launchers) {
    EXPECT_EQ(launcher->Wait(), 0) << launcher->Output();
  }
  for (int i = 0; i < 3; ++i) {
    const std::string log =
        ReadFile(absl::StrCat(folder_.path(), "/logs/workerlog.", i));
    EXPECT_THAT(log, HasSubstr(absl::StrCat("role      worker ", i, " of 3")));
    EXPECT_THAT(log, HasSubstr("servers   2: 127.0.0.1:"));
    EXPECT_THAT(log, Not(HasSubstr("warning")));
  }
  EXPECT_THAT(ReadFile(folder_.path() + "/logs/serverlog.1"),
              HasSubstr("role      server 1 of 2"));
}

TEST_F(LaunchCommandTest, AnotherLauncherMayComeInThePlaceOfOneThatDied) {
  const auto ports = FreePorts(1);
  ASSERT_TRUE(ports.ok()) << ports.status();
  const std::string script =
      WriteScript(folder_.path(),
                  "echo $$ > $DIR/rank.$PADDLE_TRAINER_ID\n"
                  "[ \"$OARLOCK_RESTART\" = 1 ] && exit 0\n"
                  "while true; do sleep 0.05; done\n");
  const auto start = [&] {
    return Start({"launch", "--master",
                  absl::StrCat("127.0.0.1:", ports->front()), "--nnodes", "2",
                  "--nproc_per_node", "1", "--max_restart", "1",
                  "--heartbeat_timeout_s", "2", "--log_dir",
                  folder_.path() + "/logs", script});
  };
  const auto first = start();
  ASSERT_TRUE(Eventually(
      [&] { return absl::StrContains(first->Output(), ", here\n"); }));
  const auto dies = start();
  const pid_t rank = AwaitPid(folder_.path() + "/rank.1");
  ASSERT_GT(AwaitPid(folder_.path() + "/rank.0"), 0);
  dies->Signal(SIGKILL);
  EXPECT_EQ(dies->Wait(), -SIGKILL);
  ASSERT_TRUE(Eventually([&] {
    return absl::StrContains(first->Output(),
                             "node 1 (127.0.0.1) sent no heartbeat for 2s");
  }));
  const auto successor = start();
  EXPECT_EQ(successor->Wait(), 0) << successor->Output();
  EXPECT_EQ(first->Wait(), 0) << first->Output();
  EXPECT_THAT(successor->Output(), HasSubstr("attempt 1: this is node 1 of 2"));
  ExpectAllGone({rank});
}

TEST_F(LaunchCommandTest, AnInterruptOfOneNodeEndsTheJobOnAll) {
  const auto ports = FreePorts(1);
  ASSERT_TRUE(ports.ok()) << ports.status();
  std::vector<std::unique_ptr<TestProcess>> launchers;
  const std::string script =
      WriteScript(folder_.path(),
                  "echo $$ > $DIR/rank.$PADDLE_TRAINER_ID\n"
                  "while true; do sleep 0.05; done\n");
  for (int i = 0; i < 2; ++i) {
    launchers.push_back(Start(
        {"launch", "--master", absl::StrCat("127.0.0.1:", ports->front()),
         "--nnodes", "2", "--rank", absl::StrCat(i), "--nproc_per_node", "1",
         "--max_restart", "1", "--log_dir", folder_.path() + "/logs", script}));
  }
  const std::vector<pid_t> pids = {AwaitPid(folder_.path() + "/rank.0"),
                                   AwaitPid(folder_.path() + "/rank.1")};
  launchers[1]->Signal(SIGINT);
  EXPECT_EQ(launchers[1]->Wait(), 128 + SIGINT);
  EXPECT_EQ(launchers[0]->Wait(), 1) << launchers[0]->Output();
  EXPECT_THAT(launchers[0]->Output(),
              HasSubstr("node 1 (127.0.0.1): its launcher was told to end"));
  ExpectAllGone(pids);
}

TEST_F(LaunchCommandTest, WrongCommandLinesExitWithTwoAndOneLine) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"launch", "--worker_num", "-1", "/bin/true"},
       "oarlock launch: --worker_num is \"-1\"; it must be a whole number, 0 "
       "to 65536"},
      {{"launch", "--server_num=1", "--worker_num=1"},
       "oarlock launch: no program is given; name it after the flags"},
      {{"launch", "--nproc_per_node=1", "--master=127.0.0.1:1", "/bin/true"},
       "oarlock launch: --master is \"127.0.0.1:1\", but --nnodes is not"},
      {{"launch", "--nproc_per_node=1", "--master=127.0.0.1:1", "--nnodes=2",
        "--ips=127.0.0.1,127.0.0.2", "/bin/true"},
       "oarlock launch: --master is \"127.0.0.1:1\", and --cluster_node_ips"},
      {{"launch", "--nproc_per_node=1", "--master=192.0.2.1:7000", "--nnodes=2",
        "--rank=0", "--node_ip=127.0.0.1", "/bin/true"},
       "oarlock launch: "},
      {{"launch", "--bogus", "x"}, "oarlock launch: unknown flag --bogus"},
      {{"explain-env", "--role", "BOSS"},
       "oarlock explain-env: --role is \"BOSS\"; it must be PSERVER or "
       "TRAINER"},
      {{"explain-env", "--role", "PSERVER"},
       "oarlock explain-env: no servers are named, but --role=PSERVER"}};
  for (const auto& [args, message] : cases) {
    const auto process = Start(args);
    EXPECT_EQ(process->Wait(), 2);
    EXPECT_THAT(process->Output(), testing::StartsWith(message));
    EXPECT_EQ(process->Output().find('\n'), process->Output().size() - 1);
  }
}

TEST_F(LaunchCommandTest, ExplainEnvPrintsTheRole) {
  const auto process =
      Start({"explain-env", "--trainer_id", "1"},
            {{"TRAINING_ROLE", "TRAINER"},
             {"PADDLE_PSERVERS_IP_PORT_LIST", "127.0.0.1:6170"},
             {"PADDLE_TRAINERS_NUM", "2"}});
  EXPECT_EQ(process->Wait(), 0);
  EXPECT_THAT(process->Output(), HasSubstr("role      worker 1 of 2\n"));
}

}  // namespace
}  // namespace oarlock::launch
