// Fuzz target of the push log's reader, for libFuzzer and for
// push_log_replay_test.
//
// Input: a byte, of which bit 0 says that headers get the checksums they should
// have (else hardly any input gets behind the first) and bit 1 that segments
// name the size of the one before; then segments, each with its size in 2 bytes
// before it. Aborts when the reader's result contradicts itself, or when a log
// that can be read cannot be opened, repaired, appended to and read again with
// the same records.

#include <rocksdb/env.h>
#include <xxhash.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/clock.h"
#include "storage/file_system.h"
#include "storage/push_log.h"
#include "storage/push_log_format.h"
#include "storage/push_log_reader.h"

namespace {

using oarlock::FakeClock;
using oarlock::storage::FileSystem;
using oarlock::storage::LogContents;
using oarlock::storage::LogRecord;
using oarlock::storage::PushLog;

constexpr char kFolder[] = "/log";
constexpr size_t kMaxSegments = 4;

struct Record {
  uint32_t kind;
  uint64_t cut;
  std::string bytes;
  friend bool operator==(const Record&, const Record&) = default;
};

[[noreturn]] void Wrong(absl::string_view what) {
  std::fprintf(stderr, "%s\n", std::string(what).c_str());
  std::abort();
}

void Require(const absl::Status& status, absl::string_view what) {
  if (!status.ok()) Wrong(absl::StrCat(what, ": ", status.ToString()));
}

// RocksDB's does not say what is a folder.
class MemoryEnv : public rocksdb::EnvWrapper {
 public:
  explicit MemoryEnv(rocksdb::Env* env) : EnvWrapper(env) {}
  const char* Name() const override { return "MemoryEnv"; }
  rocksdb::Status FileExists(const std::string& path) override {
    return path == "/" ? rocksdb::Status::OK() : EnvWrapper::FileExists(path);
  }
  rocksdb::Status IsDirectory(const std::string& path,
                              bool* is_folder) override {
    *is_folder = path == "/" || path == kFolder;
    return FileExists(path);
  }
};

auto Into(std::vector<Record>* records) {
  return [records](const LogRecord& record) {
    records->push_back({record.kind, record.cut, std::string(record.bytes)});
    return absl::OkStatus();
  };
}

std::vector<std::string> SegmentsOf(absl::string_view input) {
  std::vector<std::string> segments;
  while (input.size() >= 2 && segments.size() < kMaxSegments) {
    uint16_t size = 0;
    std::memcpy(&size, input.data(), sizeof(size));
    input.remove_prefix(sizeof(size));
    segments.emplace_back(input.substr(0, size));
    input.remove_prefix(segments.back().size());
  }
  return segments;
}

// Makes the headers sound where the fields of a record are taken from the
// input, its size modulo 256.
void FixChecksums(uint64_t number, uint64_t previous_bytes,
                  std::string* segment) {
  using oarlock::storage::kLogRecordHeaderBytes;
  if (segment->size() < oarlock::storage::kLogSegmentHeaderBytes) return;
  const std::string head = oarlock::storage::EncodeLogSegmentHeader(
      {.number = number, .previous_bytes = previous_bytes});
  std::copy(head.begin(), head.end(), segment->begin());
  size_t at = head.size();
  while (at + kLogRecordHeaderBytes <= segment->size()) {
    char* const bytes = segment->data() + at;
    oarlock::storage::LogRecordHeader header = {
        .kind = static_cast<uint8_t>(bytes[4]),
        .cut = static_cast<uint8_t>(bytes[8]),
        .synced_bytes = static_cast<uint8_t>(bytes[16]),
        .size = static_cast<uint8_t>(bytes[24]),
        .bytes_checksum = 0};
    const size_t begin = at + kLogRecordHeaderBytes;
    const size_t size = std::min(header.size, segment->size() - begin);
    header.bytes_checksum = XXH3_64bits(segment->data() + begin, size);
    // Now and then one is left unsound.
    if (bytes[40] != 'x') {
      oarlock::storage::EncodeLogRecordHeader(header, number, at, bytes);
    }
    at = begin + size;
  }
}

void Check(const LogContents& contents, const std::vector<Record>& records) {
  if (contents.num_records != records.size()) Wrong("records miscounted");
  for (size_t i = 0; i < contents.segments.size(); ++i) {
    if (contents.segments[i].number != i + 1) Wrong("segments out of order");
  }
}

// What can be read can be gone on with.
void GoOn(FileSystem* files, std::vector<Record> records) {
  std::vector<Record> found;
  const FakeClock clock;
  auto log = PushLog::Open(
      {.directory = kFolder, .sync_interval = absl::InfiniteDuration()}, files,
      clock, Into(&found));
  Require(log.status(), "what could be read cannot be opened");
  if (found != records) Wrong("opening found other records");
  records.push_back({9, 9, "more"});
  const absl::string_view more = records.back().bytes;
  Require((*log)->Append(9, 9, {&more, 1}), "cannot append");
  log->reset();
  std::vector<Record> read;
  const absl::StatusOr<LogContents> contents =
      ReadPushLog(files, kFolder, Into(&read));
  Require(contents.status(), "a repaired log cannot be read");
  if (contents->dropped_bytes != 0) Wrong("a repaired log has a torn end");
  if (read != records) Wrong("a repaired log has other records");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const bool fix = (data[0] & 1) != 0;
  const bool link = (data[0] & 2) != 0;
  std::vector<std::string> segments = SegmentsOf(
      absl::string_view(reinterpret_cast<const char*>(data) + 1, size - 1));
  const std::unique_ptr<rocksdb::Env> memory(
      rocksdb::NewMemEnv(rocksdb::Env::Default()));
  MemoryEnv env(memory.get());
  FileSystem files(&env);
  Require(files.MakeFolders(kFolder), "cannot make a folder in memory");
  for (size_t i = 0; i < segments.size(); ++i) {
    if (fix) {
      const uint64_t previous = i > 0 && link ? segments[i - 1].size() : 0;
      FixChecksums(i + 1, previous, &segments[i]);
    }
    auto file = files.CreateFile(
        absl::StrCat(kFolder, "/", oarlock::storage::LogSegmentName(i + 1)));
    Require(file.status(), "cannot make a file in memory");
    Require((*file)->Append(segments[i]), "cannot write into memory");
  }
  std::vector<Record> records;
  const absl::StatusOr<LogContents> contents =
      ReadPushLog(&files, kFolder, Into(&records));
  if (contents.ok()) {
    Check(*contents, records);
    GoOn(&files, records);
  } else if (!absl::IsDataLoss(contents.status())) {
    Wrong(contents.status().ToString());
  } else if (absl::StrContains(contents.status().message(), '\n')) {
    Wrong("an error of several lines");
  }
  return 0;
}
