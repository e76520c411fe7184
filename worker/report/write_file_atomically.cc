#include "worker/report/write_file_atomically.h"

#include <cstdio>
#include <fstream>

#include "absl/strings/str_cat.h"

namespace oarlock::worker {

absl::Status WriteFileAtomically(const std::string& path,
                                 absl::string_view text) {
  const std::string temporary = path + ".tmp";
  {
    std::ofstream out(temporary);
    out << text;
    out.close();
    if (!out) {
      return absl::UnavailableError(
          absl::StrCat("cannot write ", temporary, "; is the folder there?"));
    }
  }
  if (std::rename(temporary.c_str(), path.c_str()) != 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot rename ", temporary, " to ", path));
  }
  return absl::OkStatus();
}

}  // namespace oarlock::worker
