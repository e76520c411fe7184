#include "storage/push_log.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/random.h"
#include "storage/file_system.h"
#include "storage/push_log_format.h"
#include "storage/push_log_reader.h"
#include "tests/storage/push_log_testing.h"

namespace oarlock::storage {
namespace {

namespace fs = std::filesystem;

PushLogOptions SmallSegments(const std::string& directory) {
  return {.directory = directory,
          .segment_bytes = PushLogOptions::kMinSegmentBytes,
          .sync_interval = absl::InfiniteDuration()};
}

std::string FileBytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

void WriteFile(const std::string& path, const std::string& bytes) {
  // A file that is emptied and written anew goes to the disk at once on some
  // systems; a new one does not.
  fs::remove(path);
  std::ofstream(path, std::ios::binary) << bytes;
}

std::vector<std::string> SegmentsOf(const std::string& directory) {
  std::vector<std::string> paths;
  for (const auto& entry : fs::directory_iterator(directory)) {
    paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

TEST(PushLogTest, RandomOperationsAgreeWithAVectorAcrossOpenings) {
  constexpr uint64_t kSeed = 21;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  RandomSequence random(kSeed);
  const std::string directory = FreshFolder("model");
  std::vector<TestRecord> model;
  std::unique_ptr<PushLog> log;
  size_t num_trimmed = 0;
  uint64_t cut = 1;
  for (int step = 0; step < 3000; ++step) {
    if (log == nullptr) {
      std::vector<TestRecord> read;
      log = OpenLog(SmallSegments(directory), FileSystem::Real(), &read);
      // What is trimmed is a beginning, of which all records are below the cut.
      ASSERT_LE(read.size(), model.size());
      const size_t gone = model.size() - read.size();
      for (size_t i = 0; i < gone; ++i) ASSERT_LT(model[i].cut, cut);
      num_trimmed += gone;
      model.erase(model.begin(), model.begin() + gone);
      ASSERT_EQ(read, model);
      EXPECT_EQ(log->found().dropped_bytes, 0u);
    }
    const uint64_t dice = random.Below(200);
    if (dice < 180) {
      model.push_back(RandomRecord(random, cut + random.Below(2)));
      ASSERT_TRUE(AppendInSlices(*log, model.back(), random).ok());
    } else if (dice < 185) {
      ASSERT_TRUE(log->Sync().ok());
    } else if (dice < 190) {
      ++cut;
      ASSERT_TRUE(log->Roll().ok());
    } else if (dice < 194) {
      ASSERT_TRUE(log->Trim(cut).ok());
    } else if (dice < 196) {
      log.reset();
    }
    if (log != nullptr && step % 10 == 0) {
      // The thread of the log may be making the next segment.
      ASSERT_TRUE(Eventually([&] {
        uint64_t bytes = 0;
        for (const std::string& path : SegmentsOf(directory)) {
          bytes += fs::file_size(path);
        }
        return log->bytes() == bytes;
      }));
    }
  }
  EXPECT_GT(num_trimmed, 100u);
}

TEST(PushLogTest, WhatWasAppendedBeforeACutOpensGoesWhenItIsPublished) {
  const std::string directory = FreshFolder("trim");
  const auto log =
      OpenLog({.directory = directory}, FileSystem::Real(), nullptr);
  ASSERT_TRUE(Append(*log, {1, 4, "before"}).ok());
  ASSERT_TRUE(log->Roll().ok());
  ASSERT_TRUE(Append(*log, {1, 4, "late"}).ok());
  ASSERT_TRUE(Append(*log, {1, 5, "held"}).ok());
  ASSERT_TRUE(log->Trim(5).ok());
  std::vector<TestRecord> left = {{1, 4, "late"}, {1, 5, "held"}};
  EXPECT_EQ(ReadAll(directory), left);
  // Nothing of 6 is there, but what is written to stays.
  ASSERT_TRUE(log->Trim(6).ok());
  EXPECT_EQ(ReadAll(directory), left);
  ASSERT_TRUE(log->Roll().ok());
  ASSERT_TRUE(log->Roll().ok()) << "an empty segment is not followed";
  EXPECT_EQ(SegmentsOf(directory).size(), 2u);
  ASSERT_TRUE(log->Trim(6).ok());
  EXPECT_EQ(ReadAll(directory), std::vector<TestRecord>());
  EXPECT_EQ(log->bytes(), kLogSegmentHeaderBytes);
}

TEST(PushLogTest, ASegmentThatIsFullIsFollowedByTheNext) {
  const std::string directory = FreshFolder("segments");
  const PushLogOptions options = SmallSegments(directory);
  const auto log = OpenLog(options, FileSystem::Real(), nullptr);
  const TestRecord record = {3, 1, std::string(1000, 'x')};
  constexpr size_t kSegments = 4;
  int num_records = 0;
  while (SegmentsOf(directory).size() < kSegments) {
    ASSERT_TRUE(Append(*log, record).ok());
    ASSERT_LT(++num_records, 100);
    // By the thread of the log, with a header.
    EXPECT_TRUE(Eventually([&] {
      const uint64_t bytes = fs::file_size(SegmentsOf(directory).back());
      return bytes >= kLogSegmentHeaderBytes && bytes <= options.segment_bytes;
    }));
  }
  EXPECT_GT(log->bytes(), (kSegments - 1) * options.segment_bytes);
  ASSERT_TRUE(log->Roll().ok());
  ASSERT_TRUE(log->Trim(2).ok());
  EXPECT_LT(log->bytes(), options.segment_bytes);
  EXPECT_TRUE(Append(*log, record).ok());
}

// A log of several segments whose last was synced up to its middle.
struct SmallLog {
  std::string directory;
  std::vector<TestRecord> records;
  // Of them, those in the last segment.
  size_t num_last = 0;
};

SmallLog MakeSmallLog(const std::string& name, bool closed) {
  SmallLog small;
  small.directory = FreshFolder(name);
  const std::string scratch = FreshFolder(name + "_open");
  RandomSequence random(9);
  auto log =
      OpenLog({.directory = scratch, .sync_interval = absl::InfiniteDuration()},
              FileSystem::Real(), nullptr);
  for (int segment = 0; segment < 3; ++segment) {
    if (segment > 0) {
      EXPECT_TRUE(log->Roll().ok());
    }
    small.num_last = 0;
    for (int i = 0; i < 4; ++i) {
      const size_t size = random.Below(40);
      small.records.push_back(
          {1, 7, std::string(size, static_cast<char>('a' + i))});
      ++small.num_last;
      EXPECT_TRUE(Append(*log, small.records.back()).ok());
      if (i == 1) {
        EXPECT_TRUE(log->Sync().ok());
      }
    }
  }
  if (closed) log.reset();
  // As it is now; not what the end of the log would make of it.
  fs::copy(scratch, small.directory);
  return small;
}

bool IsPrefix(const std::vector<TestRecord>& part,
              const std::vector<TestRecord>& whole) {
  return part.size() <= whole.size() &&
         std::equal(part.begin(), part.end(), whole.begin());
}

// Reads a log in which one thing is wrong. Never a record that was not
// written; either the damage is told or a tail of the last segment is dropped
// that nothing behind it calls synced.
void ExpectDamageIsFound(const SmallLog& small, const std::string& damaged,
                         size_t num_synced, bool is_last) {
  std::vector<TestRecord> read;
  const absl::StatusOr<LogContents> contents =
      ReadPushLog(FileSystem::Real(), small.directory, Into(&read));
  ASSERT_TRUE(IsPrefix(read, small.records));
  if (!contents.ok()) {
    EXPECT_EQ(contents.status().code(), absl::StatusCode::kDataLoss);
    EXPECT_NE(contents.status().message().find(damaged), std::string::npos)
        << contents.status();
    return;
  }
  EXPECT_TRUE(is_last) << "damage in " << damaged << " was not noticed";
  EXPECT_GT(contents->dropped_bytes, 0u);
  EXPECT_GE(read.size(), num_synced);
}

TEST(PushLogTest, AnyFlippedByteIsFoundOrDropsATailThatWasNeverSynced) {
  for (const bool closed : {false, true}) {
    SCOPED_TRACE(closed ? "closed" : "left by a killed process");
    const SmallLog small = MakeSmallLog("flip", closed);
    ASSERT_EQ(ReadAll(small.directory), small.records);
    const std::vector<std::string> paths = SegmentsOf(small.directory);
    ASSERT_EQ(paths.size(), 3u);
    for (const std::string& path : paths) {
      const bool is_last = path == paths.back();
      // Two records of the last segment were synced when the next were written;
      // all of a closed one.
      const size_t num_synced =
          small.records.size() - (closed ? 0 : small.num_last - 2);
      const std::string bytes = FileBytes(path);
      for (size_t i = 0; i < bytes.size(); ++i) {
        SCOPED_TRACE(testing::Message() << path << " byte " << i);
        std::string bad = bytes;
        bad[i] ^= 1 << (i % 8);
        WriteFile(path, bad);
        ExpectDamageIsFound(small, path, num_synced, is_last);
        if (HasFatalFailure()) return;
      }
      WriteFile(path, bytes);
    }
  }
}

TEST(PushLogTest, AFileCutShortIsDamageUnlessItIsTheLast) {
  const SmallLog small = MakeSmallLog("short", /*closed=*/false);
  const std::vector<std::string> paths = SegmentsOf(small.directory);
  for (const std::string& path : paths) {
    const std::string bytes = FileBytes(path);
    for (size_t size = 0; size < bytes.size(); ++size) {
      SCOPED_TRACE(testing::Message() << path << " cut to " << size);
      WriteFile(path, bytes.substr(0, size));
      std::vector<TestRecord> read;
      const auto contents =
          ReadPushLog(FileSystem::Real(), small.directory, Into(&read));
      ASSERT_TRUE(IsPrefix(read, small.records));
      if (path == paths.back()) {
        ASSERT_TRUE(contents.ok()) << contents.status();
        EXPECT_EQ(contents->unfinished_segment,
                  size < kLogSegmentHeaderBytes ? 3u : 0u);
      } else {
        ASSERT_EQ(contents.status().code(), absl::StatusCode::kDataLoss);
        EXPECT_NE(contents.status().message().find(path), std::string::npos);
      }
    }
    WriteFile(path, bytes + "more");
    if (path != paths.back()) {
      EXPECT_EQ(ReadPushLog(FileSystem::Real(), small.directory,
                            [](const LogRecord&) { return absl::OkStatus(); })
                    .status()
                    .code(),
                absl::StatusCode::kDataLoss);
    }
    WriteFile(path, bytes);
  }
  fs::remove(paths[1]);
  const absl::Status missing =
      ReadPushLog(FileSystem::Real(), small.directory, [](const LogRecord&) {
        return absl::OkStatus();
      }).status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kDataLoss);
  EXPECT_NE(missing.message().find(paths[1]), std::string::npos) << missing;
}

TEST(PushLogTest, ATornEndIsCutOffAndTheLogGoesOnBehindIt) {
  const SmallLog small = MakeSmallLog("torn", /*closed=*/false);
  const std::string last = SegmentsOf(small.directory).back();
  const std::string bytes = FileBytes(last);
  std::vector<TestRecord> model = small.records;
  WriteFile(last, bytes.substr(0, bytes.size() - 1));
  model.pop_back();
  for (int opening = 0; opening < 3; ++opening) {
    std::vector<TestRecord> read;
    const auto log =
        OpenLog({.directory = small.directory}, FileSystem::Real(), &read);
    EXPECT_EQ(read, model);
    EXPECT_EQ(log->found().dropped_bytes > 0, opening == 0);
    model.push_back({2, 8, absl::StrCat("opening ", opening)});
    ASSERT_TRUE(Append(*log, model.back()).ok());
  }
  EXPECT_EQ(ReadAll(small.directory), model);
}

TEST(PushLogTest, TheVisitorsErrorIsTheReaders) {
  const SmallLog small = MakeSmallLog("visitor", /*closed=*/true);
  int num_visited = 0;
  const absl::Status status =
      ReadPushLog(FileSystem::Real(), small.directory, [&](const LogRecord&) {
        return ++num_visited == 3 ? absl::NotFoundError("no table")
                                  : absl::OkStatus();
      }).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(num_visited, 3);
}

// The bytes of the block ```push-log of the document.
std::string BytesOfTheDocument() {
  std::istringstream lines(FileBytes("docs/push_log_format.md"));
  std::string line, hex;
  bool inside = false;
  while (std::getline(lines, line)) {
    if (absl::StartsWith(line, "```")) {
      inside = line == "```push-log";
    } else if (inside) {
      for (const char c : line.substr(0, line.find('#'))) {
        if (!absl::ascii_isspace(static_cast<unsigned char>(c))) hex += c;
      }
    }
  }
  return absl::HexStringToBytes(hex);
}

TEST(PushLogTest, TheBytesAreThoseOfTheDocument) {
  const std::string directory = FreshFolder("document");
  auto log = OpenLog(
      {.directory = directory, .sync_interval = absl::InfiniteDuration()},
      FileSystem::Real(), nullptr);
  ASSERT_TRUE(Append(*log, {1, 7, "hello"}).ok());
  log.reset();
  EXPECT_EQ(absl::BytesToHexString(FileBytes(directory + "/00000001.log")),
            absl::BytesToHexString(BytesOfTheDocument()));
}

TEST(PushLogTest, WrongOptionsAreInvalid) {
  const PushLogOptions good = {.directory = "somewhere"};
  EXPECT_TRUE(good.Validate().ok());
  PushLogOptions bad = good;
  bad.directory = "";
  EXPECT_EQ(bad.Validate().code(), absl::StatusCode::kInvalidArgument);
  bad = good;
  bad.segment_bytes = 1;
  EXPECT_EQ(bad.Validate().code(), absl::StatusCode::kInvalidArgument);
  bad = good;
  bad.sync_interval = -absl::Seconds(1);
  EXPECT_EQ(bad.Validate().code(), absl::StatusCode::kInvalidArgument);
}

// Appenders, syncs, rolls and trims at once.
TEST(PushLogTest, ConcurrentAppendersKeepTheirOwnOrder) {
  constexpr int kThreads = 4;
  constexpr int kRecords = 150;
  for (const absl::Duration interval :
       {absl::ZeroDuration(), absl::Milliseconds(1)}) {
    const std::string directory = FreshFolder("threads");
    PushLogOptions options = SmallSegments(directory);
    options.sync_interval = interval;
    auto log = OpenLog(options, FileSystem::Real(), nullptr);
    std::atomic<int> num_running = kThreads;
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        RandomSequence random(t);
        for (int i = 0; i < kRecords; ++i) {
          TestRecord record = {static_cast<uint32_t>(t + 1), 100,
                               absl::StrCat(i, " ")};
          record.bytes.append(random.Below(100), 'x');
          if (i % 50 == 0) record.bytes.append(100'000, 'y');
          EXPECT_TRUE(AppendInSlices(*log, record, random).ok());
        }
        --num_running;
      });
    }
    while (num_running > 0) {
      EXPECT_TRUE(log->Sync().ok());
      EXPECT_TRUE(log->Roll().ok());
      EXPECT_TRUE(log->Trim(100).ok());
      EXPECT_GT(log->bytes(), 0u);
    }
    for (std::thread& thread : threads) thread.join();
    log.reset();
    std::vector<int> next(kThreads, 0);
    for (const TestRecord& record : ReadAll(directory)) {
      int number = -1;
      ASSERT_EQ(std::sscanf(record.bytes.c_str(), "%d", &number), 1);
      ASSERT_EQ(number, next[record.kind - 1]++) << "of thread " << record.kind;
    }
    EXPECT_EQ(next, std::vector<int>(kThreads, kRecords));
  }
}

}  // namespace
}  // namespace oarlock::storage
