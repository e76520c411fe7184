// The folder of an exported model while it is written: files with sizes and
// sums (docs/export_format.md, "SUMS").

#ifndef OARLOCK_FLEET_SERVING_MODEL_FOLDER_H_
#define OARLOCK_FLEET_SERVING_MODEL_FOLDER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "storage/file_system.h"

namespace oarlock {

class ModelFolder;

// One file of it. Not thread-safe.
class SummedFile {
 public:
  absl::Status Append(absl::string_view bytes);
  // What is left in the buffer goes to the disk; the folder learns the sum.
  absl::Status Close();

 private:
  friend class ModelFolder;
  SummedFile(ModelFolder* folder, std::string name,
             std::unique_ptr<storage::AppendedFile> file);
  absl::Status WriteBuffer();

  ModelFolder* const folder_;
  const std::string name_;
  const std::unique_ptr<storage::AppendedFile> file_;
  std::string buffer_;
  uint64_t bytes_ = 0;
  uint32_t crc32_ = 0;
};

// Until Publish it is "<path>.tmp", which is removed where that is not called.
// Not thread-safe.
class ModelFolder {
 public:
  // AlreadyExists when there is something at `path`; errors of the disk.
  static absl::StatusOr<std::unique_ptr<ModelFolder>> Create(
      storage::FileSystem* files, const std::string& path);
  ~ModelFolder();

  // Where it is now; for files that do not stay, too.
  const std::string& temporary() const { return temporary_; }
  absl::StatusOr<std::unique_ptr<SummedFile>> CreateFile(
      const std::string& name);
  // A whole file.
  absl::Status WriteFile(const std::string& name, absl::string_view bytes);
  // Of all files that were closed.
  uint64_t bytes() const;

  // Writes SUMS and gives the folder its name. OK: it is durable.
  absl::Status Publish();

 private:
  friend class SummedFile;
  struct Sum {
    uint64_t bytes = 0;
    uint32_t crc32 = 0;
  };

  ModelFolder(storage::FileSystem* files, std::string path);

  storage::FileSystem* const files_;
  const std::string path_;
  const std::string temporary_;
  // By name.
  std::map<std::string, Sum> sums_;
};

}  // namespace oarlock

#endif  // OARLOCK_FLEET_SERVING_MODEL_FOLDER_H_
