// The functions of oarlock.h: they find what a handle means, check what the
// caller gave, and call what does it.

#include "capi/include/oarlock/oarlock.h"

#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/process/malloc.h"
#include "base/process/version.h"
#include "base/types.h"
#include "capi/client.h"
#include "capi/handles.h"
#include "capi/json.h"
#include "capi/library.h"
#include "capi/methods.h"
#include "capi/operation.h"
#include "capi/outcome.h"
#include "capi/session.h"
#include "client/key_batch.h"
#include "cluster/environment.h"
#include "proto/config/client_config.pb.h"
#include "proto/v1/table.pb.h"

namespace oarlock::capi {
namespace {

// The ids of tables that are made by their names; those below are the
// engine's.
constexpr uint32_t kFirstNamedTable = 1025;
constexpr size_t kMaxKeys = size_t{1} << 30;
constexpr size_t kMaxDim = size_t{1} << 20;
// Tables in one pull or push.
constexpr size_t kMaxTables = 4096;
// Of a configuration or a request.
constexpr size_t kMaxTextBytes = size_t{64} << 20;
// A message of 8 KiB, escaped.
constexpr size_t kMaxLogLineBytes = 64 << 10;
constexpr uint32_t kMaxWaitMs = 24 * 3600 * 1000;

template <typename Object>
Handles<Object>& HandlesOf() {
  // Not destroyed: other threads may call to the end of the process.
  static auto* const handles = new Handles<Object>;
  return *handles;
}

Outcome ClosedHandle(const char* kind, uint64_t handle) {
  return {OARLOCK_CLOSED,
          absl::StrCat("no open ", kind, " has the handle ", handle)};
}

Outcome Invalid(std::string message) {
  return {OARLOCK_INVALID_ARGUMENT, std::move(message)};
}

Outcome NullArgument(const char* name) {
  return Invalid(
      absl::StrCat(name, " is NULL; give where it is to be written"));
}

// As protobuf has it: no surrogates, nothing beyond U+10FFFF, no longer form
// than needed.
bool IsUtf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const size_t length = byte < 0x80   ? 1
                          : byte < 0xc2 ? 0
                          : byte < 0xe0 ? 2
                          : byte < 0xf0 ? 3
                          : byte < 0xf5 ? 4
                                        : 0;
    if (length == 0 || text.size() - i < length) return false;
    for (size_t j = 1; j < length; ++j) {
      if ((text[i + j] & 0xc0) != 0x80) return false;
    }
    const auto second =
        static_cast<unsigned char>(length > 1 ? text[i + 1] : 0);
    if ((byte == 0xe0 && second < 0xa0) || (byte == 0xed && second >= 0xa0) ||
        (byte == 0xf0 && second < 0x90) || (byte == 0xf4 && second >= 0x90)) {
      return false;
    }
    i += length;
  }
  return true;
}

// Text of the caller.
Outcome ToText(const char* text, size_t size, const char* name,
               std::string* to) {
  if (text == nullptr && size > 0) return NullArgument(name);
  if (size > kMaxTextBytes) {
    return Invalid(absl::StrCat(name, " has ", size, " bytes; legal are up to ",
                                kMaxTextBytes));
  }
  const std::string_view given(text == nullptr ? "" : text, size);
  if (!IsUtf8(given)) {
    return Invalid(
        absl::StrCat(name, " is no UTF-8; give text of that encoding"));
  }
  to->assign(given);
  return {};
}

// To the caller's buffer.
Outcome CopyOut(const std::string& text, char* buffer, size_t capacity,
                size_t* size) {
  if (size == nullptr) return NullArgument("size");
  *size = text.size();
  if (buffer == nullptr || capacity < text.size()) {
    return {OARLOCK_TOO_SMALL,
            absl::StrCat("the buffer has ", capacity, " bytes; ", text.size(),
                         " are needed")};
  }
  std::memcpy(buffer, text.data(), text.size());
  return {};
}

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

// What an oarlock_step is.
struct StepOfClient {
  oarlock_client client = 0;
  std::unique_ptr<Step> step;
};

// Calls run(session, step).
template <typename Run>
oarlock_code WithStep(oarlock_step handle, oarlock_error* error, Run run) {
  std::shared_ptr<StepOfClient> step;
  const oarlock_code code = Call(error, [&]() -> Outcome {
    step = HandlesOf<StepOfClient>().Find(handle);
    return step == nullptr ? ClosedHandle("step", handle) : Outcome();
  });
  if (code != OARLOCK_OK) return code;
  return WithClient(step->client, error, [&](Client& client) -> Outcome {
    std::shared_ptr<Session> session;
    const Outcome found = client.FindSession(&session);
    if (!found.ok()) return found;
    return run(*session, step->step.get());
  });
}

uint32_t TableIdOf(const std::string& name) {
  constexpr uint64_t kIds = (uint64_t{1} << 32) - kFirstNamedTable;
  return static_cast<uint32_t>(kFirstNamedTable +
                               XXH64(name.data(), name.size(), 0) % kIds);
}

Outcome FindKeys(oarlock_keys handle,
                 std::shared_ptr<const client::KeyBatch>* keys) {
  *keys = HandlesOf<const client::KeyBatch>().Find(handle);
  return *keys == nullptr ? ClosedHandle("keys", handle) : Outcome();
}

Outcome CheckTables(const void* array, size_t count, const char* name) {
  if (count > kMaxTables) {
    return Invalid(absl::StrCat(name, " has ", count,
                                " tables; legal are up to ", kMaxTables));
  }
  if (array == nullptr && count > 0) return NullArgument(name);
  return {};
}

}  // namespace
}  // namespace oarlock::capi

// NOLINTNEXTLINE(google-build-using-namespace): this file is its outside
using namespace oarlock::capi;
using oarlock::ServerIndex;
using oarlock::TableId;
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
    std::string text;
    Outcome outcome = ToText(config, config_size, "config", &text);
    if (!outcome.ok()) return outcome;
    v1::ClientConfig message;
    outcome = FromJson(text, "config", &message);
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
        std::string text;
        Outcome outcome = ToText(config, config_size, "config", &text);
        if (!outcome.ok()) return outcome;
        v1::JoinConfig message;
        outcome = FromJson(text, "config", &message);
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

oarlock_code oarlock_create_table_begin(oarlock_client client,
                                        const char* config, size_t config_size,
                                        oarlock_operation* operation,
                                        oarlock_error* error) {
  return BeginInSession(
      client, {.has_effect = true}, operation, error,
      [&](Session& session,
          const std::shared_ptr<Operation>& begun) -> Outcome {
        std::string text;
        Outcome outcome = ToText(config, config_size, "config", &text);
        if (!outcome.ok()) return outcome;
        v1::TableConfig message;
        outcome = FromJson(text, "config", &message);
        if (!outcome.ok()) return outcome;
        if (message.id() == 0) message.set_id(TableIdOf(message.name()));
        return session.CreateTable(std::move(message), begun);
      });
}

oarlock_code oarlock_open_table_begin(oarlock_client client, const char* name,
                                      size_t name_size,
                                      oarlock_operation* operation,
                                      oarlock_error* error) {
  return BeginInSession(
      client, {}, operation, error,
      [&](Session& session,
          const std::shared_ptr<Operation>& begun) -> Outcome {
        std::string text;
        const Outcome outcome = ToText(name, name_size, "name", &text);
        if (!outcome.ok()) return outcome;
        return session.OpenTable(text, begun);
      });
}

oarlock_code oarlock_table_id(const char* name, size_t name_size, uint32_t* id,
                              oarlock_error* error) {
  return Call(error, [&]() -> Outcome {
    if (id == nullptr) return NullArgument("id");
    std::string text;
    const Outcome outcome = ToText(name, name_size, "name", &text);
    if (!outcome.ok()) return outcome;
    *id = TableIdOf(text);
    return {};
  });
}

oarlock_code oarlock_keys_create(oarlock_client client, const uint64_t* keys,
                                 size_t count, oarlock_keys* handle,
                                 size_t* num_distinct, oarlock_error* error) {
  return WithClient(client, error, [&](Client& found) -> Outcome {
    if (handle == nullptr) return NullArgument("handle");
    *handle = 0;
    if (num_distinct == nullptr) return NullArgument("num_distinct");
    if (keys == nullptr && count > 0) return NullArgument("keys");
    if (count >= kMaxKeys) {
      return Invalid(
          absl::StrCat(count, " keys; legal are fewer than ", kMaxKeys));
    }
    std::shared_ptr<Session> session;
    const Outcome outcome = found.FindSession(&session);
    if (!outcome.ok()) return outcome;
    std::shared_ptr<const oarlock::client::KeyBatch> batch =
        session->MakeKeys(absl::MakeConstSpan(
            reinterpret_cast<const oarlock::Key*>(keys), count));
    *num_distinct = batch->keys().size();
    *handle =
        HandlesOf<const oarlock::client::KeyBatch>().Add(std::move(batch));
    return {};
  });
}

oarlock_code oarlock_keys_read(oarlock_keys keys, uint64_t* distinct,
                               size_t num_distinct, int32_t* inverse,
                               size_t count, oarlock_error* error) {
  return Call(error, [&]() -> Outcome {
    std::shared_ptr<const oarlock::client::KeyBatch> found;
    const Outcome outcome = FindKeys(keys, &found);
    if (!outcome.ok()) return outcome;
    const auto& all = found->keys();
    const auto& rows = found->row_of_key();
    if ((distinct != nullptr && num_distinct != all.size()) ||
        (inverse != nullptr && count != rows.size())) {
      return Invalid(absl::StrCat("arrays for ", num_distinct,
                                  " distinct keys of ", count, "; there are ",
                                  all.size(), " of ", rows.size()));
    }
    if (distinct != nullptr && !all.empty()) {
      std::memcpy(distinct, all.data(), all.size() * sizeof all[0]);
    }
    if (inverse != nullptr && !rows.empty()) {
      std::memcpy(inverse, rows.data(), rows.size() * sizeof rows[0]);
    }
    return {};
  });
}

oarlock_code oarlock_keys_sum(oarlock_keys keys, const float* gradients,
                              size_t count, size_t dim, float* sums,
                              size_t num_distinct, oarlock_error* error) {
  return Call(error, [&]() -> Outcome {
    std::shared_ptr<const oarlock::client::KeyBatch> found;
    const Outcome outcome = FindKeys(keys, &found);
    if (!outcome.ok()) return outcome;
    const auto& rows = found->row_of_key();
    if (num_distinct != found->keys().size() || count != rows.size() ||
        dim == 0 || dim > kMaxDim) {
      return Invalid(absl::StrCat(
          "arrays for ", num_distinct, " distinct keys of ", count, " and ",
          dim, " floats; there are ", found->keys().size(), " of ", rows.size(),
          ", and legal are 1 to ", kMaxDim, " floats"));
    }
    if (count == 0) return {};
    if (gradients == nullptr) return NullArgument("gradients");
    if (sums == nullptr) return NullArgument("sums");
    std::fill(sums, sums + num_distinct * dim, 0.0f);
    for (size_t i = 0; i < count; ++i) {
      const float* const from = gradients + i * dim;
      float* const to = sums + rows[i] * dim;
      for (size_t j = 0; j < dim; ++j) to[j] += from[j];
    }
    return {};
  });
}

oarlock_code oarlock_keys_free(oarlock_keys keys, oarlock_error* error) {
  return Call(error, [&]() -> Outcome {
    const auto found =
        HandlesOf<const oarlock::client::KeyBatch>().Remove(keys);
    return found == nullptr ? ClosedHandle("keys", keys) : Outcome();
  });
}

oarlock_code oarlock_hash_texts(const char* bytes, size_t bytes_size,
                                const int64_t* offsets, size_t count,
                                uint64_t seed, uint64_t* keys,
                                oarlock_error* error) {
  return Call(error, [&]() -> Outcome {
    if (count == 0) return {};
    if (offsets == nullptr) return NullArgument("offsets");
    if (keys == nullptr) return NullArgument("keys");
    if (bytes == nullptr && bytes_size > 0) return NullArgument("bytes");
    for (size_t i = 0; i < count; ++i) {
      if (offsets[i] < 0 || offsets[i + 1] < offsets[i] ||
          static_cast<uint64_t>(offsets[i + 1]) > bytes_size) {
        return Invalid(absl::StrCat("text ", i, " is bytes ", offsets[i],
                                    " to ", offsets[i + 1], " of ",
                                    bytes_size));
      }
      keys[i] = XXH64(bytes + offsets[i], offsets[i + 1] - offsets[i], seed);
    }
    return {};
  });
}

oarlock_code oarlock_pull_begin(oarlock_client client,
                                const oarlock_pull* pulls, size_t count,
                                oarlock_operation* operation,
                                oarlock_error* error) {
  return BeginInSession(
      client, {.borrows = true}, operation, error,
      [&](Session& session,
          const std::shared_ptr<Operation>& begun) -> Outcome {
        Outcome outcome = CheckTables(pulls, count, "pulls");
        if (!outcome.ok()) return outcome;
        std::vector<PullTarget> targets(count);
        for (size_t i = 0; i < count; ++i) {
          targets[i].table = TableId(pulls[i].table);
          outcome = FindKeys(pulls[i].keys, &targets[i].keys);
          if (!outcome.ok()) return outcome;
          targets[i].values = pulls[i].values;
          targets[i].num_values = pulls[i].num_values;
          if (pulls[i].values == nullptr && pulls[i].num_values > 0) {
            return NullArgument("values");
          }
        }
        return session.Pull(targets, begun);
      });
}

oarlock_code oarlock_pull_dense_begin(oarlock_client client, uint32_t table,
                                      float* values, size_t num_values,
                                      oarlock_operation* operation,
                                      oarlock_error* error) {
  return BeginInSession(
      client, {.borrows = true}, operation, error,
      [&](Session& session,
          const std::shared_ptr<Operation>& begun) -> Outcome {
        if (values == nullptr) return NullArgument("values");
        return session.PullDense(TableId(table), values, num_values, begun);
      });
}

oarlock_code oarlock_step_create(oarlock_client client, uint64_t lease,
                                 oarlock_step* step, oarlock_error* error) {
  return WithClient(client, error, [&](Client& found) -> Outcome {
    if (step == nullptr) return NullArgument("step");
    *step = 0;
    std::shared_ptr<Session> session;
    const Outcome outcome = found.FindSession(&session);
    if (!outcome.ok()) return outcome;
    auto made = std::make_shared<StepOfClient>();
    made->client = client;
    made->step = std::make_unique<Step>(lease);
    *step = HandlesOf<StepOfClient>().Add(std::move(made));
    return {};
  });
}

oarlock_code oarlock_step_add(oarlock_step step,
                              const oarlock_sparse_push* push,
                              oarlock_error* error) {
  return WithStep(step, error, [&](Session& session, Step* found) -> Outcome {
    if (push == nullptr) return NullArgument("push");
    SparseStep sparse;
    sparse.table = TableId(push->table);
    const Outcome outcome = FindKeys(push->keys, &sparse.keys);
    if (!outcome.ok()) return outcome;
    sparse.gradients = push->gradients;
    sparse.num_gradients = push->num_gradients;
    sparse.shows = push->shows;
    sparse.clicks = push->clicks;
    if (push->gradients == nullptr && push->num_gradients > 0) {
      return NullArgument("gradients");
    }
    return session.AddSparse(sparse, found);
  });
}

oarlock_code oarlock_step_add_dense(oarlock_step step,
                                    const oarlock_dense_push* push,
                                    oarlock_error* error) {
  return WithStep(step, error, [&](Session& session, Step* found) -> Outcome {
    if (push == nullptr) return NullArgument("push");
    if (push->gradients == nullptr) return NullArgument("gradients");
    DenseStep dense;
    dense.table = TableId(push->table);
    dense.gradients = push->gradients;
    dense.num_gradients = push->num_gradients;
    return session.AddDense(dense, found);
  });
}

oarlock_code oarlock_step_push_begin(oarlock_step step,
                                     oarlock_operation* operation,
                                     oarlock_error* error) {
  std::shared_ptr<StepOfClient> found;
  const oarlock_code code = Call(error, [&]() -> Outcome {
    found = HandlesOf<StepOfClient>().Find(step);
    return found == nullptr ? ClosedHandle("step", step) : Outcome();
  });
  if (code != OARLOCK_OK) return code;
  return BeginInSession(
      found->client, {.has_effect = true}, operation, error,
      [&](Session& session, const std::shared_ptr<Operation>& begun)
          -> Outcome { return session.Push(found->step.get(), begun); });
}

oarlock_code oarlock_step_free(oarlock_step step, oarlock_error* error) {
  return Call(error, [&]() -> Outcome {
    const auto found = HandlesOf<StepOfClient>().Remove(step);
    return found == nullptr ? ClosedHandle("step", step) : Outcome();
  });
}

oarlock_code oarlock_lease_begin(oarlock_client client, const char* config,
                                 size_t config_size,
                                 oarlock_operation* operation,
                                 oarlock_error* error) {
  return BeginInSession(
      client, {.has_effect = true}, operation, error,
      [&](Session& session,
          const std::shared_ptr<Operation>& begun) -> Outcome {
        std::string text;
        Outcome outcome = ToText(config, config_size, "config", &text);
        if (!outcome.ok()) return outcome;
        v1::LeaseConfig message;
        outcome = FromJson(text, "config", &message);
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
