// The functions of oarlock.h for works, rounds, barriers, evaluations and
// calls.

#include <memory>
#include <string>

#include "capi/calls.h"
#include "capi/include/oarlock/oarlock.h"
#include "capi/methods.h"
#include "proto/config/client_config.pb.h"

// NOLINTNEXTLINE(google-build-using-namespace): this file is its outside
using namespace oarlock::capi;
namespace v1 = oarlock::v1;

extern "C" {

oarlock_code oarlock_lease_begin(oarlock_client client, const char* config,
                                 size_t config_size,
                                 oarlock_operation* operation,
                                 oarlock_error* error) {
  return BeginInSession(
      client, {.has_effect = true}, operation, error,
      [&](Session& session,
          const std::shared_ptr<Operation>& begun) -> Outcome {
        v1::LeaseConfig message;
        const Outcome outcome = ReadConfig(config, config_size, &message);
        if (!outcome.ok()) return outcome;
        return session.Lease(message, begun);
      });
}

oarlock_code oarlock_rounds_begin(oarlock_client client, int32_t joins,
                                  oarlock_operation* operation,
                                  oarlock_error* error) {
  return Begin(
      client, {.has_effect = true}, operation, error,
      [&](Client& found, const std::shared_ptr<Operation>& begun) -> Outcome {
        return found.SetRounds(joins != 0, begun);
      });
}

oarlock_code oarlock_barrier_begin(oarlock_client client, const char* name,
                                   size_t name_size,
                                   oarlock_operation* operation,
                                   oarlock_error* error) {
  return BeginInSession(
      client, {.has_effect = true}, operation, error,
      [&](Session& session,
          const std::shared_ptr<Operation>& begun) -> Outcome {
        std::string text;
        const Outcome outcome = ToText(name, name_size, "name", &text);
        if (!outcome.ok()) return outcome;
        return session.Barrier(text, begun);
      });
}

oarlock_code oarlock_call_begin(oarlock_client client, uint32_t server,
                                const char* method, size_t method_size,
                                const char* request, size_t request_size,
                                oarlock_operation* operation,
                                oarlock_error* error) {
  return BeginInSession(
      client, {.has_effect = true}, operation, error,
      [&](Session& session,
          const std::shared_ptr<Operation>& begun) -> Outcome {
        std::string name;
        Outcome outcome = ToText(method, method_size, "method", &name);
        if (!outcome.ok()) return outcome;
        std::string text;
        outcome = ToText(request, request_size, "request", &text);
        if (!outcome.ok()) return outcome;
        return CallMethod(&session, server, name, text, begun);
      });
}

oarlock_code oarlock_evaluation_add(oarlock_client client, const char* name,
                                    size_t name_size, uint32_t epoch,
                                    const float* labels,
                                    const float* predictions, size_t count,
                                    oarlock_error* error) {
  return WithClient(client, error, [&](Client& found) -> Outcome {
    std::string text;
    Outcome outcome = ToText(name, name_size, "name", &text);
    if (!outcome.ok()) return outcome;
    if (labels == nullptr && count > 0) return NullArgument("labels");
    if (predictions == nullptr && count > 0) return NullArgument("predictions");
    std::shared_ptr<Session> session;
    outcome = found.FindSession(&session);
    if (!outcome.ok()) return outcome;
    return session->AddPredictions({text, epoch}, {labels, count},
                                   {predictions, count});
  });
}

oarlock_code oarlock_evaluation_sum_begin(oarlock_client client,
                                          const char* name, size_t name_size,
                                          uint32_t epoch,
                                          oarlock_operation* operation,
                                          oarlock_error* error) {
  return Begin(
      client, {.has_effect = true}, operation, error,
      [&](Client& found, const std::shared_ptr<Operation>& begun) -> Outcome {
        std::string text;
        const Outcome outcome = ToText(name, name_size, "name", &text);
        if (!outcome.ok()) return outcome;
        return found.SumEvaluation({text, epoch}, begun);
      });
}

}  // extern "C"
