#include "base/process/descriptor_limit.h"

#include <sys/resource.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace oarlock {

absl::Status RaiseDescriptorLimit(uint64_t needed) {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
    return absl::InternalError(
        absl::StrCat("getrlimit(RLIMIT_NOFILE): ", std::strerror(errno)));
  }
  if (limit.rlim_cur < limit.rlim_max) {
    rlimit raised = limit;
    raised.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &raised) == 0) limit = raised;
  }
  if (limit.rlim_cur >= needed) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("this process may have ", limit.rlim_cur,
                   " files and connections open, "
                   "and needs ",
                   needed,
                   "; raise the hard limit (ulimit -Hn, LimitNOFILE "
                   "of systemd, --ulimit nofile of docker)"));
}

}  // namespace oarlock
