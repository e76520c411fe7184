// The push log when its process dies, the machine loses power, the disk is full
// or a write fails.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/fault_point.h"
#include "base/random.h"
#include "base/status_macros.h"
#include "storage/fault_points.h"
#include "storage/file_system.h"
#include "storage/push_log.h"
#include "storage/push_log_reader.h"
#include "tests/storage/forgetful_file_system.h"
#include "tests/storage/push_log_testing.h"

namespace oarlock::storage {
namespace {

using Keep = ForgetfulFileSystem::Keep;
constexpr uint64_t kNever = std::numeric_limits<uint64_t>::max();

PushLogOptions OptionsIn(const std::string& root, absl::Duration interval) {
  // Segments are made when the test says so: its steps can be counted.
  return {.directory = root + "/log", .sync_interval = interval};
}

// The number of a record, for which its bytes stand.
uint64_t NumberOf(const TestRecord& record) {
  return std::strtoull(record.bytes.c_str(), nullptr, 10);
}

// A log that lives, dies and lives again, and what must be in it.
class Lives {
 public:
  Lives(const std::string& name, absl::Duration interval, uint64_t seed)
      : root_(FreshFolder(name)),
        files_(root_),
        options_(OptionsIn(root_, interval)),
        random_(seed) {}

  // Appends, syncs, rolls and trims until `num_operations` or until step number
  // `fail_after`, where the power goes; without `keep` only the process ends.
  // Whether it came to that.
  bool Live(int num_operations, uint64_t fail_after, std::optional<Keep> keep) {
    files_.FailAfter(fail_after);
    std::vector<TestRecord> read;
    absl::StatusOr<std::unique_ptr<PushLog>> log =
        PushLog::Open(options_, files_.files(), LogClock(), Into(&read));
    absl::Status status = log.status();
    if (status.ok()) ExpectRight(read);
    for (int i = 0; status.ok() && i < num_operations; ++i) {
      status = Operate(**log);
    }
    const bool died = !status.ok();
    if (log.ok()) log->reset();
    if (keep.has_value()) {
      files_.Crash(*keep, random_());
    } else {
      files_.FailAfter(kNever);
    }
    return died;
  }

  // What is read now is what the lives left.
  void ExpectRightNow() {
    ExpectRight(ReadAll(options_.directory, files_.files()));
  }

 private:
  absl::Status Operate(PushLog& log) {
    const uint64_t dice = random_.Below(20);
    if (dice < 13) {
      TestRecord record = {1, cut_, absl::StrCat(next_number_, " ")};
      record.bytes.append(random_.Below(4) == 0 ? random_.Below(150'000) : 10,
                          'x');
      records_.push_back(record);
      ++next_number_;
      OARLOCK_RETURN_IF_ERROR(AppendInSlices(log, record, random_));
      if (options_.sync_interval == absl::ZeroDuration()) {
        num_synced_ = records_.size();
      }
      return absl::OkStatus();
    }
    if (dice < 16) {
      OARLOCK_RETURN_IF_ERROR(log.Sync());
      num_synced_ = records_.size();
      return absl::OkStatus();
    }
    if (dice < 18) {
      ++cut_;
      return log.Roll();
    }
    trimmed_cut_ = cut_;
    return log.Trim(cut_);
  }

  // Of the records, a beginning may have been trimmed, and an end that was not
  // synced may be lost.
  void ExpectRight(const std::vector<TestRecord>& read) {
    size_t begin = records_.size();
    if (!read.empty()) {
      const auto first = std::find(records_.begin(), records_.end(), read[0]);
      ASSERT_NE(first, records_.end());
      begin = first - records_.begin();
      ASSERT_LE(read.size(), records_.size() - begin);
      for (size_t i = 0; i < read.size(); ++i) {
        ASSERT_EQ(read[i], records_[begin + i]) << "a hole, or nonsense";
      }
    }
    if (read.empty()) begin = num_synced_;
    for (size_t i = 0; i < begin; ++i) {
      ASSERT_LT(records_[i].cut, trimmed_cut_)
          << "record " << i << " is lost, but was not trimmed";
    }
    if (!read.empty()) {
      ASSERT_GE(begin + read.size(), num_synced_) << "synced and lost";
    }
    records_ = read;
    num_synced_ = read.size();
  }

  const std::string root_;
  ForgetfulFileSystem files_;
  const PushLogOptions options_;
  RandomSequence random_;

  std::vector<TestRecord> records_;
  // Of them, those that must survive.
  size_t num_synced_ = 0;
  uint64_t next_number_ = 0;
  uint64_t cut_ = 1;
  uint64_t trimmed_cut_ = 0;
};

TEST(PushLogCrashTest, PowerLostAtAnyStepLosesOnlyAnEndThatWasNotSynced) {
  for (const Keep keep : {Keep::kNothing, Keep::kNames, Keep::kSome}) {
    for (const absl::Duration interval :
         {absl::ZeroDuration(), absl::InfiniteDuration()}) {
      bool died = true;
      for (uint64_t step = 0; died; ++step) {
        SCOPED_TRACE(testing::Message()
                     << "step " << step << ", keep " << static_cast<int>(keep)
                     << ", sync interval " << interval);
        Lives lives("steps", interval, /*seed=*/step / 7);
        lives.Live(20, kNever, keep);
        died = lives.Live(20, step, keep);
        lives.ExpectRightNow();
        lives.Live(5, kNever, keep);
        lives.ExpectRightNow();
        if (HasFailure()) return;
      }
    }
  }
}

TEST(PushLogCrashTest, ManyCrashesInARowLoseNothingThatWasSynced) {
  constexpr uint64_t kSeeds = 30;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    RandomSequence random(seed);
    Lives lives("row",
                seed % 3 == 0 ? absl::ZeroDuration() : absl::InfiniteDuration(),
                seed);
    for (int life = 0; life < 16; ++life) {
      if (random.Below(3) == 0) {
        lives.Live(60, random.Below(80), std::nullopt);
      } else {
        lives.Live(60, random.Below(80), static_cast<Keep>(random.Below(3)));
        lives.ExpectRightNow();
      }
      if (HasFailure()) return;
    }
  }
}

TEST(PushLogCrashTest, OfEachAppenderABeginningIsLeftThatHasAllThatWasSynced) {
  constexpr int kThreads = 3;
  constexpr uint64_t kSeeds = 20;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    RandomSequence random(seed);
    const std::string root = FreshFolder("appenders");
    ForgetfulFileSystem files(root);
    PushLogOptions options = OptionsIn(root, absl::Milliseconds(1));
    options.segment_bytes = PushLogOptions::kMinSegmentBytes;
    auto log = OpenLog(options, files.files(), nullptr);
    files.FailAfter(random.Below(600));
    std::array<std::atomic<uint64_t>, kThreads> acknowledged = {};
    std::atomic<int> num_running = kThreads;
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        for (uint64_t i = 0;; ++i) {
          const uint32_t kind = t + 1;
          if (!Append(*log, {kind, 1, absl::StrCat(i, " padding")}).ok()) break;
          acknowledged[t] = i + 1;
        }
        --num_running;
      });
    }
    std::array<uint64_t, kThreads> synced = {};
    while (num_running > 0) {
      std::array<uint64_t, kThreads> before;
      for (int t = 0; t < kThreads; ++t) before[t] = acknowledged[t];
      if (log->Sync().ok()) synced = before;
    }
    for (std::thread& thread : threads) thread.join();
    log.reset();
    files.Crash(static_cast<Keep>(seed % 3), seed);
    std::array<uint64_t, kThreads> next = {};
    for (const TestRecord& record : ReadAll(options.directory, files.files())) {
      ASSERT_EQ(NumberOf(record), next[record.kind - 1]++);
    }
    for (int t = 0; t < kThreads; ++t) EXPECT_GE(next[t], synced[t]);
  }
}

TEST(PushLogCrashTest, AFullDiskRefusesRecordsAndLeavesNothingOfThem) {
  constexpr uint64_t kSeed = 4;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  RandomSequence random(kSeed);
  const std::string root = FreshFolder("full");
  ForgetfulFileSystem files(root);
  const PushLogOptions options = OptionsIn(root, absl::InfiniteDuration());
  std::vector<TestRecord> model;
  int num_refused = 0;
  for (int life = 0; life < 10; ++life) {
    files.SetRoomBytes(kNever);
    std::vector<TestRecord> read;
    const auto log = OpenLog(options, files.files(), &read);
    ASSERT_EQ(read, model);
    for (int i = 0; i < 50; ++i) {
      const uint64_t room = random.Below(2) == 0 ? 400 : 100'000;
      files.SetRoomBytes(random.Below(3) == 0 ? random.Below(room) : kNever);
      if (random.Below(10) == 0) {
        const absl::Status rolled = log->Roll();
        EXPECT_TRUE(rolled.ok() || absl::IsResourceExhausted(rolled));
      }
      const TestRecord record = RandomRecord(random, 1);
      const absl::Status status = AppendInSlices(*log, record, random);
      if (status.ok()) {
        model.push_back(record);
      } else {
        EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted)
            << status;
        ++num_refused;
      }
    }
    files.SetRoomBytes(kNever);
    EXPECT_TRUE(log->Roll().ok());
  }
  EXPECT_GT(num_refused, 10);
  EXPECT_EQ(ReadAll(options.directory, files.files()), model);
}

TEST(PushLogCrashTest, AFailedWriteIsGoneAndAFailedSyncIsForEver) {
  const std::string root = FreshFolder("failures");
  ForgetfulFileSystem files(root);
  const PushLogOptions options = OptionsIn(root, absl::InfiniteDuration());
  auto log = OpenLog(options, files.files(), nullptr);
  std::vector<TestRecord> model = {{1, 1, "before"}};
  ASSERT_TRUE(Append(*log, model[0]).ok());
  files.FailAfter(1);
  const absl::Status failed = Append(*log, {1, 1, std::string(100'000, 'x')});
  EXPECT_EQ(failed.code(), absl::StatusCode::kInternal) << failed;
  files.FailAfter(kNever);
  model.push_back({1, 1, "after"});
  ASSERT_TRUE(Append(*log, model[1]).ok());
  EXPECT_EQ(ReadAll(options.directory, files.files()), model);

  files.FailAfter(0);
  EXPECT_EQ(log->Sync().code(), absl::StatusCode::kDataLoss);
  files.FailAfter(kNever);
  EXPECT_EQ(Append(*log, {1, 1, "more"}).code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(log->Sync().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(log->Roll().code(), absl::StatusCode::kDataLoss);
  log.reset();
  EXPECT_EQ(ReadAll(options.directory, files.files()), model);
}

TEST(PushLogCrashTest, ARollThatFailsAnywhereLosesNothing) {
  bool rolled = false;
  for (uint64_t step = 0; !rolled; ++step) {
    SCOPED_TRACE(testing::Message() << "step " << step);
    const std::string root = FreshFolder("roll");
    ForgetfulFileSystem files(root);
    const PushLogOptions options = OptionsIn(root, absl::InfiniteDuration());
    std::vector<TestRecord> model;
    auto log = OpenLog(options, files.files(), nullptr);
    for (int i = 0; i < 6; ++i) {
      const TestRecord record = {1, 1, absl::StrCat(i)};
      if (Append(*log, record).ok()) model.push_back(record);
      if (i % 2 == 0) continue;
      files.FailAfter(step);
      rolled = log->Roll().ok();
      files.FailAfter(kNever);
    }
    log.reset();
    EXPECT_EQ(ReadAll(options.directory, files.files()), model);
    ASSERT_LT(step, 100u);
  }
}

// The child appends, rolls and trims until the fault kills it, and tells of
// each record through the pipe before it begins and after it is acknowledged.
[[noreturn]] void LiveUntilKilled(const std::string& directory, int pipe,
                                  const std::string& fault, uint64_t number) {
  const absl::Span<const FaultPointInfo> tables[] = {kStorageFaultPoints};
  ArmFault(*ParseFault(fault, tables, LogClock()));
  std::vector<TestRecord> read;
  auto log = PushLog::Open(
      {.directory = directory, .sync_interval = absl::InfiniteDuration()},
      FileSystem::Real(), LogClock(), Into(&read));
  if (!log.ok()) _exit(3);
  for (int i = 0; i < 12; ++i, ++number) {
    TestRecord record = {1, 1 + number / 5, absl::StrCat(number, " ")};
    if (i % 3 == 1) record.bytes.append(300'000, 'x');
    if (write(pipe, &number, sizeof(number)) < 0) _exit(4);
    if (!Append(**log, record).ok()) _exit(5);
    const uint64_t done = number + 1'000'000;
    if (write(pipe, &done, sizeof(done)) < 0) _exit(4);
    if (i % 5 == 4 && !(*log)->Roll().ok()) _exit(6);
    // One life's records always stay.
    if (i == 11 && !(*log)->Trim(number / 5 - 3).ok()) _exit(7);
  }
  _exit(0);
}

TEST(PushLogCrashTest, AProcessKilledAtAnyPointLeavesWhatItAcknowledged) {
  const std::string directory = FreshFolder("killed");
  uint64_t next = 0;
  for (const FaultPointInfo& point : kStorageFaultPoints) {
    if (!absl::StartsWith(point.name, "log.")) continue;
    int num_killed = 0;
    for (int nth = 1; nth <= 3; ++nth) {
      const std::string fault = absl::StrCat(point.name, ":", nth);
      SCOPED_TRACE(fault);
      int ends[2];
      ASSERT_EQ(pipe(ends), 0);
      const pid_t child = fork();
      if (child == 0) LiveUntilKilled(directory, ends[1], fault, next);
      close(ends[1]);
      uint64_t begun = next;
      uint64_t acknowledged = next;
      for (uint64_t report; read(ends[0], &report, sizeof(report)) > 0;) {
        (report >= 1'000'000 ? acknowledged : begun) = report % 1'000'000 + 1;
      }
      close(ends[0]);
      int status = 0;
      ASSERT_EQ(waitpid(child, &status, 0), child);
      if (WIFSIGNALED(status)) {
        EXPECT_EQ(WTERMSIG(status), SIGKILL);
        ++num_killed;
      } else {
        EXPECT_EQ(WEXITSTATUS(status), 0);
      }
      const std::vector<TestRecord> left = ReadAll(directory);
      ASSERT_TRUE(acknowledged == 0 || !left.empty());
      for (size_t i = 1; i < left.size(); ++i) {
        ASSERT_EQ(NumberOf(left[i]), NumberOf(left[i - 1]) + 1);
      }
      next = left.empty() ? 0 : NumberOf(left.back()) + 1;
      EXPECT_GE(next, acknowledged);
      EXPECT_LE(next, begun);
    }
    EXPECT_GE(num_killed, 1) << point.name << " was never reached";
  }
}

}  // namespace
}  // namespace oarlock::storage
