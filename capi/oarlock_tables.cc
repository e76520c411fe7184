// The functions of oarlock.h for tables, keys, pulls and steps.

#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/types.h"
#include "capi/calls.h"
#include "capi/include/oarlock/oarlock.h"
#include "client/key_batch.h"
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

// Frees the operation where it ends in time.
oarlock_code WaitFor(oarlock_operation* operation, uint32_t timeout_ms,
                     oarlock_error* error) {
  const oarlock_code code = oarlock_wait(*operation, timeout_ms, error);
  if (code == OARLOCK_NOT_DONE) return code;
  HandlesOf<Operation>().Remove(std::exchange(*operation, 0));
  return code;
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
using oarlock::TableId;
namespace v1 = oarlock::v1;

extern "C" {

oarlock_code oarlock_create_table_begin(oarlock_client client,
                                        const char* config, size_t config_size,
                                        oarlock_operation* operation,
                                        oarlock_error* error) {
  return BeginInSession(
      client, {.has_effect = true}, operation, error,
      [&](Session& session,
          const std::shared_ptr<Operation>& begun) -> Outcome {
        v1::TableConfig message;
        const Outcome outcome = ReadConfig(config, config_size, &message);
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
                                const oarlock_sparse_pull* pulls, size_t count,
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

oarlock_code oarlock_pull(oarlock_client client,
                          const oarlock_sparse_pull* pulls, size_t count,
                          uint32_t timeout_ms, oarlock_operation* operation,
                          oarlock_error* error) {
  const oarlock_code begun =
      oarlock_pull_begin(client, pulls, count, operation, error);
  return begun == OARLOCK_OK ? WaitFor(operation, timeout_ms, error) : begun;
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
      [&](Session& session,
          const std::shared_ptr<Operation>& begun) -> Outcome {
        const Outcome pushed = session.Push(found->step.get(), begun);
        if (pushed.ok()) HandlesOf<StepOfClient>().Remove(step);
        return pushed;
      });
}

oarlock_code oarlock_step_push(oarlock_step step, uint32_t timeout_ms,
                               oarlock_operation* operation,
                               oarlock_error* error) {
  const oarlock_code begun = oarlock_step_push_begin(step, operation, error);
  return begun == OARLOCK_OK ? WaitFor(operation, timeout_ms, error) : begun;
}

oarlock_code oarlock_step_free(oarlock_step step, oarlock_error* error) {
  return Call(error, [&]() -> Outcome {
    const auto found = HandlesOf<StepOfClient>().Remove(step);
    return found == nullptr ? ClosedHandle("step", step) : Outcome();
  });
}

}  // extern "C"
