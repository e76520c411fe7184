#include "pserver/round_roster.h"

#include "base/status_macros.h"

namespace oarlock {

absl::StatusOr<uint64_t> RoundRoster::SetMember(WorkerIndex worker,
                                                Generation generation,
                                                bool joins) {
  absl::MutexLock lock(&mutex_);
  if (joins) {
    OARLOCK_RETURN_IF_ERROR(membership_->CheckPush(worker, generation));
    members_[worker] = generation;
    return registry_->SetRoundMember(worker, generation, /*joins=*/true);
  }
  auto member = members_.find(worker);
  if (member != members_.end() && member->second == generation) {
    members_.erase(member);
  }
  return registry_->SetRoundMember(worker, generation, /*joins=*/false);
}

void RoundRoster::Apply(
    const google::protobuf::RepeatedPtrField<v1::WorkerState>& states) {
  absl::MutexLock lock(&mutex_);
  membership_->Update(states);
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
    members_.erase(member);
  }
}

}  // namespace oarlock
