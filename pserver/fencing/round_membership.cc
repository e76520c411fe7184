#include "pserver/fencing/round_membership.h"

#include "base/status_macros.h"

namespace oarlock::pserver {

absl::StatusOr<uint64_t> RoundMembership::SetMember(WorkerIndex worker,
                                                    Generation generation,
                                                    bool joins,
                                                    uint64_t request) {
  absl::MutexLock lock(&mutex_);
  if (IsLate(worker, generation, request)) return registry_->CompleteRounds();
  if (joins) {
    // A refused call is not recorded: it comes again under the same number.
    OARLOCK_RETURN_IF_ERROR(fences_->CheckPush(worker, generation));
    RecordCall(worker, generation, request);
    members_[worker] = generation;
    return registry_->SetRoundMember(worker, generation, /*joins=*/true);
  }
  RecordCall(worker, generation, request);
  auto member = members_.find(worker);
  if (member != members_.end() && member->second == generation) {
    members_.erase(member);
  }
  return registry_->SetRoundMember(worker, generation, /*joins=*/false);
}

bool RoundMembership::IsLate(WorkerIndex worker, Generation generation,
                             uint64_t request) const {
  const auto newest = newest_.find(worker);
  return request != 0 && newest != newest_.end() &&
         generation == newest->second.generation &&
         request <= newest->second.request;
}

void RoundMembership::RecordCall(WorkerIndex worker, Generation generation,
                                 uint64_t request) {
  Call& newest = newest_[worker];
  if (request == 0 || generation < newest.generation) return;
  newest = {generation, request};
}

void RoundMembership::Apply(
    const google::protobuf::RepeatedPtrField<v1::WorkerState>& states) {
  absl::MutexLock lock(&mutex_);
  fences_->Update(states);
  for (const v1::WorkerState& state : states) {
    auto member = members_.find(WorkerIndex(state.worker_index()));
    if (member == members_.end()) continue;
    const uint64_t joined = member->second.value();
    if (joined > state.worker_generation() ||
        (joined == state.worker_generation() &&
         state.life() == v1::WorkerState::ALIVE)) {
      continue;
    }
    registry_->SetRoundMember(member->first, member->second, /*joins=*/false);
    removed_[member->first] = member->second;
    members_.erase(member);
  }
}

bool RoundMembership::WasRemoved(WorkerIndex worker,
                                 Generation generation) const {
  absl::MutexLock lock(&mutex_);
  const auto removed = removed_.find(worker);
  return removed != removed_.end() && removed->second == generation;
}

}  // namespace oarlock::pserver
