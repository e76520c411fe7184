#include "pserver/checkpoint/cut_gate.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace oarlock::pserver {

void CutGate::Pass(uint64_t cut, uint64_t message_bytes, Apply apply) {
  if (cut > finished()) {
    bool held = false;
    const absl::Status status = Hold(cut, message_bytes, &apply, &held);
    if (held) return;
    if (!status.ok()) return apply(status);
  }
  absl::ReaderMutexLock lock(&apply_mutex_);
  apply(absl::OkStatus());
}

absl::Status CutGate::Hold(uint64_t cut, uint64_t message_bytes, Apply* apply,
                           bool* held) {
  absl::MutexLock lock(&held_mutex_);
  // The cut may have been finished since.
  if (cut <= finished()) return absl::OkStatus();
  if (shut_down_) {
    return absl::UnavailableError(
        "the server is shutting down; the push was not applied; send it again "
        "to the server's successor");
  }
  const uint64_t known =
      std::max(announced(), expected_.load(std::memory_order_relaxed));
  if (cut > known) {
    return absl::UnavailableError(absl::StrCat(
        "a push belongs behind cut ", cut,
        ", and the newest that this server knows is ", known, "; call again"));
  }
  OARLOCK_ASSIGN_OR_RETURN(HoldBudget::Hold hold,
                           budget_->TakeBehindCut(message_bytes));
  held_.push_back({cut, std::move(*apply), std::move(hold)});
  *held = true;
  return absl::OkStatus();
}

void CutGate::Exclude(absl::FunctionRef<void()> action) {
  absl::MutexLock lock(&apply_mutex_);
  action();
}

void CutGate::Freeze(uint64_t cut, absl::FunctionRef<void()> freeze) {
  {
    // The cut is finished before another push is applied, so each push is on
    // one side of it.
    absl::MutexLock lock(&apply_mutex_);
    freeze();
    Raise(cut, &finished_);
  }
  Release();
}

void CutGate::Finish(uint64_t cut) {
  Raise(cut, &finished_);
  Release();
}

void CutGate::Raise(uint64_t cut, std::atomic<uint64_t>* number) {
  uint64_t known = number->load();
  while (known < cut && !number->compare_exchange_weak(known, cut)) {
  }
}

void CutGate::Release() {
  std::vector<Held> free;
  {
    absl::MutexLock lock(&held_mutex_);
    const uint64_t cut = finished();
    const auto first = std::stable_partition(
        held_.begin(), held_.end(),
        [cut](const Held& held) { return held.cut > cut; });
    free.assign(std::move_iterator(first), std::move_iterator(held_.end()));
    held_.erase(first, held_.end());
  }
  for (Held& held : free) {
    absl::ReaderMutexLock lock(&apply_mutex_);
    held.apply(absl::OkStatus());
  }
}

size_t CutGate::HeldPushes() const {
  absl::MutexLock lock(&held_mutex_);
  return held_.size();
}

void CutGate::Shutdown() {
  std::vector<Held> held;
  {
    absl::MutexLock lock(&held_mutex_);
    shut_down_ = true;
    held = std::move(held_);
    held_.clear();
  }
  for (Held& push : held) {
    push.apply(absl::UnavailableError(
        "the server is shutting down; the push was not applied; send it again "
        "to the server's successor"));
  }
}

}  // namespace oarlock::pserver
