// Appending to the push log against write(2) of the same bytes into files of
// the same size, in turns.
//
//   push_log_bench [--directory /tmp/oarlock_push_log_bench] [NAME...]
//
// Names: who writes, the size of a record, how its bytes come ("slices": 8 KiB
// each, as gRPC receives them), threads, and when it is synced ("100 ms": in
// the background). "write" has no checksums, no headers and no one-at-a-time.
// A repetition of the large records writes 128 MB, of the small ones 16 MB, and
// leaves no file.

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/check.h"
#include "base/clock.h"
#include "bench/common/repetitions.h"
#include "storage/file_system.h"
#include "storage/push_log.h"
#include "storage/push_log_reader.h"

namespace oarlock_bench {
namespace {

using oarlock::storage::FileSystem;
using oarlock::storage::LogRecord;
using oarlock::storage::PushLog;

constexpr uint64_t kSegmentBytes = uint64_t{64} << 20;
constexpr size_t kLargeBytes = 800'000;
constexpr size_t kSliceBytes = 8192;

std::string directory;  // NOLINT: set once by main

absl::Status Ignore(const LogRecord&) { return absl::OkStatus(); }

struct Load {
  size_t record_bytes = 0;
  size_t num_records = 0;
  int num_threads = 1;
  bool in_slices = false;
};

// The bytes of a record, the same for all of a thread, as its owner has them.
std::vector<absl::string_view> SlicesOf(const std::string& bytes,
                                        bool in_slices) {
  if (!in_slices) return {bytes};
  std::vector<absl::string_view> slices;
  for (size_t begin = 0; begin < bytes.size(); begin += kSliceBytes) {
    slices.push_back(absl::string_view(bytes).substr(begin, kSliceBytes));
  }
  return slices;
}

Figures FiguresOf(const Load& load, double seconds, double cpu_seconds) {
  const double bytes = double(load.record_bytes) * load.num_records;
  return {{"gb_per_second", bytes / seconds / 1e9},
          {"us_per_record", seconds / load.num_records * 1e6},
          {"cpu_us_per_record", cpu_seconds / load.num_records * 1e6}};
}

Figures MeasureLog(const Load& load, absl::Duration sync_interval) {
  std::filesystem::remove_all(directory);
  absl::StatusOr<std::unique_ptr<PushLog>> log =
      PushLog::Open({.directory = directory,
                     .segment_bytes = kSegmentBytes,
                     .sync_interval = sync_interval},
                    FileSystem::Real(), oarlock::Clock::Monotonic(), Ignore);
  OARLOCK_CHECK(log.ok());
  const std::string bytes(load.record_bytes, 'x');
  std::vector<double> longest(load.num_threads);
  const double cpu_before = ProcessCpu();
  const double seconds = RunThreads(load.num_threads, [&](int thread) {
    const std::vector<absl::string_view> slices =
        SlicesOf(bytes, load.in_slices);
    for (size_t i = 0; i < load.num_records / load.num_threads; ++i) {
      const double begin = Now();
      OARLOCK_CHECK((*log)->Append(1, 1, slices).ok());
      longest[thread] = std::max(longest[thread], Now() - begin);
    }
  });
  const double cpu = ProcessCpu() - cpu_before;
  log->reset();
  std::filesystem::remove_all(directory);
  Figures figures = FiguresOf(load, seconds, cpu);
  figures.emplace_back("longest_ms",
                       *std::max_element(longest.begin(), longest.end()) * 1e3);
  return figures;
}

// Large records at a rate that a busy job has, for seconds, with the syncs of
// the default interval: how long a push waits at most.
Figures MeasurePaced(double gb_per_second) {
  constexpr size_t kRecords = 800;
  std::filesystem::remove_all(directory);
  absl::StatusOr<std::unique_ptr<PushLog>> log =
      PushLog::Open({.directory = directory}, FileSystem::Real(),
                    oarlock::Clock::Monotonic(), Ignore);
  OARLOCK_CHECK(log.ok());
  const std::string bytes(kLargeBytes, 'x');
  const absl::string_view slice = bytes;
  std::vector<double> waits;
  const double start = Now();
  for (size_t i = 0; i < kRecords; ++i) {
    const double due = start + i * kLargeBytes / (gb_per_second * 1e9);
    while (Now() < due) usleep(100);
    const double begin = Now();
    OARLOCK_CHECK((*log)->Append(1, 1, {&slice, 1}).ok());
    waits.push_back((Now() - begin) * 1e3);
  }
  log->reset();
  std::filesystem::remove_all(directory);
  std::sort(waits.begin(), waits.end());
  return {{"p50_ms", waits[kRecords / 2]},
          {"p99_ms", waits[kRecords * 99 / 100]},
          {"longest_ms", waits.back()}};
}

// A log of 512 MB, in the page cache: what a server that comes back reads.
Figures MeasureRead() {
  constexpr size_t kRecords = 640;
  std::filesystem::remove_all(directory);
  {
    absl::StatusOr<std::unique_ptr<PushLog>> log = PushLog::Open(
        {.directory = directory, .sync_interval = absl::InfiniteDuration()},
        FileSystem::Real(), oarlock::Clock::Monotonic(), Ignore);
    OARLOCK_CHECK(log.ok());
    const std::string bytes(kLargeBytes, 'x');
    const absl::string_view slice = bytes;
    for (size_t i = 0; i < kRecords; ++i) {
      OARLOCK_CHECK((*log)->Append(1, 1, {&slice, 1}).ok());
    }
  }
  const double begin = Now();
  const absl::StatusOr<oarlock::storage::LogContents> contents =
      oarlock::storage::ReadPushLog(FileSystem::Real(), directory, Ignore);
  const double seconds = Now() - begin;
  OARLOCK_CHECK(contents.ok() && contents->num_records == kRecords);
  std::filesystem::remove_all(directory);
  return {{"gb_per_second", kRecords * kLargeBytes / seconds / 1e9}};
}

// Each thread has files of its own.
Figures MeasureWrite(const Load& load, bool sync_each) {
  std::filesystem::remove_all(directory);
  std::filesystem::create_directories(directory);
  const std::string bytes(load.record_bytes, 'x');
  const double cpu_before = ProcessCpu();
  const double seconds = RunThreads(load.num_threads, [&](int thread) {
    int fd = -1;
    uint64_t file_bytes = kSegmentBytes;
    for (size_t i = 0; i < load.num_records / load.num_threads; ++i) {
      if (file_bytes >= kSegmentBytes) {
        if (fd >= 0) close(fd);
        const std::string path =
            directory + "/" + std::to_string(thread) + "." + std::to_string(i);
        fd = open(path.c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0644);
        OARLOCK_CHECK(fd >= 0);
        file_bytes = 0;
      }
      const ssize_t written = write(fd, bytes.data(), bytes.size());
      OARLOCK_CHECK(written == static_cast<ssize_t>(bytes.size()));
      if (sync_each) OARLOCK_CHECK(fdatasync(fd) == 0);
      file_bytes += bytes.size();
    }
    close(fd);
  });
  const double cpu = ProcessCpu() - cpu_before;
  std::filesystem::remove_all(directory);
  return FiguresOf(load, seconds, cpu);
}

}  // namespace
}  // namespace oarlock_bench

int main(int argc, char** argv) {
  using namespace oarlock_bench;
  directory = FlagValue(argc, argv, "directory", "/tmp/oarlock_push_log_bench");
  Repetitions repetitions;
  const auto add = [&](const std::string& name, const Load& load) {
    repetitions.Add("write " + name, [=] { return MeasureWrite(load, false); });
    repetitions.Add("log " + name + ", no sync",
                    [=] { return MeasureLog(load, absl::InfiniteDuration()); });
    repetitions.Add("log " + name + ", 100 ms",
                    [=] { return MeasureLog(load, absl::Milliseconds(100)); });
  };
  for (const int threads : {1, 2}) {
    const std::string suffix = ", threads " + std::to_string(threads);
    const Load large = {.record_bytes = kLargeBytes,
                        .num_records = 160,
                        .num_threads = threads};
    add("800 KB" + suffix, large);
    Load sliced = large;
    sliced.in_slices = true;
    repetitions.Add("log 800 KB slices" + suffix + ", no sync", [=] {
      return MeasureLog(sliced, absl::InfiniteDuration());
    });
    add("1 KB" + suffix,
        {.record_bytes = 1000, .num_records = 16'000, .num_threads = threads});
    const Load synced = {
        .record_bytes = 1000, .num_records = 200, .num_threads = threads};
    repetitions.Add("write 1 KB" + suffix + ", sync each",
                    [=] { return MeasureWrite(synced, true); });
    repetitions.Add("log 1 KB" + suffix + ", sync each",
                    [=] { return MeasureLog(synced, absl::ZeroDuration()); });
  }
  repetitions.Add("log 800 KB, .1 GB/s paced, 100 ms",
                  [] { return MeasurePaced(.1); });
  repetitions.Add("read 512 MB", MeasureRead);
  return repetitions.Run(argc, argv);
}
