// How failures of RocksDB and of the file system are told.

#ifndef OARLOCK_STORAGE_ROCKSDB_STATUS_H_
#define OARLOCK_STORAGE_ROCKSDB_STATUS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace rocksdb {
class Status;
}

namespace oarlock::storage {

// "cannot <what> <path>: <what RocksDB says>; <what to do>". NotFound for a
// path that is not there, ResourceExhausted for a full disk, DataLoss for
// damage, else Internal. OK is OK.
absl::Status FromRocksDb(const rocksdb::Status& status, absl::string_view what,
                         absl::string_view path);

// Of the library that this process has, "7.8.3".
std::string RocksDbVersion();

}  // namespace oarlock::storage

#endif  // OARLOCK_STORAGE_ROCKSDB_STATUS_H_
