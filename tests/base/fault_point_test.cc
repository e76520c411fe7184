#include "base/fault_point.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/clock.h"

namespace oarlock {
namespace {

constexpr FaultPointInfo kPoints[] = {
    {"log.append.before_write", "no byte of the records is in the file"},
    {"log.append.after_write", "the records are in the file, unanswered"}};
constexpr FaultPointInfo kOtherPoints[] = {
    {"log.roll.before_header", "the new segment is an empty file"}};
constexpr absl::Span<const FaultPointInfo> kTables[] = {kPoints, kOtherPoints};

void FaultPoint(FaultPointOf<kPoints> point) { ReachFaultPoint(point.info()); }

absl::StatusOr<Fault> Parse(absl::string_view text, const Clock& clock) {
  return ParseFault(text, kTables, clock);
}

void ReachTwo() {
  FaultPoint("log.append.before_write");
  FaultPoint("log.append.after_write");
}

TEST(FaultPointTest, NothingHappensUnlessItIsArmed) {
  ReachTwo();
  int num_hits = 0;
  ArmFault({.point = &kPoints[1], .nth = 2, .action = [&] { ++num_hits; }});
  FaultPoint("log.append.before_write");
  FaultPoint("log.append.before_write");
  FaultPoint("log.append.after_write");
  EXPECT_EQ(num_hits, 0);
  FaultPoint("log.append.after_write");
  EXPECT_EQ(num_hits, 1);
  FaultPoint("log.append.after_write");
  EXPECT_EQ(num_hits, 1) << "the second time only";
  DisarmFault();
  ArmFault({.point = &kPoints[1], .action = [&] { ++num_hits; }});
  DisarmFault();
  ReachTwo();
  EXPECT_EQ(num_hits, 1);
}

TEST(FaultPointTest, AnArmedPointKillsItsProcess) {
  for (const auto& [text, survives] : std::vector<std::pair<std::string, bool>>{
           {"log.append.after_write", false},
           {"log.append.after_write:1", false},
           {"log.append.after_write:2", true},
           {"log.append.after_write:1:1", true},
           {"log.roll.before_header", true}}) {
    const SkippingClock clock;
    const pid_t child = fork();
    if (child == 0) {
      ArmFault(*Parse(text, clock));
      ReachTwo();
      _exit(7);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    if (survives) {
      EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 7) << text;
    } else {
      EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << text;
    }
  }
}

TEST(FaultPointTest, ADelayHoldsTheThreadUpForSoLong) {
  const SkippingClock clock;
  ArmFault(*Parse("log.append.after_write:2:1500", clock));
  ReachTwo();
  EXPECT_EQ(clock.Now(), absl::UnixEpoch());
  ReachTwo();
  EXPECT_EQ(clock.Now(), absl::UnixEpoch() + absl::Milliseconds(1500));
  DisarmFault();
}

TEST(FaultPointTest, OneOfSeveralThreadsIsTheNth) {
  int num_hits = 0;
  ArmFault({.point = &kPoints[1], .nth = 500, .action = [&] { ++num_hits; }});
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([] {
      for (int i = 0; i < 300; ++i) ReachTwo();
    });
  }
  for (std::thread& thread : threads) thread.join();
  DisarmFault();
  EXPECT_EQ(num_hits, 1);
}

TEST(FaultPointTest, EveryPointCanBeNamedAndNothingElse) {
  const FakeClock clock;
  for (const FaultPointInfo* point :
       {&kPoints[0], &kPoints[1], &kOtherPoints[0]}) {
    const auto fault = Parse(absl::StrCat(point->name, ":3"), clock);
    ASSERT_TRUE(fault.ok()) << fault.status();
    EXPECT_EQ(fault->point, point);
    EXPECT_EQ(fault->nth, 3u);
    EXPECT_EQ(fault->restart, 0u);
  }
  const auto third = Parse("log.append.after_write:2@3", clock);
  ASSERT_TRUE(third.ok()) << third.status();
  EXPECT_EQ(third->nth, 2u);
  EXPECT_EQ(third->restart, 3u);
  for (const std::string wrong :
       {"", "log", "log.append.after_write:", "log.append.after_write:0",
        "log.append.after_write:x", "log.append.after_write:1:y",
        "log.append.after_write:1:2:3", "log.append.after_write@",
        "log.append.after_write@x", "log.append.after_write@1@2"}) {
    EXPECT_EQ(Parse(wrong, clock).status().code(),
              absl::StatusCode::kInvalidArgument)
        << wrong;
  }
  EXPECT_NE(Parse("nowhere", clock).status().message().find("log.roll"),
            std::string::npos);
}

}  // namespace
}  // namespace oarlock
