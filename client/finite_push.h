// What a worker pushes is finite: one NaN in a row, or in a parameter, is in
// every later prediction that reads it.

#ifndef OARLOCK_CLIENT_FINITE_PUSH_H_
#define OARLOCK_CLIENT_FINITE_PUSH_H_

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "client/parameter_client.h"

namespace oarlock::client {

// InvalidArgument, with table, key or place and value, where the push has a
// gradient or statistic that is infinite or NaN for a table without
// allow_nonfinite. Looks at the whole push, so that none of its messages has
// left before.
absl::Status CheckFinite(
    const PushRequest& push,
    absl::FunctionRef<const v1::TableConfig&(TableId)> table_of);

}  // namespace oarlock::client

#endif  // OARLOCK_CLIENT_FINITE_PUSH_H_
