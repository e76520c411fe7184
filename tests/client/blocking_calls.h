// A parameter client's calls, made and waited for.

#ifndef OARLOCK_TESTS_CLIENT_BLOCKING_CALLS_H_
#define OARLOCK_TESTS_CLIENT_BLOCKING_CALLS_H_

#include <memory>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "client/parameter_client.h"

namespace oarlock::client {

// Distinct keys and a float vector for each: gradients or rows. Shared with
// the client while a call is under way.
struct RowBatch {
  KeyBatch keys;
  std::vector<float> values;  // [keys, dim]
};

// The rows of `keys`; `versions` may be null.
inline absl::Status PullRows(ParameterClient& client, TableId table,
                             const std::vector<Key>& keys, size_t dim,
                             RowBatch* rows,
                             TableVersions* versions = nullptr) {
  auto memory = std::make_shared<RowBatch>();
  memory->keys.Build(keys, client.partition_bits());
  memory->values.resize(memory->keys.keys().size() * dim);
  absl::Notification done;
  absl::Status status;
  client.PullSparse(table, memory->keys, memory->values.data(), versions,
                    memory, [&](absl::Status result) {
                      status = std::move(result);
                      done.Notify();
                    });
  done.WaitForNotification();
  *rows = *memory;
  return status;
}

inline absl::Status PullAll(ParameterClient& client, TableId table,
                            DenseReplica* replica) {
  auto memory = std::make_shared<DenseReplica>(std::move(*replica));
  absl::Notification done;
  absl::Status status;
  client.PullDense(table, memory.get(), memory, [&](absl::Status result) {
    status = std::move(result);
    done.Notify();
  });
  done.WaitForNotification();
  *replica = *memory;
  return status;
}

inline absl::Status PushAndWait(ParameterClient& client,
                                const PushRequest& push,
                                std::shared_ptr<const void> memory,
                                TableVersions* versions = nullptr) {
  absl::Notification done;
  absl::Status status;
  client.Push(push, versions, std::move(memory), [&](absl::Status result) {
    status = std::move(result);
    done.Notify();
  });
  done.WaitForNotification();
  return status;
}

// Pushes the gradients of one sparse table.
inline absl::Status PushRows(ParameterClient& client, TableId table,
                             const RowBatch& gradients,
                             TableVersions* versions = nullptr) {
  auto memory = std::make_shared<RowBatch>(gradients);
  PushRequest push;
  push.sparse.push_back({table, &memory->keys, memory->values.data()});
  return PushAndWait(client, push, memory, versions);
}

}  // namespace oarlock::client

#endif  // OARLOCK_TESTS_CLIENT_BLOCKING_CALLS_H_
