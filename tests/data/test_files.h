// Files for the tests of data.

#ifndef OARLOCK_TESTS_DATA_TEST_FILES_H_
#define OARLOCK_TESTS_DATA_TEST_FILES_H_

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/random.h"
#include "tests/base/test_folder.h"  // IWYU pragma: export

namespace oarlock::data {

inline std::string ReadAll(const std::string& path) {
  std::stringstream content;
  content << std::ifstream(path, std::ios::binary).rdbuf();
  return content.str();
}

// A Criteo line whose first integer is `number`, so that with kLog1p its first
// dense feature tells which line it was.
inline std::string NumberedLine(int number) {
  std::string line = absl::StrCat(number % 2, "\t", number);
  for (int i = 1; i < 13; ++i) absl::StrAppend(&line, "\t", i);
  for (int i = 0; i < 26; ++i) absl::StrAppend(&line, "\tcafe", number, i);
  return line;
}

// A well-formed Criteo line with missing fields, negative, small and large
// integers, and categories of unusual lengths among those of 8 digits.
inline std::string RandomCriteoLine(RandomSequence& random) {
  std::vector<std::string> fields = {absl::StrCat(random.Below(2))};
  for (int i = 0; i < 13; ++i) {
    switch (random.Below(5)) {
      case 0:
        fields.push_back("");
        break;
      case 1:
        fields.push_back(absl::StrCat("-", random.Below(5)));
        break;
      case 2:
        fields.push_back(
            absl::StrCat(random.Below(uint64_t{1} << (random.Below(59)))));
        break;
      default:
        fields.push_back(absl::StrCat(random.Below(20)));
    }
  }
  for (int i = 0; i < 26; ++i) {
    const uint64_t kind = random.Below(8);
    if (kind == 0) {
      fields.push_back("");
    } else if (kind == 1) {
      std::string text(random.Below(20), 'x');
      for (char& c : text) c = static_cast<char>(' ' + random.Below(95));
      fields.push_back(text);
    } else {
      fields.push_back(absl::StrCat(
          absl::Hex(static_cast<uint32_t>(random()), absl::kZeroPad8)));
    }
  }
  return absl::StrJoin(fields, "\t");
}

}  // namespace oarlock::data

#endif  // OARLOCK_TESTS_DATA_TEST_FILES_H_
