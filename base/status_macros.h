// Early return on a failed status.

#ifndef OARLOCK_BASE_STATUS_MACROS_H_
#define OARLOCK_BASE_STATUS_MACROS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace oarlock {

// The same code, with `context` and ": " before the message.
inline absl::Status Annotate(const absl::Status& status,
                             absl::string_view context) {
  if (status.ok()) return status;
  return absl::Status(status.code(),
                      absl::StrCat(context, ": ", status.message()));
}

}  // namespace oarlock

#define OARLOCK_RETURN_IF_ERROR(expression)                                 \
  do {                                                                      \
    if (absl::Status oarlock_status = (expression); !oarlock_status.ok()) { \
      return oarlock_status;                                                \
    }                                                                       \
  } while (false)

#define OARLOCK_CONCAT_INNER_(a, b) a##b
#define OARLOCK_CONCAT_(a, b) OARLOCK_CONCAT_INNER_(a, b)
#define OARLOCK_ASSIGN_OR_RETURN(declaration, expression)           \
  OARLOCK_ASSIGN_OR_RETURN_(OARLOCK_CONCAT_(oarlock_or_, __LINE__), \
                            declaration, expression)
// NOLINTBEGIN(bugprone-macro-parentheses): a declaration takes none
#define OARLOCK_ASSIGN_OR_RETURN_(result, declaration, expression) \
  auto result = (expression);                                      \
  if (!result.ok()) return std::move(result).status();             \
  declaration = std::move(result).value()
// NOLINTEND(bugprone-macro-parentheses)

#endif  // OARLOCK_BASE_STATUS_MACROS_H_
