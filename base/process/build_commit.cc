#include "base/process/build_commit.h"

#include <string_view>

// `bazel build --define=oarlock_commit=...`; .bazelrc has the empty default.
#ifndef OARLOCK_COMMIT
#error "base/BUILD says which commit this is"
#endif

namespace oarlock {
namespace {

constexpr bool IsCommit(std::string_view text) {
  for (const char c : text) {
    if (!(c >= '0' && c <= '9') && !(c >= 'a' && c <= 'f')) return false;
  }
  return text.empty() || text.size() == 40;
}
static_assert(IsCommit(OARLOCK_COMMIT),
              "oarlock_commit is 40 hexadecimal digits, or empty");

}  // namespace

const char* BuildCommit() { return OARLOCK_COMMIT; }

}  // namespace oarlock
