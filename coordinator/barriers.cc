#include "coordinator/barriers.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace oarlock::coordinator {

absl::Status Barriers::Arrive(const std::string& name, WorkerIndex worker,
                              bool for_good) {
  if (name.empty() || name.size() > kMaxNameBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("name of a barrier has ", name.size(),
                     " bytes; legal are 1 to ", kMaxNameBytes));
  }
  if (passed_.contains(name)) return absl::OkStatus();
  if (!open_.contains(name) && (open_.size() >= kMaxOpenNames ||
                                open_.size() + passed_.size() >= kMaxNames)) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "barrier '", name, "' comes after ", open_.size(), " open and ",
        passed_.size(), " passed ones; at most ", kMaxOpenNames, " and ",
        kMaxNames, " are kept; pass some first"));
  }
  open_[name][worker.value()] |= for_good;
  return absl::OkStatus();
}

void Barriers::Wait(const std::string& name, WorkerIndex worker,
                    absl::Time deadline, Done done,
                    std::vector<Reply>* replies) {
  if (passed_.contains(name)) {
    replies->push_back({std::move(done), absl::OkStatus()});
    return;
  }
  AnswerIf(
      [&](const Waiter& waiter) {
        return waiter.worker == worker.value() && waiter.name == name;
      },
      absl::UnavailableError(absl::StrCat(
          "barrier '", name, "': a later call of the same worker waits")),
      replies);
  waiters_.push_back({name, worker.value(), deadline, std::move(done)});
  waits_at_[worker.value()] = name;
}

std::string Barriers::Deadlock(const std::vector<bool>& waited_for) const {
  std::set<std::string> names;
  std::vector<std::string> places;
  for (uint32_t worker = 0; worker < waited_for.size(); ++worker) {
    if (!waited_for[worker]) continue;
    const auto at = waits_at_.find(worker);
    if (at == waits_at_.end() || !open_.contains(at->second)) return "";
    names.insert(at->second);
    places.push_back(absl::StrCat("worker ", worker, " at '", at->second, "'"));
  }
  if (names.size() < 2) return "";
  constexpr size_t kMaxNamed = 8;
  if (places.size() > kMaxNamed) places.resize(kMaxNamed);
  return absl::StrJoin(places, ", ");
}

void Barriers::Withdraw(WorkerIndex worker, const absl::Status& status,
                        std::vector<Reply>* replies) {
  for (auto it = open_.begin(); it != open_.end();) {
    const auto arrival = it->second.find(worker.value());
    if (arrival != it->second.end() && !arrival->second) {
      it->second.erase(arrival);
    }
    it = it->second.empty() ? open_.erase(it) : std::next(it);
  }
  waits_at_.erase(worker.value());
  AnswerIf(
      [&](const Waiter& waiter) { return waiter.worker == worker.value(); },
      status, replies);
}

void Barriers::Release(
    const std::vector<bool>& waited_for,
    absl::FunctionRef<bool(const std::string& name)> may_pass,
    std::vector<Reply>* replies) {
  for (auto it = open_.begin(); it != open_.end();) {
    bool any = false;
    bool all = true;
    for (uint32_t worker = 0; worker < waited_for.size() && all; ++worker) {
      if (!waited_for[worker]) continue;
      any = true;
      all = it->second.contains(worker);
    }
    if (!any || !all || !may_pass(it->first)) {
      ++it;
      continue;
    }
    AnswerIf([&](const Waiter& waiter) { return waiter.name == it->first; },
             absl::OkStatus(), replies);
    passed_.insert(it->first);
    it = open_.erase(it);
  }
}

void Barriers::Expire(absl::Time now, std::vector<Reply>* replies) {
  AnswerIf([&](const Waiter& waiter) { return waiter.deadline <= now; },
           absl::UnavailableError(
               "not yet: other workers have not come to the barrier; call "
               "again"),
           replies);
}

void Barriers::AnswerAll(const absl::Status& status,
                         std::vector<Reply>* replies) {
  AnswerIf([](const Waiter&) { return true; }, status, replies);
}

void Barriers::Save(v1::BarriersState* state) const {
  state->mutable_passed()->Add(passed_.begin(), passed_.end());
  for (const auto& [name, workers] : open_) {
    v1::OpenBarrierState* open = state->add_open();
    open->set_name(name);
    for (const auto& [worker, for_good] : workers) {
      open->add_workers(worker);
      if (for_good) open->add_for_good(worker);
      const auto at = waits_at_.find(worker);
      if (at != waits_at_.end() && at->second == name) {
        open->add_waiting(worker);
      }
    }
  }
}

void Barriers::Load(const v1::BarriersState& state) {
  passed_ = {state.passed().begin(), state.passed().end()};
  open_.clear();
  waits_at_.clear();
  for (const v1::OpenBarrierState& open : state.open()) {
    std::map<uint32_t, bool>& workers = open_[open.name()];
    for (const uint32_t worker : open.workers()) workers[worker] = false;
    for (const uint32_t worker : open.waiting()) {
      waits_at_[worker] = open.name();
    }
    for (const uint32_t worker : open.for_good()) workers[worker] = true;
  }
}

template <typename Predicate>
void Barriers::AnswerIf(Predicate pick, const absl::Status& status,
                        std::vector<Reply>* replies) {
  for (auto it = waiters_.begin(); it != waiters_.end();) {
    if (!pick(*it)) {
      ++it;
      continue;
    }
    replies->push_back({std::move(it->done), status});
    it = waiters_.erase(it);
  }
}

}  // namespace oarlock::coordinator
