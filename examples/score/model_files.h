// The files of an exported model (docs/export_format.md), checked and mapped.

#ifndef OARLOCK_EXAMPLES_SCORE_MODEL_FILES_H_
#define OARLOCK_EXAMPLES_SCORE_MODEL_FILES_H_

#include <cstddef>
#include <map>
#include <memory>
#include <string>

namespace oarlock::score {

// A file in memory, as it lies on disk.
class MappedFile {
 public:
  // Null, and `error` says why, when it cannot be read.
  static std::unique_ptr<MappedFile> Open(const std::string& path,
                                          std::string* error);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const char* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  MappedFile() = default;

  const char* data_ = nullptr;
  size_t size_ = 0;
};

// By name.
using ModelFiles = std::map<std::string, std::unique_ptr<MappedFile>>;

// Maps all files that SUMS of `folder` lists. False, and `error` names the
// file, when one is missing or not as it was written.
bool OpenModelFiles(const std::string& folder, ModelFiles* files,
                    std::string* error);

}  // namespace oarlock::score

#endif  // OARLOCK_EXAMPLES_SCORE_MODEL_FILES_H_
