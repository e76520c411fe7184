#include "storage/file_sum.h"

#include <algorithm>
#include <atomic>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "base/check.h"
#include "base/status_macros.h"

namespace oarlock::storage {
namespace {

constexpr size_t kReadBytes = 2 << 20;
constexpr int kMaxThreads = 64;

absl::Status Damaged(absl::string_view path, absl::string_view what) {
  return absl::DataLossError(absl::StrCat(
      path, " ", what, "; use another checkpoint, and look at the disk"));
}

// Names that no database uses: tools leave such files.
bool IsIgnored(absl::string_view name) {
  return name == "LOCK" || name == "LOG" || absl::StartsWith(name, "LOG.old.");
}

absl::Status VerifyFile(FileSystem* files, const std::string& path,
                        const StoredFile& stored) {
  const absl::StatusOr<uint64_t> bytes = files->FileBytes(path);
  if (absl::IsNotFound(bytes.status())) return Damaged(path, "is missing");
  OARLOCK_RETURN_IF_ERROR(bytes.status());
  if (*bytes != stored.bytes) {
    return Damaged(path, absl::StrCat("has ", *bytes,
                                      " bytes; the manifest "
                                      "says ",
                                      stored.bytes));
  }
  OARLOCK_ASSIGN_OR_RETURN(const StoredFile read, SumFile(files, path));
  if (read.bytes == stored.bytes && read.xxh3 == stored.xxh3) {
    return absl::OkStatus();
  }
  return Damaged(path, absl::StrCat("has the XXH3 ",
                                    absl::Hex(read.xxh3, absl::kZeroPad16),
                                    "; the manifest says ",
                                    absl::Hex(stored.xxh3, absl::kZeroPad16)));
}

absl::Status CheckNothingElse(FileSystem* files, const std::string& folder,
                              absl::Span<const StoredFile> stored) {
  std::set<absl::string_view> known;
  for (const StoredFile& file : stored) known.insert(file.name);
  const absl::StatusOr<std::vector<std::string>> names = files->List(folder);
  if (absl::IsNotFound(names.status())) return Damaged(folder, "is missing");
  OARLOCK_RETURN_IF_ERROR(names.status());
  for (const std::string& name : *names) {
    if (known.contains(name) || IsIgnored(name)) continue;
    return Damaged(absl::StrCat(folder, "/", name),
                   "is not in the manifest; a checkpoint has no other files");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<StoredFile> SumFile(FileSystem* files, const std::string& path) {
  OARLOCK_ASSIGN_OR_RETURN(const std::unique_ptr<SequentialFile> file,
                           files->OpenToRead(path));
  std::vector<char> buffer(kReadBytes);
  StoredFile summed{.name = path};
  FileSummer sum;
  for (;;) {
    OARLOCK_ASSIGN_OR_RETURN(const size_t num_read,
                             file->Read(absl::MakeSpan(buffer)));
    if (num_read == 0) break;
    sum.Add({buffer.data(), num_read});
    summed.bytes += num_read;
  }
  summed.xxh3 = sum.value();
  return summed;
}

absl::Status VerifyFiles(FileSystem* files, const std::string& folder,
                         absl::Span<const StoredFile> stored, int num_threads) {
  OARLOCK_CHECK(num_threads >= 1 && num_threads <= kMaxThreads);
  OARLOCK_RETURN_IF_ERROR(CheckNothingElse(files, folder, stored));
  std::atomic<size_t> next = 0;
  absl::Mutex mutex;
  absl::Status result;
  const auto verify = [&] {
    for (size_t i = next++; i < stored.size(); i = next++) {
      absl::Status status = VerifyFile(
          files, absl::StrCat(folder, "/", stored[i].name), stored[i]);
      if (status.ok()) continue;
      absl::MutexLock lock(&mutex);
      result.Update(std::move(status));
      next = stored.size();
    }
  };
  std::vector<std::thread> threads;
  const size_t num_useful = std::min<size_t>(num_threads, stored.size());
  for (size_t i = 1; i < num_useful; ++i) threads.emplace_back(verify);
  verify();
  for (std::thread& thread : threads) thread.join();
  return result;
}

}  // namespace oarlock::storage
