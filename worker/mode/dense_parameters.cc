#include "worker/mode/dense_parameters.h"

#include <utility>

#include "base/check.h"

namespace oarlock {

DenseParameters::~DenseParameters() {
  absl::MutexLock lock(&mutex_);
  pull_again_ = false;
  mutex_.Await(absl::Condition(
      +[](bool* pulling) { return !*pulling; }, &pulling_));
}

std::shared_ptr<const DenseReplica> DenseParameters::Current() const {
  absl::MutexLock lock(&mutex_);
  OARLOCK_CHECK(current_ != nullptr);
  return current_;
}

std::shared_ptr<DenseReplica> DenseParameters::Spare() {
  for (const std::shared_ptr<DenseReplica>& replica : replicas_) {
    if (replica.use_count() == 1) return replica;
  }
  replicas_.push_back(std::make_shared<DenseReplica>());
  return replicas_.back();
}

void DenseParameters::StartPull() {
  std::shared_ptr<DenseReplica> replica;
  {
    absl::MutexLock lock(&mutex_);
    if (table_ == TableId(0)) {
      if (current_ == nullptr) current_ = std::make_shared<DenseReplica>();
      return;
    }
    if (pulling_) {
      pull_again_ = true;
      return;
    }
    pulling_ = true;
    replica = Spare();
  }
  PullInto(std::move(replica));
}

void DenseParameters::PullInto(std::shared_ptr<DenseReplica> replica) {
  DenseReplica* const to = replica.get();
  client_->PullDense(table_, to, replica,
                     [this, replica](absl::Status status) {
                       OnPulled(replica, std::move(status));
                     });
}

void DenseParameters::OnPulled(std::shared_ptr<DenseReplica> replica,
                               absl::Status status) {
  std::shared_ptr<DenseReplica> next;
  {
    absl::MutexLock lock(&mutex_);
    status_ = std::move(status);
    if (status_.ok()) current_ = std::move(replica);
    if (status_.ok() && pull_again_) {
      next = Spare();
    } else {
      pulling_ = false;
    }
    pull_again_ = false;
  }
  if (next != nullptr) PullInto(std::move(next));
}

absl::Status DenseParameters::WaitForPull() {
  absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(
      +[](bool* pulling) { return !*pulling; }, &pulling_));
  return status_;
}

absl::Status DenseParameters::Pull() {
  StartPull();
  return WaitForPull();
}

}  // namespace oarlock
