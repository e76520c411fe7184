// What functions of oarlock.h share: they find what a handle means, check what
// the caller gave, and turn exceptions into codes.

#ifndef OARLOCK_CAPI_CALLS_H_
#define OARLOCK_CAPI_CALLS_H_

#include <google/protobuf/message.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "capi/client.h"
#include "capi/handles.h"
#include "capi/include/oarlock/oarlock.h"
#include "capi/library.h"
#include "capi/operation.h"
#include "capi/outcome.h"
#include "capi/session.h"

namespace oarlock::capi {

template <typename Object>
Handles<Object>& HandlesOf() {
  // Not destroyed: other threads may call to the end of the process.
  static auto* const handles = new Handles<Object>;
  return *handles;
}

Outcome ClosedHandle(const char* kind, uint64_t handle);

Outcome Invalid(std::string message);

// An argument that is NULL.
Outcome NullArgument(const char* name);

// Text of the caller: UTF-8 of at most 64 MiB.
Outcome ToText(const char* text, size_t size, const char* name,
               std::string* to);

// A configuration of the caller: JSON of `to`'s message.
Outcome ReadConfig(const char* config, size_t config_size,
                   google::protobuf::Message* to);

// To the caller's buffer.
Outcome CopyOut(const std::string& text, char* buffer, size_t capacity,
                size_t* size);

template <typename Run>
oarlock_code Call(oarlock_error* error, Run run) {
  return Guarded(error, std::move(run), [](const char*) {});
}

// Calls run(client).
template <typename Run>
oarlock_code WithClient(oarlock_client handle, oarlock_error* error, Run run) {
  std::shared_ptr<Client> client;
  return Guarded(
      error,
      [&]() -> Outcome {
        client = HandlesOf<Client>().Find(handle);
        if (client == nullptr) return ClosedHandle("client", handle);
        return run(*client);
      },
      [&](const char* what) {
        if (client != nullptr) client->Break(what);
      });
}

// Calls run(client, operation), and hands the operation out if that is OK.
template <typename Run>
oarlock_code Begin(oarlock_client handle, const Operation::Options& options,
                   oarlock_operation* to, oarlock_error* error, Run run) {
  return WithClient(handle, error, [&](Client& client) -> Outcome {
    if (to == nullptr) return NullArgument("operation");
    *to = 0;
    const std::shared_ptr<Operation> operation = client.NewOperation(options);
    const Outcome outcome = run(client, operation);
    if (!outcome.ok()) return outcome;
    *to = HandlesOf<Operation>().Add(operation);
    return {};
  });
}

// The same of a client that is connected: run(session, operation).
template <typename Run>
oarlock_code BeginInSession(oarlock_client handle,
                            const Operation::Options& options,
                            oarlock_operation* to, oarlock_error* error,
                            Run run) {
  return Begin(handle, options, to, error,
               [&](Client& client,
                   const std::shared_ptr<Operation>& operation) -> Outcome {
                 std::shared_ptr<Session> session;
                 const Outcome found = client.FindSession(&session);
                 if (!found.ok()) return found;
                 return run(*session, operation);
               });
}

template <typename Run>
oarlock_code WithOperation(oarlock_operation handle, oarlock_error* error,
                           Run run) {
  return Call(error, [&]() -> Outcome {
    const std::shared_ptr<Operation> operation =
        HandlesOf<Operation>().Find(handle);
    if (operation == nullptr) return ClosedHandle("operation", handle);
    return run(*operation);
  });
}

}  // namespace oarlock::capi

#endif  // OARLOCK_CAPI_CALLS_H_
