// Calls of the control plane by name, with JSON of their messages.

#ifndef OARLOCK_CAPI_METHODS_H_
#define OARLOCK_CAPI_METHODS_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "capi/session.h"

namespace oarlock::capi {

// "CoordinatorService/GetJobStatus", with JSON of its request. InvalidArgument:
// there is no such method, it is not for callers of the C interface, or the
// request is not legal.
absl::Status CallMethod(Session* session, uint32_t server,
                        const std::string& method, const std::string& request,
                        Session::OperationPtr operation);

}  // namespace oarlock::capi

#endif  // OARLOCK_CAPI_METHODS_H_
