// The functions of oarlock.h for clients, operations and the library.

#include "capi/include/oarlock/oarlock.h"

#include <algorithm>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/process/malloc.h"
#include "base/process/version.h"
#include "capi/calls.h"
#include "capi/json.h"
#include "cluster/environment.h"
#include "proto/config/client_config.pb.h"

namespace {

// A message of 8 KiB, escaped.
constexpr size_t kMaxLogLineBytes = 64 << 10;
constexpr uint32_t kMaxWaitMs = 24 * 3600 * 1000;

}  // namespace

// NOLINTNEXTLINE(google-build-using-namespace): this file is its outside
using namespace oarlock::capi;
namespace v1 = oarlock::v1;

extern "C" {

const char* oarlock_version(void) { return oarlock::kOarlockVersion; }

int32_t oarlock_abi_version(void) { return OARLOCK_ABI_VERSION; }

oarlock_code oarlock_client_create(const char* config, size_t config_size,
                                   oarlock_client* client,
                                   oarlock_error* error) {
  return Call(error, [&]() -> Outcome {
    if (client == nullptr) return NullArgument("client");
    *client = 0;
    v1::ClientConfig message;
    const Outcome outcome = ReadConfig(config, config_size, &message);
    if (!outcome.ok()) return outcome;
    UseLibrary();
    auto made = Client::Create(message);
    if (!made.ok()) return made.status();
    *client = HandlesOf<Client>().Add(*std::move(made));
    return {};
  });
}

oarlock_code oarlock_client_free(oarlock_client client, oarlock_error* error) {
  return Call(error, [&]() -> Outcome {
    const std::shared_ptr<Client> found = HandlesOf<Client>().Remove(client);
    if (found == nullptr) return ClosedHandle("client", client);
    found->Close();
    return {};
  });
}

oarlock_code oarlock_client_event_fd(oarlock_client client, int32_t* descriptor,
                                     oarlock_error* error) {
  return WithClient(client, error, [&](Client& found) -> Outcome {
    if (descriptor == nullptr) return NullArgument("descriptor");
    *descriptor = found.event_descriptor();
    return {};
  });
}

oarlock_code oarlock_connect_begin(oarlock_client client,
                                   oarlock_operation* operation,
                                   oarlock_error* error) {
  return Begin(
      client, {}, operation, error,
      [&](Client& found, const std::shared_ptr<Operation>& begun) -> Outcome {
        return found.Connect(nullptr, begun);
      });
}

oarlock_code oarlock_join_begin(oarlock_client client, const char* config,
                                size_t config_size,
                                oarlock_operation* operation,
                                oarlock_error* error) {
  return Begin(
      client, {.has_effect = true}, operation, error,
      [&](Client& found, const std::shared_ptr<Operation>& begun) -> Outcome {
        v1::JoinConfig message;
        const Outcome outcome = ReadConfig(config, config_size, &message);
        if (!outcome.ok()) return outcome;
        return found.Connect(&message, begun);
      });
}

oarlock_code oarlock_leave_begin(oarlock_client client, int32_t how,
                                 const char* reason, size_t reason_size,
                                 oarlock_operation* operation,
                                 oarlock_error* error) {
  return Begin(
      client, {.has_effect = true}, operation, error,
      [&](Client& found, const std::shared_ptr<Operation>& begun) -> Outcome {
        std::string text;
        const Outcome outcome = ToText(reason, reason_size, "reason", &text);
        if (!outcome.ok()) return outcome;
        if (how < OARLOCK_LEAVE_GIVE_UP || how > OARLOCK_LEAVE_ROLL_BACK) {
          return absl::InvalidArgumentError(absl::StrCat(
              "a client is to leave in way ", how, "; legal are 0 to 2"));
        }
        Session::Leaving leaving;
        if (how != OARLOCK_LEAVE_DONE) {
          leaving.outcome = absl::CancelledError(text);
        }
        leaving.roll_back = how == OARLOCK_LEAVE_ROLL_BACK;
        return found.Leave(leaving, begun);
      });
}

oarlock_code oarlock_alive(oarlock_client client, oarlock_error* error) {
  return WithClient(client, error, [&](Client& found) -> Outcome {
    std::shared_ptr<Session> session;
    const Outcome outcome = found.FindSession(&session);
    return outcome.ok() ? Outcome(session->Alive()) : outcome;
  });
}

oarlock_code oarlock_wait(oarlock_operation operation, uint32_t timeout_ms,
                          oarlock_error* error) {
  return WithOperation(operation, error, [&](Operation& found) -> Outcome {
    const uint32_t wait_ms = std::min(timeout_ms, kMaxWaitMs);
    if (!found.Wait(absl::Milliseconds(wait_ms))) {
      return {OARLOCK_NOT_DONE, "the operation has not ended yet"};
    }
    return found.outcome();
  });
}

oarlock_code oarlock_finish(oarlock_operation operation, uint32_t timeout_ms,
                            oarlock_error* error) {
  const oarlock_code code = oarlock_wait(operation, timeout_ms, error);
  if (code == OARLOCK_OK) HandlesOf<Operation>().Remove(operation);
  return code;
}

oarlock_code oarlock_cancel(oarlock_operation operation, int32_t* effect,
                            oarlock_error* error) {
  return WithOperation(operation, error, [&](Operation& found) -> Outcome {
    found.Cancel();
    if (effect != nullptr) *effect = found.options().has_effect ? 1 : 0;
    return {};
  });
}

oarlock_code oarlock_result(oarlock_operation operation, char* buffer,
                            size_t capacity, size_t* size,
                            oarlock_error* error) {
  return WithOperation(operation, error, [&](Operation& found) -> Outcome {
    if (!found.done()) {
      return {OARLOCK_NOT_DONE, "the operation has not ended yet"};
    }
    const Outcome outcome = found.outcome();
    if (!outcome.ok()) return outcome;
    return CopyOut(found.result(), buffer, capacity, size);
  });
}

oarlock_code oarlock_operation_free(oarlock_operation operation,
                                    oarlock_error* error) {
  return Call(error, [&]() -> Outcome {
    const std::shared_ptr<Operation> found =
        HandlesOf<Operation>().Find(operation);
    if (found == nullptr) return ClosedHandle("operation", operation);
    if (found->options().borrows && !found->done()) {
      return {OARLOCK_NOT_DONE,
              "the operation still fills the caller's arrays; cancel it and "
              "wait for its end"};
    }
    HandlesOf<Operation>().Remove(operation);
    return {};
  });
}

oarlock_code oarlock_role(char* buffer, size_t capacity, size_t* size,
                          oarlock_error* error) {
  return Call(error, [&]() -> Outcome {
    const auto role = oarlock::cluster::ResolveRole(
        oarlock::cluster::ReadEnvironment(), oarlock::cluster::ExplicitRole());
    if (!role.ok()) return role.status();
    v1::RoleDescription described;
    described.set_role(
        role->role == oarlock::cluster::Role::kServer       ? "server"
        : role->role == oarlock::cluster::Role::kWorker     ? "worker"
        : role->role == oarlock::cluster::Role::kCollective ? "collective"
                                                            : "local");
    described.set_rank(role->worker_index);
    described.set_world(role->num_workers);
    for (const std::string& endpoint : role->server_endpoints) {
      described.add_server_endpoints(endpoint);
    }
    described.set_job_id(role->job_id);
    described.set_reason(role->reason);
    return CopyOut(ToJson(described), buffer, capacity, size);
  });
}

oarlock_code oarlock_log_read(char* buffer, size_t capacity, size_t* size,
                              int32_t* level, oarlock_error* error) {
  return Call(error, [&]() -> Outcome {
    if (size == nullptr) return NullArgument("size");
    if (level == nullptr) return NullArgument("level");
    if (buffer == nullptr || capacity < kMaxLogLineBytes) {
      *size = kMaxLogLineBytes;
      return {OARLOCK_TOO_SMALL,
              absl::StrCat("the buffer has ", capacity,
                           " bytes; a line may have ", kMaxLogLineBytes)};
    }
    const auto line = TakeLogLine();
    *size = 0;
    if (!line.has_value()) return {};
    *level = line->level;
    return CopyOut(line->text, buffer, capacity, size);
  });
}

oarlock_code oarlock_keep_memory(oarlock_error* error) {
  return Call(error, [&]() -> Outcome {
    oarlock::KeepFreedMemory();
    return {};
  });
}

}  // extern "C"
