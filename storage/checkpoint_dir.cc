#include "storage/checkpoint_dir.h"

#include <xxhash.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "storage/fault_points.h"

namespace oarlock::storage {
namespace {

constexpr char kCurrent[] = "CURRENT";
constexpr char kBest[] = "BEST";
constexpr char kManifest[] = "MANIFEST";
constexpr char kTemporary[] = ".tmp";
constexpr char kPrefix[] = "ckpt-";
constexpr char kServerPrefix[] = "server-";
constexpr char kSumPrefix[] = "# xxh3 ";
constexpr size_t kSumLineBytes = sizeof(kSumPrefix) - 1 + 16 + 1;
// Of CURRENT: its line is shorter.
constexpr uint64_t kMaxCurrentBytes = 4096;

uint64_t SumOf(absl::string_view bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

absl::Status Damaged(absl::string_view path, absl::string_view what) {
  return absl::DataLossError(absl::StrCat(
      path, " ", what,
      "; use another checkpoint of the folder, by its name, and look at the "
      "disk"));
}

absl::Status Foreign(absl::string_view path, absl::string_view name) {
  return absl::FailedPreconditionError(
      absl::StrCat(path,
                   " is to hold checkpoints but has files of somebody "
                   "else (",
                   name,
                   "); it must be empty, new or a folder "
                   "of checkpoints; name another one"));
}

// 16 lower-case digits.
std::optional<uint64_t> ParseSum(absl::string_view hex) {
  uint64_t sum = 0;
  if (hex.size() != 16 || !absl::SimpleHexAtoi(hex, &sum)) return std::nullopt;
  if (hex != absl::StrCat(absl::Hex(sum, absl::kZeroPad16))) {
    return std::nullopt;
  }
  return sum;
}

// The number of "ckpt-00000042"; none for any other name.
std::optional<uint64_t> ParseName(absl::string_view name) {
  uint64_t cut = 0;
  if (!absl::SimpleAtoi(absl::StripPrefix(name, kPrefix), &cut) || cut == 0 ||
      name != CheckpointName(cut)) {
    return std::nullopt;
  }
  return cut;
}

// What may lie in the folder.
bool IsOurs(absl::string_view name) {
  return name == kCurrent || name == absl::StrCat(kCurrent, kTemporary) ||
         name == kBest || name == absl::StrCat(kBest, kTemporary) ||
         name == "store" || name == "log" || ParseName(name).has_value();
}

// What may lie in the folder of a checkpoint.
bool IsPart(absl::string_view name) {
  return name == kManifest || name == absl::StrCat(kManifest, kTemporary) ||
         absl::StartsWith(name, kServerPrefix);
}

}  // namespace

std::string CheckpointName(uint64_t cut) {
  return absl::StrFormat("%s%08d", kPrefix, cut);
}

std::string SealManifest(absl::string_view text) {
  return absl::StrCat(text, kSumPrefix,
                      absl::Hex(SumOf(text), absl::kZeroPad16), "\n");
}

absl::StatusOr<std::string> OpenManifest(absl::string_view path,
                                         std::string sealed) {
  if (sealed.size() < kSumLineBytes) {
    return Damaged(path,
                   absl::StrCat("has ", sealed.size(),
                                " bytes and no last line \"# xxh3 ...\""));
  }
  const size_t text_bytes = sealed.size() - kSumLineBytes;
  absl::string_view line = absl::string_view(sealed).substr(text_bytes);
  if (!absl::ConsumePrefix(&line, kSumPrefix) ||
      !absl::ConsumeSuffix(&line, "\n")) {
    return Damaged(path, "does not end in a line \"# xxh3 <16 hex digits>\"");
  }
  const std::optional<uint64_t> sum = ParseSum(line);
  const uint64_t actual =
      SumOf(absl::string_view(sealed).substr(0, text_bytes));
  if (sum != actual) {
    return Damaged(
        path, absl::StrCat("has the XXH3 ", absl::Hex(actual, absl::kZeroPad16),
                           "; its last line says otherwise"));
  }
  sealed.resize(text_bytes);
  return sealed;
}

absl::StatusOr<std::string> ReadManifest(FileSystem* files,
                                         const std::string& folder) {
  const std::string path = absl::StrCat(folder, "/", kManifest);
  OARLOCK_ASSIGN_OR_RETURN(
      std::string sealed,
      files->ReadFile(path, CheckpointDir::kMaxManifestBytes));
  return OpenManifest(path, std::move(sealed));
}

absl::StatusOr<CheckpointDir> CheckpointDir::Create(FileSystem* files,
                                                    std::string path) {
  OARLOCK_RETURN_IF_ERROR(files->MakeFolders(path));
  return Open(files, std::move(path));
}

absl::StatusOr<CheckpointDir> CheckpointDir::Open(FileSystem* files,
                                                  std::string path) {
  OARLOCK_ASSIGN_OR_RETURN(const bool exists, files->Exists(path));
  if (!exists) {
    return absl::NotFoundError(absl::StrCat(
        "there is no folder of checkpoints ", path, "; check the path"));
  }
  CheckpointDir dir(files, std::move(path));
  OARLOCK_RETURN_IF_ERROR(dir.CheckNothingForeign());
  return dir;
}

std::string CheckpointDir::FolderOf(uint64_t cut) const {
  return absl::StrCat(path_, "/", CheckpointName(cut));
}

absl::Status CheckpointDir::CheckNothingForeign() const {
  OARLOCK_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                           files_->List(path_));
  for (const std::string& name : names) {
    if (IsOurs(name)) continue;
    // Somebody may have added a note to checkpoints that are there.
    const absl::StatusOr<Pointer> pointer = ReadPointer();
    if (pointer.ok()) continue;
    return Foreign(path_, name);
  }
  return absl::OkStatus();
}

absl::StatusOr<CheckpointDir::Pointer> CheckpointDir::ReadPointer() const {
  const std::string path = absl::StrCat(path_, "/", kCurrent);
  absl::StatusOr<std::string> line = files_->ReadFile(path, kMaxCurrentBytes);
  if (absl::IsNotFound(line.status())) {
    return absl::NotFoundError(absl::StrCat("there is no checkpoint in ", path_,
                                            " (no ", kCurrent,
                                            "); one must be made first"));
  }
  if (absl::IsResourceExhausted(line.status())) {
    return Damaged(path, "is too long for a line with a name and a sum");
  }
  OARLOCK_RETURN_IF_ERROR(line.status());
  const size_t space = line->find(' ');
  if (space != std::string::npos && line->back() == '\n') {
    const absl::string_view text(*line);
    const std::optional<uint64_t> cut = ParseName(text.substr(0, space));
    const std::optional<uint64_t> sum =
        ParseSum(text.substr(space + 1, text.size() - space - 2));
    if (cut.has_value() && sum.has_value()) {
      return Pointer{.cut = *cut, .manifest_xxh3 = *sum};
    }
  }
  return Damaged(path, absl::StrCat("is not a line \"", CheckpointName(42),
                                    " <16 hex digits>\""));
}

absl::StatusOr<CheckpointDir::Current> CheckpointDir::ReadCurrent() const {
  OARLOCK_ASSIGN_OR_RETURN(const Pointer pointer, ReadPointer());
  const std::string path = absl::StrCat(FolderOf(pointer.cut), "/", kManifest);
  absl::StatusOr<std::string> sealed =
      files_->ReadFile(path, kMaxManifestBytes);
  if (absl::IsNotFound(sealed.status())) {
    return Damaged(path, absl::StrCat("is missing; ", kCurrent, " names it"));
  }
  OARLOCK_RETURN_IF_ERROR(sealed.status());
  const uint64_t sum = SumOf(*sealed);
  OARLOCK_ASSIGN_OR_RETURN(std::string manifest,
                           OpenManifest(path, *std::move(sealed)));
  if (sum != pointer.manifest_xxh3) {
    return Damaged(
        path, absl::StrCat("has the XXH3 ", absl::Hex(sum, absl::kZeroPad16),
                           "; ", kCurrent, " says ",
                           absl::Hex(pointer.manifest_xxh3, absl::kZeroPad16)));
  }
  return Current{.cut = pointer.cut, .manifest = std::move(manifest)};
}

absl::StatusOr<std::vector<uint64_t>> CheckpointDir::AllCuts() const {
  OARLOCK_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                           files_->List(path_));
  std::vector<uint64_t> cuts;
  for (const std::string& name : names) {
    if (const auto cut = ParseName(name); cut.has_value()) cuts.push_back(*cut);
  }
  std::sort(cuts.begin(), cuts.end());
  return cuts;
}

absl::StatusOr<std::vector<uint64_t>> CheckpointDir::List() const {
  OARLOCK_ASSIGN_OR_RETURN(const std::vector<uint64_t> all, AllCuts());
  std::vector<uint64_t> cuts;
  for (const uint64_t cut : all) {
    OARLOCK_ASSIGN_OR_RETURN(
        const bool complete,
        files_->Exists(absl::StrCat(FolderOf(cut), "/", kManifest)));
    if (complete) cuts.push_back(cut);
  }
  return cuts;
}

absl::StatusOr<uint64_t> CheckpointDir::LargestCut() const {
  OARLOCK_ASSIGN_OR_RETURN(const std::vector<uint64_t> cuts, AllCuts());
  return cuts.empty() ? 0 : cuts.back();
}

absl::Status CheckpointDir::Remove(uint64_t cut) {
  const std::string folder = FolderOf(cut);
  OARLOCK_ASSIGN_OR_RETURN(const bool exists, files_->Exists(folder));
  if (!exists) return absl::OkStatus();
  OARLOCK_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                           files_->List(folder));
  for (const std::string& name : names) {
    if (!IsPart(name)) return Foreign(folder, name);
  }
  // Without it the rest is no checkpoint, should this be cut short.
  if (std::binary_search(names.begin(), names.end(), kManifest)) {
    OARLOCK_RETURN_IF_ERROR(
        files_->RemoveFile(absl::StrCat(folder, "/", kManifest)));
    OARLOCK_RETURN_IF_ERROR(files_->SyncFolder(folder));
    FaultPoint("cut.remove.without_manifest");
  }
  return files_->RemoveTree(folder);
}

absl::StatusOr<std::string> CheckpointDir::Begin(uint64_t cut) {
  OARLOCK_CHECK(cut > 0);
  const absl::StatusOr<Pointer> current = ReadPointer();
  if (!absl::IsNotFound(current.status())) {
    OARLOCK_RETURN_IF_ERROR(current.status());
    OARLOCK_CHECK(current->cut != cut);
  }
  OARLOCK_RETURN_IF_ERROR(Remove(cut));
  OARLOCK_RETURN_IF_ERROR(files_->MakeFolders(FolderOf(cut)));
  return FolderOf(cut);
}

absl::Status CheckpointDir::CheckManifestSize(uint64_t bytes) {
  if (bytes <= kMaxManifestBytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("the manifest of a checkpoint would have ", bytes,
                   " bytes; legal is up to ", kMaxManifestBytes,
                   "; use fewer tables or servers"));
}

absl::Status CheckpointDir::Commit(uint64_t cut, absl::string_view manifest) {
  const std::string sealed = SealManifest(manifest);
  OARLOCK_RETURN_IF_ERROR(CheckManifestSize(sealed.size()));
  FaultPoint("cut.commit.before_manifest");
  OARLOCK_RETURN_IF_ERROR(
      ReplaceFile(files_, absl::StrCat(FolderOf(cut), "/", kManifest), sealed));
  FaultPoint("cut.commit.before_current");
  OARLOCK_RETURN_IF_ERROR(ReplaceFile(
      files_, absl::StrCat(path_, "/", kCurrent),
      absl::StrCat(CheckpointName(cut), " ",
                   absl::Hex(SumOf(sealed), absl::kZeroPad16), "\n")));
  FaultPoint("cut.commit.after_current");
  return absl::OkStatus();
}

absl::Status CheckpointDir::Abandon(uint64_t cut) {
  const absl::StatusOr<Pointer> current = ReadPointer();
  if (!absl::IsNotFound(current.status())) {
    OARLOCK_RETURN_IF_ERROR(current.status());
    if (current->cut == cut) return absl::OkStatus();
  }
  OARLOCK_RETURN_IF_ERROR(Remove(cut));
  return files_->SyncFolder(path_);
}

absl::Status CheckpointDir::Keep(uint32_t num_kept) {
  OARLOCK_CHECK(num_kept >= 1);
  OARLOCK_ASSIGN_OR_RETURN(const Pointer current, ReadPointer());
  OARLOCK_ASSIGN_OR_RETURN(const std::vector<uint64_t> all, AllCuts());
  OARLOCK_ASSIGN_OR_RETURN(std::vector<uint64_t> complete, List());
  // One beyond CURRENT is being made, or its process died on the last step.
  std::erase_if(complete, [&](uint64_t cut) { return cut > current.cut; });
  const uint64_t oldest_kept =
      complete.size() <= num_kept ? 0 : complete[complete.size() - num_kept];
  const absl::StatusOr<uint64_t> best = ReadBest();
  if (!absl::IsNotFound(best.status())) {
    OARLOCK_RETURN_IF_ERROR(best.status());
  }
  for (const uint64_t cut : all) {
    if (best.ok() && cut == *best) continue;
    const bool half_made =
        !std::binary_search(complete.begin(), complete.end(), cut);
    if (cut < current.cut && (half_made || cut < oldest_kept)) {
      OARLOCK_RETURN_IF_ERROR(Remove(cut));
    }
  }
  return files_->SyncFolder(path_);
}

absl::Status CheckpointDir::MarkBest(uint64_t cut) {
  return ReplaceFile(files_, absl::StrCat(path_, "/", kBest),
                     absl::StrCat(CheckpointName(cut), "\n"));
}

absl::StatusOr<uint64_t> CheckpointDir::ReadBest() const {
  const std::string path = absl::StrCat(path_, "/", kBest);
  OARLOCK_ASSIGN_OR_RETURN(const std::string line,
                           files_->ReadFile(path, kMaxCurrentBytes));
  const std::optional<uint64_t> cut = ParseName(absl::StripSuffix(line, "\n"));
  if (cut.has_value()) return *cut;
  return Damaged(path,
                 absl::StrCat("is not a line \"", CheckpointName(42), "\""));
}

}  // namespace oarlock::storage
