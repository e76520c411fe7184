// XXH3-64 of files.

#ifndef OARLOCK_STORAGE_FILE_SUM_H_
#define OARLOCK_STORAGE_FILE_SUM_H_

#include <xxhash.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "storage/checkpoint_record.h"
#include "storage/file_system.h"

namespace oarlock::storage {

// XXH3-64 of bytes that come in parts.
class FileSummer {
 public:
  FileSummer() : state_(XXH3_createState()) { XXH3_64bits_reset(state_.get()); }

  void Add(absl::string_view bytes) {
    XXH3_64bits_update(state_.get(), bytes.data(), bytes.size());
  }
  uint64_t value() const { return XXH3_64bits_digest(state_.get()); }

 private:
  struct Free {
    void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
  };
  std::unique_ptr<XXH3_state_t, Free> state_;
};

// Size and sum of a file, by reading it; `name` is the path.
absl::StatusOr<StoredFile> SumFile(FileSystem* files, const std::string& path);

// Reads a published folder as a whole, with `num_threads`, 1 to 64: DataLoss,
// naming the file, when one that `stored` lists is missing, has another size or
// another sum, or when there is one more that a database would use. Nothing is
// written; may run while the folder is read.
absl::Status VerifyFiles(FileSystem* files, const std::string& folder,
                         absl::Span<const StoredFile> stored, int num_threads);

}  // namespace oarlock::storage

#endif  // OARLOCK_STORAGE_FILE_SUM_H_
