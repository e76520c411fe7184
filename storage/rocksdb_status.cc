#include "storage/rocksdb_status.h"

#include <rocksdb/status.h>
#include <rocksdb/version.h>

#include <string>

#include "absl/strings/str_cat.h"

namespace oarlock::storage {

absl::Status FromRocksDb(const rocksdb::Status& status, absl::string_view what,
                         absl::string_view path) {
  if (status.ok()) return absl::OkStatus();
  const std::string message =
      absl::StrCat("cannot ", what, " ", path, ": ", status.ToString());
  if (status.IsNotFound() || status.IsPathNotFound()) {
    return absl::NotFoundError(absl::StrCat(message, "; check the path"));
  }
  if (status.IsNoSpace()) {
    return absl::ResourceExhaustedError(
        absl::StrCat(message, "; make room there or name another directory"));
  }
  if (status.IsCorruption()) {
    return absl::DataLossError(absl::StrCat(
        message, "; use an older checkpoint, and look at the disk"));
  }
  return absl::InternalError(
      absl::StrCat(message, "; look at the disk and its permissions"));
}

std::string RocksDbVersion() {
  return rocksdb::GetRocksVersionAsString(/*with_patch=*/true);
}

}  // namespace oarlock::storage
