#include "pserver/checkpoint/checkpoint_hook.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/base/eventually.h"
#include "tests/base/skippable_clock.h"
#include "tests/base/test_folder.h"

namespace oarlock::pserver {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class CheckpointHookTest : public ::testing::Test {
 protected:
  CheckpointHookTest() { EXPECT_EQ(mkfifo(gate_.c_str(), 0600), 0); }

  // What a command appends to the file "out", by lines.
  std::vector<std::string> Written() const {
    std::ifstream file(out_);
    const std::string text(std::istreambuf_iterator<char>(file), {});
    return absl::StrSplit(text, '\n', absl::SkipEmpty());
  }
  bool EventuallyWrites(size_t lines) const {
    return Eventually([&] { return Written().size() >= lines; });
  }
  // Lets a command that waits at the gate go on.
  void OpenGate() const { std::ofstream(gate_) << "go\n"; }
  // A command that says its shell's process, and waits for ever.
  std::string Hanging() const {
    return absl::StrCat("echo last; echo $$ >>", out_, "; read x <", gate_);
  }
  pid_t ProcessOfHanging() const {
    int pid = 0;
    EXPECT_TRUE(absl::SimpleAtoi(Written().at(0), &pid));
    return pid;
  }
  // Or has nobody to ask what became of it.
  static bool IsGone(pid_t pid) {
    std::ifstream file(absl::StrCat("/proc/", pid, "/stat"));
    const std::string text(std::istreambuf_iterator<char>(file), {});
    return text.empty() || absl::StrContains(text, ") Z ");
  }
  // The log of what `run` does.
  static std::string LogOf(const std::function<void()>& run) {
    ::testing::internal::CaptureStderr();
    run();
    return ::testing::internal::GetCapturedStderr();
  }

  SkippableClock clock_;
  TestFolder folder_;
  const std::string out_ = folder_.Path("out");
  const std::string gate_ = folder_.Path("gate");
};

TEST_F(CheckpointHookTest, TheCommandLearnsWhichCheckpointItIs) {
  const std::string log = LogOf([&] {
    CheckpointHook hook(
        absl::StrCat("echo \"$OARLOCK_CHECKPOINT $OARLOCK_CHECKPOINT_NAME "
                     "$OARLOCK_CHECKPOINT_NUMBER\" >>",
                     out_, "; echo well done"),
        absl::Hours(1), clock_);
    hook.Run("/shared/ctr/ckpt-00000042");
    hook.Finish();
    EXPECT_EQ(hook.num_failed(), 0u);
  });
  EXPECT_THAT(Written(),
              ElementsAre("/shared/ctr/ckpt-00000042 ckpt-00000042 42"));
  EXPECT_THAT(log, HasSubstr("for ckpt-00000042 ended after"));
  EXPECT_THAT(log, HasSubstr("last line: well done"));
}

TEST_F(CheckpointHookTest, OneRunsAtATimeThenThatOfTheNewest) {
  CheckpointHook hook(
      absl::StrCat("echo begin $OARLOCK_CHECKPOINT_NUMBER >>", out_,
                   "; read x <", gate_, "; echo end >>", out_),
      absl::Hours(1), clock_);
  hook.Run("/c/ckpt-00000001");
  ASSERT_TRUE(EventuallyWrites(1));
  hook.Run("/c/ckpt-00000002");
  hook.Run("/c/ckpt-00000003");
  OpenGate();
  ASSERT_TRUE(EventuallyWrites(3));
  OpenGate();
  hook.Finish();
  EXPECT_THAT(Written(), ElementsAre("begin 1", "end", "begin 3", "end"));
  EXPECT_EQ(hook.num_failed(), 0u);
}

TEST_F(CheckpointHookTest, AFailureIsOneLineOfTheLog) {
  struct Case {
    std::string command;
    std::string what;
  };
  for (const Case& c : std::vector<Case>{
           {"echo first; printf 'the last\\n\\n' >&2; exit 3",
            "failed with exit status 3 after"},
           {"echo the last; kill -9 $$", "was ended by signal 9 after"},
           {"printf 'the last'; exit 1", "failed with exit status 1 after"}}) {
    const std::string log = LogOf([&] {
      CheckpointHook hook(c.command, absl::Hours(1), clock_);
      hook.Run("/c/ckpt-00000007");
      hook.Finish();
      EXPECT_EQ(hook.num_failed(), 1u);
    });
    EXPECT_THAT(
        log, AllOf(HasSubstr(c.what), HasSubstr("ckpt-00000007"),
                   HasSubstr("last line: the last\n"), Not(HasSubstr("first"))))
        << c.command;
  }
}

TEST_F(CheckpointHookTest, LongAndStrangeLinesAreCutAndEscaped) {
  const std::string log = LogOf([&] {
    CheckpointHook hook(
        "printf 'a\\033\\001'; i=0; while [ $i -lt 9000 ]; do printf "
        "xxxxxxxxxxxxxxxxxxxxxxxxx; i=$((i+1)); done; exit 1",
        absl::Hours(1), clock_);
    hook.Run("/c/ckpt-00000007");
    hook.Finish();
  });
  EXPECT_THAT(log, HasSubstr("last line: a\\x1b\\x01xxxx"));
  EXPECT_LT(log.size(), 3000u);
}

TEST_F(CheckpointHookTest, ACommandThatTakesTooLongIsKilled) {
  CheckpointHook hook(Hanging(), absl::Hours(1), clock_);
  hook.Run("/c/ckpt-00000001");
  ASSERT_TRUE(EventuallyWrites(1));
  const pid_t pid = ProcessOfHanging();
  EXPECT_FALSE(IsGone(pid));
  const std::string log = LogOf([&] {
    clock_.Skip(absl::Hours(1));
    EXPECT_TRUE(Eventually([&] { return hook.num_failed() == 1; }));
  });
  EXPECT_TRUE(Eventually([&] { return IsGone(pid); }));
  EXPECT_THAT(log,
              AllOf(HasSubstr("was killed, since --on_checkpoint_timeout_s, "
                              "1h, was over, after 3600"),
                    HasSubstr("last line: last")));
  // The next one runs.
  hook.Run("/c/ckpt-00000002");
  EXPECT_TRUE(EventuallyWrites(2));
}

TEST_F(CheckpointHookTest, ItEndsWithWhatItRunsAndWithWhatThatHasStarted) {
  {
    CheckpointHook hook(
        absl::StrCat("sh -c '", Hanging(), "' & sh -c '", Hanging(), "'"),
        absl::Hours(1), clock_);
    hook.Run("/c/ckpt-00000001");
    ASSERT_TRUE(EventuallyWrites(2));
    hook.Run("/c/ckpt-00000002");
    hook.Stop();
    EXPECT_EQ(hook.num_failed(), 2u);
    hook.Run("/c/ckpt-00000003");
    hook.Finish();
  }
  for (const std::string& line : Written()) {
    int pid = 0;
    ASSERT_TRUE(absl::SimpleAtoi(line, &pid));
    EXPECT_TRUE(Eventually([&] { return IsGone(pid); }));
  }
  EXPECT_EQ(Written().size(), 2u);
}

TEST_F(CheckpointHookTest, WhatACommandLeavesRunningDoesNotKeepItFromEnding) {
  const std::string begun = folder_.Path("begun");
  ASSERT_EQ(mkfifo(begun.c_str(), 0600), 0);
  CheckpointHook hook(absl::StrCat("sh -c 'echo $$ >>", out_, "; echo >", begun,
                                   "; read x <", gate_, "' & read x <", begun),
                      absl::Hours(1), clock_);
  hook.Run("/c/ckpt-00000001");
  hook.Finish();
  EXPECT_EQ(hook.num_failed(), 0u);
  EXPECT_TRUE(Eventually([&] { return IsGone(ProcessOfHanging()); }));
}

TEST_F(CheckpointHookTest, TheEndWaitsForTheTimeoutAndNoLonger) {
  CheckpointHook hook(Hanging(), absl::Hours(1), clock_);
  hook.Run("/c/ckpt-00000001");
  ASSERT_TRUE(EventuallyWrites(1));
  std::thread end([&] { hook.Finish(); });
  clock_.Skip(absl::Minutes(59));
  EXPECT_FALSE(IsGone(ProcessOfHanging()));
  EXPECT_EQ(hook.num_failed(), 0u);
  clock_.Skip(absl::Hours(1));
  end.join();
  EXPECT_EQ(hook.num_failed(), 1u);
}

TEST_F(CheckpointHookTest, WhereNothingRunsNothingIsWaitedFor) {
  CheckpointHook hook(Hanging(), absl::Hours(1), clock_);
  const std::string log = LogOf([&] { hook.Finish(); });
  EXPECT_THAT(log, IsEmpty());
  MetricsSnapshot snapshot;
  hook.CollectMetrics(&snapshot);
  EXPECT_EQ(CheckpointHookMetricsList().size(), 1u);
}

}  // namespace
}  // namespace oarlock::pserver
