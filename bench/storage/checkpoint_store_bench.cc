// Records as those of ten million rows of 144 bytes: written, finished and
// published; read back from the disk, files compared with their sums first.
//
//   checkpoint_store_bench [--folder DIR] [--writers N]
//       [--verify_threads N] ...   see bench/common/repetitions.h

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/check.h"
#include "base/process/malloc.h"
#include "base/random.h"
#include "bench/common/repetitions.h"
#include "storage/checkpoint_reader.h"
#include "storage/checkpoint_store.h"
#include "storage/file_sum.h"

namespace oarlock_bench {
namespace {

using namespace oarlock;           // NOLINT: a program of one page.
using namespace oarlock::storage;  // NOLINT: likewise
namespace fs = std::filesystem;

constexpr uint64_t kBytes = 1'440'000'000;
constexpr size_t kRecordBytes = 64 << 10;
constexpr uint32_t kUnits = 256;
constexpr uint32_t kRecordsOfUnit = kBytes / kRecordBytes / kUnits;
constexpr int kThreads = 2;
constexpr double kWritten =
    static_cast<double>(kRecordBytes) * kRecordsOfUnit * kUnits;

template <typename T>
T Must(absl::StatusOr<T> result) {
  if (!result.ok()) {
    std::fprintf(stderr, "%s\n", result.status().ToString().c_str());
    std::exit(1);
  }
  return *std::move(result);
}

void Must(const absl::Status& status) { OARLOCK_CHECK(status.ok()); }

class Bench {
 public:
  Bench(std::string folder, int writers)
      : folder_(std::move(folder)), writers_(writers) {
    RandomSequence random(1);
    for (size_t i = 0; i < kRecordBytes / 8; ++i) {
      const uint64_t x = random();
      source_.append(reinterpret_cast<const char*>(&x), sizeof(x));
    }
  }
  ~Bench() { fs::remove_all(folder_); }

  Figures Write() {
    fs::remove_all(folder_);
    const std::unique_ptr<CheckpointStore> store =
        Must(CheckpointStore::Create({.directory = folder_ + "/store"}));
    const double start = Now();
    const double cpu = ProcessCpu();
    const std::unique_ptr<CutWriter> cut = store->BeginCut(1);
    RunThreads(writers_, [&](int thread) {
      const std::unique_ptr<RecordWriter> writer = cut->NewRecordWriter();
      std::string bytes;
      const uint32_t begin = kUnits * thread / writers_;
      const uint32_t end = kUnits * (thread + 1) / writers_;
      for (uint32_t unit = begin; unit < end; ++unit) {
        RecordName name{.cut = 1, .table = TableId(1), .unit = unit};
        for (; name.number < kRecordsOfUnit; ++name.number) {
          // Packing copies, too.
          bytes.assign(source_);
          Must(writer->Add(name, bytes));
        }
      }
      Must(writer->Finish());
    });
    const double written = Now();
    Must(cut->Finish());
    const double finished = Now();
    files_ = Must(store->Publish(folder_ + "/out"));
    const double end = Now();
    return {{"bytes_per_second", kWritten / (end - start)},
            {"cpu_seconds", ProcessCpu() - cpu},
            {"finish_ms", (finished - written) * 1e3},
            {"publish_ms", (end - finished) * 1e3}};
  }

  Figures Read(int verify_threads, bool cold) {
    if (files_.empty()) Write();
    if (cold) Forget();
    const double start = Now();
    const double cpu = ProcessCpu();
    CheckpointReaderOptions options;
    options.folder = folder_ + "/out";
    options.stored = files_;
    options.verify_threads = verify_threads;
    const std::unique_ptr<CheckpointReader> reader =
        Must(CheckpointReader::Open(options));
    const double opened = Now();
    std::vector<uint64_t> sums(kThreads);
    RunThreads(kThreads, [&](int thread) {
      const uint32_t begin = kUnits * thread / kThreads;
      const uint32_t end = kUnits * (thread + 1) / kThreads;
      uint64_t bytes_read = 0;
      for (uint32_t unit = begin; unit < end; ++unit) {
        Must(reader->Visit(1, TableId(1), unit, RecordKind::kRows,
                           [&](const RecordName&, absl::string_view bytes) {
                             bytes_read += bytes.size();
                             return absl::OkStatus();
                           }));
      }
      sums[thread] = bytes_read;
    });
    const double end = Now();
    OARLOCK_CHECK(sums[0] + sums[1] == static_cast<uint64_t>(kWritten));
    return {{"bytes_per_second", kWritten / (end - start)},
            {"cpu_seconds", ProcessCpu() - cpu},
            {"open_seconds", opened - start}};
  }

 private:
  // Lets the system forget the pages of the files.
  void Forget() {
    for (const StoredFile& file : files_) {
      const int fd = open((folder_ + "/out/" + file.name).c_str(), O_RDONLY);
      OARLOCK_CHECK(fd >= 0 && fsync(fd) == 0);
      OARLOCK_CHECK(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0);
      close(fd);
    }
  }

  const std::string folder_;
  const int writers_;
  std::string source_;
  std::vector<StoredFile> files_;
};

}  // namespace
}  // namespace oarlock_bench

int main(int argc, char** argv) {
  using namespace oarlock_bench;  // NOLINT
  oarlock::KeepFreedMemory();
  Bench bench(FlagValue(argc, argv, "--folder",
                        std::filesystem::temp_directory_path() /
                            "checkpoint_store_bench"),
              std::stoi(FlagValue(argc, argv, "--writers", "2")));
  Repetitions repetitions;
  repetitions.Add("write", [&] { return bench.Write(); });
  const int verifiers =
      std::stoi(FlagValue(argc, argv, "--verify_threads", "2"));
  repetitions.Add("read", [&] { return bench.Read(verifiers, true); });
  repetitions.Add("read unverified", [&] { return bench.Read(0, true); });
  repetitions.Add("read from memory", [&] { return bench.Read(2, false); });
  return repetitions.Run(argc, argv);
}
