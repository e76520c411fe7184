// Real images for the tests that can use them.

#ifndef OARLOCK_TESTS_DATA_IMAGES_REAL_IMAGES_H_
#define OARLOCK_TESTS_DATA_IMAGES_REAL_IMAGES_H_

#include <stdlib.h>

#include <filesystem>
#include <string>

namespace oarlock::data {

// Folder `name` of OARLOCK_DATA_DIR; empty when there is none.
inline std::string RealImages(const std::string& name) {
  const char* const data = getenv("OARLOCK_DATA_DIR");
  if (data == nullptr || *data == '\0') return "";
  const std::string folder = std::string(data) + "/" + name;
  return std::filesystem::is_directory(folder) ? folder : "";
}

}  // namespace oarlock::data

#endif  // OARLOCK_TESTS_DATA_IMAGES_REAL_IMAGES_H_
