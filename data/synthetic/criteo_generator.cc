#include "data/synthetic/criteo_generator.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <filesystem>
#include <memory>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "base/status_macros.h"
#include "data/reader/byte_source.h"
#include "data/synthetic/criteo_world.h"
#include "data/synthetic/score_histogram.h"

namespace oarlock::data {
namespace {

// Number of rows that a thread formats at a time: about 2 MB.
constexpr uint64_t kChunkRows = 8192;
// A label, 13 integers of up to 19 digits, 26 values, 40 separators.
constexpr size_t kMaxRowBytes = 1 + 13 * 20 + 26 * 8 + 40;

struct Chunk {
  int file = 0;
  uint64_t begin = 0;
  uint64_t end = 0;
};

std::vector<Chunk> CutIntoChunks(const GeneratorOptions& options) {
  std::vector<Chunk> chunks;
  const uint64_t files = static_cast<uint64_t>(options.files);
  const uint64_t rest = options.rows % files;
  uint64_t begin = 0;
  for (uint64_t file = 0; file < files; ++file) {
    const uint64_t file_end =
        begin + options.rows / files + (file < rest ? 1 : 0);
    while (begin < file_end) {
      const uint64_t end = std::min(begin + kChunkRows, file_end);
      chunks.push_back(
          {.file = static_cast<int>(file), .begin = begin, .end = end});
      begin = end;
    }
  }
  return chunks;
}

// Writes `row` at `out`, which has room for kMaxRowBytes, and returns the end
// of the text.
char* Format(const CriteoRow& row, char* out) {
  *out++ = static_cast<char>('0' + row.label);
  for (const int64_t x : row.integers) {
    *out++ = '\t';
    if (x != CriteoRow::kMissing) out = std::to_chars(out, out + 20, x).ptr;
  }
  for (int i = 0; i < kCriteoCategories; ++i) {
    *out++ = '\t';
    if (row.categories[i] == CriteoRow::kMissing) continue;
    const uint32_t value = CriteoWorld::Value(i, row.categories[i]);
    for (int shift = 28; shift >= 0; shift -= 4) {
      *out++ = "0123456789abcdef"[(value >> shift) & 15];
    }
  }
  *out++ = '\n';
  return out;
}

// Writes the chunks of a run. Threads take chunks in order and format them in
// parallel. The offset of a chunk in its file is known once all chunks before
// it are formatted. So at most one chunk per thread is in memory.
class Writer {
 public:
  explicit Writer(const GeneratorOptions& options)
      : options_(options),
        chunks_(CutIntoChunks(options)),
        world_(options.seed) {}

  absl::Status Open() {
    for (int i = 0; i < options_.files; ++i) {
      const std::string path = TemporaryPath(i);
      std::error_code none;
      const std::filesystem::file_status there =
          std::filesystem::symlink_status(Path(i), none);
      if (std::filesystem::exists(there) &&
          !std::filesystem::is_regular_file(there)) {
        return absl::FailedPreconditionError(absl::StrCat(
            "cannot write '", Path(i),
            "': there is something that is no regular file; remove it, or "
            "write to another folder"));
      }
      FileDescriptor fd(
          open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
      if (!fd.valid()) {
        return absl::ErrnoToStatus(errno,
                                   absl::StrCat("cannot write '", path, "'"));
      }
    }
    return absl::OkStatus();
  }

  absl::Status Run() {
    std::vector<std::thread> threads;
    for (int i = 1; i < options_.threads; ++i) {
      threads.emplace_back([this] { WriteChunks(); });
    }
    WriteChunks();
    for (std::thread& thread : threads) thread.join();
    absl::MutexLock lock(&mutex_);
    return status_;
  }

  absl::Status Publish() {
    for (int i = 0; i < options_.files; ++i) {
      if (rename(TemporaryPath(i).c_str(), Path(i).c_str()) != 0) {
        return absl::ErrnoToStatus(
            errno, absl::StrCat("cannot rename to '", Path(i), "'"));
      }
    }
    return absl::OkStatus();
  }

  void RemoveTemporaries() {
    for (int i = 0; i < options_.files; ++i) unlink(TemporaryPath(i).c_str());
  }

  GeneratorReport Report() {
    absl::MutexLock lock(&mutex_);
    GeneratorReport report;
    report.rows = options_.rows;
    report.bytes = bytes_;
    report.ctr = static_cast<double>(best_.num_clicks()) /
                 static_cast<double>(best_.num_scores());
    report.best_auc = best_.Auc();
    report.best_logloss = best_.LogLoss({});
    report.linear_auc = linear_.Auc();
    report.linear_logloss = linear_.LogLoss(linear_.Calibrated());
    return report;
  }

 private:
  std::string Path(int file) const {
    return absl::StrCat(options_.out_dir, "/part-", file);
  }
  std::string TemporaryPath(int file) const {
    return absl::StrCat(options_.out_dir, "/.part-", file, ".tmp");
  }

  // One thread's share of the work.
  void WriteChunks() {
    ScoreHistogram best;
    ScoreHistogram linear;
    std::string text;
    for (size_t c; (c = next_chunk_.fetch_add(1)) < chunks_.size();) {
      const Chunk& chunk = chunks_[c];
      text.resize((chunk.end - chunk.begin) * kMaxRowBytes);
      char* out = text.data();
      for (uint64_t i = chunk.begin; i < chunk.end; ++i) {
        CriteoRow row;
        world_.Draw(i, &row);
        best.Add(row.log_odds, row.label != 0);
        linear.Add(row.additive_log_odds, row.label != 0);
        out = Format(row, out);
      }
      const size_t size = static_cast<size_t>(out - text.data());
      uint64_t offset = 0;
      if (!TakeTurn(c, size, &offset)) return;
      const absl::Status written =
          WriteAt(chunk.file, {text.data(), size}, offset);
      if (!written.ok()) {
        absl::MutexLock lock(&mutex_);
        status_.Update(written);
        return;
      }
    }
    absl::MutexLock lock(&mutex_);
    best_.Merge(best);
    linear_.Merge(linear);
  }

  // Waits until all chunks before `c` have their offsets, then reserves the
  // next `size` bytes. False when the run has failed.
  bool TakeTurn(size_t c, size_t size, uint64_t* offset) {
    absl::MutexLock lock(&mutex_);
    const auto is_turn = [this, c]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
      return turn_ == c || !status_.ok();
    };
    mutex_.Await(absl::Condition(&is_turn));
    if (!status_.ok()) return false;
    const bool starts_file = c == 0 || chunks_[c - 1].file != chunks_[c].file;
    if (starts_file) file_bytes_ = 0;
    *offset = file_bytes_;
    file_bytes_ += size;
    bytes_ += size;
    ++turn_;
    return true;
  }

  absl::Status WriteAt(int file, std::string_view text, uint64_t offset) const {
    const std::string path = TemporaryPath(file);
    const FileDescriptor fd(open(path.c_str(), O_WRONLY | O_CLOEXEC));
    while (!text.empty()) {
      const ssize_t n = pwrite(fd.get(), text.data(), text.size(),
                               static_cast<off_t>(offset));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) {
        return absl::ErrnoToStatus(errno,
                                   absl::StrCat("cannot write '", path, "'"));
      }
      text.remove_prefix(static_cast<size_t>(n));
      offset += static_cast<uint64_t>(n);
    }
    return absl::OkStatus();
  }

  const GeneratorOptions options_;
  const std::vector<Chunk> chunks_;
  const CriteoWorld world_;
  std::atomic<size_t> next_chunk_ = 0;
  absl::Mutex mutex_;
  size_t turn_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t file_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  ScoreHistogram best_ ABSL_GUARDED_BY(mutex_);
  ScoreHistogram linear_ ABSL_GUARDED_BY(mutex_);
};

// An error when files of an earlier run would match a pattern like part-*
// together with the new files.
absl::Status CheckNoOtherParts(const GeneratorOptions& options) {
  std::error_code error;
  for (const auto& entry :
       std::filesystem::directory_iterator(options.out_dir, error)) {
    const std::string name = entry.path().filename().string();
    uint64_t number = 0;
    if (name.starts_with("part-") &&
        absl::SimpleAtoi(name.substr(5), &number) &&
        number >= static_cast<uint64_t>(options.files)) {
      return absl::FailedPreconditionError(
          absl::StrCat("'", options.out_dir, "' holds ", name,
                       " of an earlier run, which ", options.files,
                       " new files would not replace; remove it or choose "
                       "another folder"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status GeneratorOptions::Validate() const {
  if (files < 1 || files > kMaxFiles) {
    return absl::InvalidArgumentError(
        absl::StrCat("files is ", files, "; legal is 1 to ", kMaxFiles));
  }
  if (rows < static_cast<uint64_t>(files)) {
    return absl::InvalidArgumentError(
        absl::StrCat("rows is ", rows, " for ", files,
                     " files; legal is at least one row a file"));
  }
  if (threads < 1 || threads > kMaxThreads) {
    return absl::InvalidArgumentError(
        absl::StrCat("threads is ", threads, "; legal is 1 to ", kMaxThreads));
  }
  if (out_dir.empty()) {
    return absl::InvalidArgumentError("out_dir is empty; name a folder");
  }
  return absl::OkStatus();
}

absl::StatusOr<GeneratorReport> GenerateCriteo(
    const GeneratorOptions& options) {
  OARLOCK_RETURN_IF_ERROR(options.Validate());
  std::error_code error;
  std::filesystem::create_directories(options.out_dir, error);
  if (error) {
    return absl::FailedPreconditionError(absl::StrCat(
        "cannot make folder '", options.out_dir, "': ", error.message()));
  }
  OARLOCK_RETURN_IF_ERROR(CheckNoOtherParts(options));
  Writer writer(options);
  absl::Status status = writer.Open();
  if (status.ok()) status = writer.Run();
  if (status.ok()) status = writer.Publish();
  if (!status.ok()) {
    writer.RemoveTemporaries();
    return status;
  }
  return writer.Report();
}

}  // namespace oarlock::data
