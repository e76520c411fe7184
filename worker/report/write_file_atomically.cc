#include "worker/report/write_file_atomically.h"

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/output/output_file.h"
#include "base/status_macros.h"

namespace oarlock::worker {

absl::Status WriteFileAtomically(const std::string& path,
                                 absl::string_view text) {
  const auto write = [&]() -> absl::Status {
    OARLOCK_ASSIGN_OR_RETURN(const std::unique_ptr<OutputFile> file,
                             OutputFile::Create(path));
    OARLOCK_RETURN_IF_ERROR(file->Write(text));
    return file->Finish();
  };
  const absl::Status status = write();
  if (status.ok()) return status;
  return absl::UnavailableError(
      absl::StrCat(status.message(), "; is the folder there?"));
}

}  // namespace oarlock::worker
