// A session's keys and pulls.

#include <algorithm>
#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "base/status_macros.h"
#include "capi/session.h"

namespace oarlock::capi {
namespace {

// What is larger is not kept for another use: its tables have about 64 MiB.
constexpr size_t kMaxKeptKeys = size_t{1} << 20;

}  // namespace

absl::Status Session::Pull(const std::vector<PullTarget>& targets,
                           OperationPtr operation) {
  if (targets.empty()) {
    return absl::InvalidArgumentError("a pull of no tables; name at least one");
  }
  for (const PullTarget& target : targets) {
    OARLOCK_ASSIGN_OR_RETURN(const v1::TableConfig* config,
                             SparseTableOf(target.table));
    const size_t wanted = target.keys->keys().size() * config->sparse().dim();
    if (target.num_values != wanted) {
      return absl::InvalidArgumentError(absl::StrCat(
          "values for ", DescribeTable(*config), " have ", target.num_values,
          " floats; ", target.keys->keys().size(), " distinct keys of ",
          config->sparse().dim(), " floats make ", wanted));
    }
  }
  struct Pending {
    std::atomic<size_t> remaining;
    absl::Mutex mutex;
    absl::Status status;
  };
  auto pending = std::make_shared<Pending>();
  pending->remaining = targets.size();
  // The calls let go of the keys before the operation ends, so that the next
  // batch finds them free. They are flushed and cancelled by the address of
  // `pending`, which is nothing else's while somebody may cancel.
  auto kept = std::make_shared<std::vector<PullTarget>>(targets);
  std::shared_ptr<const void> memory(kept, pending.get());
  kept.reset();
  operation->SetCancel([way = cancel_way_, pending] {
    absl::MutexLock lock(&way->mutex);
    if (way->session == nullptr) return;
    way->session->parameters_->Cancel(pending.get());
  });
  for (const PullTarget& target : targets) {
    parameters_->EnqueuePullSparse(
        target.table, *target.keys, target.values, /*versions=*/nullptr, memory,
        [this, pending, operation](const absl::Status& status) {
          absl::Status outcome;
          {
            absl::MutexLock lock(&pending->mutex);
            pending->status.Update(status);
            outcome = pending->status;
          }
          if (--pending->remaining == 0) End(operation, outcome);
        });
  }
  memory.reset();
  parameters_->Flush(pending.get());
  return absl::OkStatus();
}

absl::Status Session::PullDense(TableId table, float* values, size_t num_values,
                                OperationPtr operation) {
  OARLOCK_ASSIGN_OR_RETURN(const v1::TableConfig* config, DenseTableOf(table));
  if (num_values != config->dense().size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "values for ", DescribeTable(*config), " have ", num_values,
        " floats; the table has ", config->dense().size()));
  }
  auto replica = std::make_shared<client::DenseReplica>();
  parameters_->PullDense(
      table, replica.get(), replica,
      [this, replica, values, operation](const absl::Status& status) {
        if (status.ok())
          std::copy_n(replica->values.data(), replica->values.size(), values);
        End(operation, status);
      });
  return absl::OkStatus();
}

std::shared_ptr<const client::KeyBatch> Session::MakeKeys(
    absl::Span<const Key> keys) {
  std::shared_ptr<client::KeyBatch> batch =
      key_batches_.Take([](const client::KeyBatch& used) {
        return used.row_of_key().size() <= kMaxKeptKeys;
      });
  const std::shared_ptr<client::KeyBatch::Scratch> scratch =
      key_scratch_.Take([](const client::KeyBatch::Scratch& used) {
        return used.capacity() <= kMaxKeptKeys;
      });
  batch->Build(keys, parameters_->partition_bits(), scratch.get());
  return batch;
}

}  // namespace oarlock::capi
