// What the tests of the push log share.

#ifndef OARLOCK_TESTS_STORAGE_PUSH_LOG_TESTING_H_
#define OARLOCK_TESTS_STORAGE_PUSH_LOG_TESTING_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/clock.h"
#include "base/random.h"
#include "storage/file_system.h"
#include "storage/push_log.h"
#include "storage/push_log_reader.h"
#include "tests/base/eventually.h"
#include "tests/base/skippable_clock.h"

namespace oarlock::storage {

struct TestRecord {
  uint32_t kind = 0;
  uint64_t cut = 0;
  std::string bytes;
  friend bool operator==(const TestRecord&, const TestRecord&) = default;
  friend std::ostream& operator<<(std::ostream& out, const TestRecord& r) {
    return out << "{" << r.kind << ", " << r.cut << ", " << r.bytes.size()
               << " bytes '" << r.bytes.substr(0, 20) << "'}";
  }
};

// A folder that is not there.
inline std::string FreshFolder(const std::string& name) {
  const std::string path = testing::TempDir() + "/push_log_" + name;
  std::filesystem::remove_all(path);
  return path;
}

// A visitor that keeps what it sees. It refers to `records`.
inline auto Into(std::vector<TestRecord>* records) {
  return [records](const LogRecord& record) {
    records->push_back({record.kind, record.cut, std::string(record.bytes)});
    return absl::OkStatus();
  };
}

// Logs sync by it in the background.
inline const Clock& LogClock() {
  static const SkippableClock* const clock = new SkippableClock;
  return *clock;
}

// `read`: what was found; may be null.
inline std::unique_ptr<PushLog> OpenLog(const PushLogOptions& options,
                                        FileSystem* files,
                                        std::vector<TestRecord>* read) {
  std::vector<TestRecord> ignored;
  absl::StatusOr<std::unique_ptr<PushLog>> log = PushLog::Open(
      options, files, LogClock(), Into(read != nullptr ? read : &ignored));
  EXPECT_TRUE(log.ok()) << log.status();
  return log.ok() ? *std::move(log) : nullptr;
}

// Everything in a log that must be sound.
inline std::vector<TestRecord> ReadAll(const std::string& directory,
                                       FileSystem* files = FileSystem::Real()) {
  std::vector<TestRecord> records;
  const absl::StatusOr<LogContents> contents =
      ReadPushLog(files, directory, Into(&records));
  EXPECT_TRUE(contents.ok()) << contents.status();
  return records;
}

inline absl::Status Append(PushLog& log, const TestRecord& record) {
  const absl::string_view bytes = record.bytes;
  return log.Append(record.kind, record.cut, {&bytes, 1});
}

// The same, cut anywhere, with empty slices in between.
inline absl::Status AppendInSlices(PushLog& log, const TestRecord& record,
                                   RandomSequence& random) {
  std::vector<absl::string_view> slices;
  absl::string_view rest = record.bytes;
  while (!rest.empty()) {
    const size_t size = std::min<size_t>(
        rest.size(),
        random.Below(random.Below(2) == 0 ? 8 : record.bytes.size() + 1));
    slices.push_back(rest.substr(0, size));
    rest.remove_prefix(size);
  }
  return log.Append(record.kind, record.cut, slices);
}

// Small ones, and now and then one that is written in several pieces.
inline TestRecord RandomRecord(RandomSequence& random, uint64_t cut) {
  TestRecord record = {static_cast<uint32_t>(1 + random.Below(5)), cut, ""};
  const size_t size =
      random.Below(20) == 0 ? random.Below(200'000) : random.Below(300);
  for (size_t i = 0; i < size; ++i) {
    record.bytes.push_back(static_cast<char>(random.Below(256)));
  }
  return record;
}

}  // namespace oarlock::storage

#endif  // OARLOCK_TESTS_STORAGE_PUSH_LOG_TESTING_H_
