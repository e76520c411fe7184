#include "worker/dense/dense_parameters.h"

#include <utility>

#include "base/call_and_wait.h"
#include "base/check.h"
#include "base/status_macros.h"

namespace oarlock::worker {

std::shared_ptr<const client::DenseReplica> DenseParameters::Current() const {
  absl::MutexLock lock(&mutex_);
  OARLOCK_CHECK(current_ != nullptr);
  return current_;
}

absl::Status DenseParameters::Pull() {
  const std::shared_ptr<client::DenseReplica> replica = Spare();
  if (table_ != TableId(0)) {
    OARLOCK_RETURN_IF_ERROR(
        CallAndWait([&](client::ParameterClient::Done done) {
          client_->PullDense(table_, replica.get(), replica, std::move(done));
        }));
  }
  Install(replica);
  return absl::OkStatus();
}

std::shared_ptr<client::DenseReplica> DenseParameters::Spare() {
  absl::MutexLock lock(&mutex_);
  for (const std::shared_ptr<client::DenseReplica>& replica : replicas_) {
    if (replica.use_count() == 1) return replica;
  }
  replicas_.push_back(std::make_shared<client::DenseReplica>());
  return replicas_.back();
}

void DenseParameters::Install(std::shared_ptr<client::DenseReplica> replica) {
  absl::MutexLock lock(&mutex_);
  current_ = std::move(replica);
}

}  // namespace oarlock::worker
