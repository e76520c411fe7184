#include "pserver/checkpoint/generation_file.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"

namespace oarlock::pserver {
namespace {

constexpr uint64_t kMaxFileBytes = 32;

}  // namespace

GenerationFile::GenerationFile(storage::FileSystem* files,
                               const std::string& checkpoint_dir,
                               ServerIndex server)
    : files_(files),
      folder_(absl::StrCat(checkpoint_dir, "/store")),
      path_(absl::StrCat(folder_, "/generation-", server.value())) {}

absl::StatusOr<Generation> GenerationFile::Next(absl::Time now) const {
  const auto by_clock =
      static_cast<uint64_t>(std::max<int64_t>(1, absl::ToUnixMillis(now)));
  const absl::StatusOr<std::string> text =
      files_->ReadFile(path_, kMaxFileBytes);
  if (absl::IsNotFound(text.status())) return Generation(by_clock);
  OARLOCK_RETURN_IF_ERROR(text.status());
  uint64_t last = 0;
  if (!absl::SimpleAtoi(absl::StripSuffix(*text, "\n"), &last)) {
    return absl::DataLossError(
        absl::StrCat(path_,
                     " is not a number of one line; remove it if no "
                     "process of this job runs"));
  }
  return Generation(std::max(by_clock, last + kGenerationStep));
}

absl::Status GenerationFile::Keep(Generation generation) const {
  OARLOCK_RETURN_IF_ERROR(files_->MakeFolders(folder_));
  return storage::ReplaceFile(files_, path_,
                              absl::StrCat(generation.value(), "\n"));
}

}  // namespace oarlock::pserver
