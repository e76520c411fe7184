// A folder for files of a test.

#ifndef OARLOCK_TESTS_BASE_TEST_FOLDER_H_
#define OARLOCK_TESTS_BASE_TEST_FOLDER_H_

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace oarlock {

// A new one under the test's temporary one; removed, with what is in it, when
// this ends.
class TestFolder {
 public:
  TestFolder() {
    const std::filesystem::path temporary = ::testing::TempDir();
    path_ = temporary / "oarlock_XXXXXX";
    OARLOCK_CHECK(mkdtemp(path_.data()) != nullptr);
  }
  ~TestFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;

  std::string Path(std::string_view name) const {
    return absl::StrCat(path_, "/", std::string(name));
  }
  // Writes a file; its path.
  std::string Write(std::string_view name, std::string_view content) const {
    const std::string path = Path(name);
    std::ofstream(path, std::ios::binary) << content;
    return path;
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace oarlock

#endif  // OARLOCK_TESTS_BASE_TEST_FOLDER_H_
