#include "coordinator/ranges/range_queue.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "base/mix.h"
#include "cluster/wire_version.h"

namespace oarlock::coordinator {
namespace {

template <typename Leased>
bool IsOf(const Leased& leased, const v1::LeaseWorkRequest& request) {
  return leased.worker == request.worker_index() &&
         leased.generation == request.worker_generation();
}

// What of the order `of` is not in `order`; see DefineWorkRequest.
std::string PartsMissingFrom(absl::string_view order, absl::string_view of) {
  const std::vector<absl::string_view> there = absl::StrSplit(order, ", ");
  std::vector<absl::string_view> missing = absl::StrSplit(of, ", ");
  std::erase_if(missing, [&there](absl::string_view part) {
    return std::find(there.begin(), there.end(), part) != there.end();
  });
  return missing.empty() ? "nothing of it" : absl::StrJoin(missing, ", ");
}

}  // namespace

absl::Status RangeQueue::Define(const v1::DefineWorkRequest& request) {
  if (request.work().empty() || request.work().size() > kMaxNameBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a phase name has ", request.work().size(), " bytes; legal are 1 to ",
        kMaxNameBytes, "; name it \"kind/epoch\""));
  }
  if (request.ranges_size() > kMaxRangesPerPhase) {
    return absl::ResourceExhaustedError(
        absl::StrCat("phase '", request.work(), "' has ", request.ranges_size(),
                     " ranges; at most ", kMaxRangesPerPhase,
                     " are kept; make the ranges longer"));
  }
  if (request.order().size() > kMaxOrderBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "order of phase '", request.work(), "' has ", request.order().size(),
        " bytes; at most ", kMaxOrderBytes, " are kept"));
  }
  const std::string order = Order(request.work());
  if (!order.empty() && !request.order().empty() && order != request.order()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "phase ", request.work(), " was begun with ",
        PartsMissingFrom(request.order(), order), "; with ",
        PartsMissingFrom(order, request.order()),
        " other examples stand at its places, and some would be trained twice "
        "and others not; go on as it was begun, and change that between two "
        "epochs"));
  }
  v1::DefineWorkRequest compared = request;
  compared.clear_order();
  const uint64_t fingerprint = std::max(
      kAnyDefinition + 1,
      static_cast<uint64_t>(FeatureHash(compared.SerializeAsString(), 0, 0)));
  if (auto it = phases_.find(request.work()); it != phases_.end()) {
    Phase& known = it->second;
    if (known.fingerprint == kAnyDefinition) known.fingerprint = fingerprint;
    if (known.fingerprint == fingerprint) return absl::OkStatus();
    return absl::AlreadyExistsError(absl::StrCat(
        "phase '", request.work(), "' is defined with ", it->second.num_ranges,
        " ranges, and again otherwise with ", request.ranges_size(),
        "; do all workers see the same files?"));
  }
  if (phases_.size() >= kMaxPhases || num_unfinished_ >= kMaxUnfinishedPhases) {
    return absl::ResourceExhaustedError(
        absl::StrCat("phase '", request.work(), "' would be number ",
                     phases_.size() + 1, " and unfinished number ",
                     num_unfinished_ + 1, "; at most ", kMaxPhases, " and ",
                     kMaxUnfinishedPhases, " are kept; finish one first"));
  }
  Phase& phase = phases_[request.work()];
  phase.fingerprint = fingerprint;
  phase.num_ranges = request.ranges_size();
  phase.unleased = Uncovered(
      request.work(), {request.ranges().begin(), request.ranges().end()});
  std::reverse(phase.unleased.begin(), phase.unleased.end());
  if (!phase.AllDone()) ++num_unfinished_;
  SetOrder(request.work(), request.order());
  return absl::OkStatus();
}

absl::StatusOr<v1::LeaseWorkResponse> RangeQueue::Lease(
    const v1::LeaseWorkRequest& request, bool stopped, bool* reported_all) {
  if (reported_all != nullptr) *reported_all = false;
  if (request.request() == 0) {
    return absl::InvalidArgumentError(
        "lease of ranges with request number 0; count them from 1");
  }
  auto it = phases_.find(request.work());
  if (it == phases_.end()) {
    return absl::UnavailableError(absl::StrCat(
        "phase '", request.work(), "' is not defined yet; call again"));
  }
  Phase& phase = it->second;
  Caller& caller = callers_[request.worker_index()];
  if (caller.generation != request.worker_generation()) {
    caller = Caller{request.worker_generation(), {}};
  }
  if (request.request() + cluster::kMaxLeaseCallSpan <= caller.highest) {
    return absl::InvalidArgumentError(
        absl::StrCat("lease of ranges with request number ", request.request(),
                     " of worker ", request.worker_index(), " after number ",
                     caller.highest, "; legal are numbers less than ",
                     cluster::kMaxLeaseCallSpan, " below the highest"));
  }
  for (const Call& call : caller.calls) {
    if (call.request == request.request()) return call.response;
  }

  const bool was_done = phase.AllDone();
  for (uint64_t lease : request.done()) {
    if (auto range = phase.leased.find(lease);
        range != phase.leased.end() && IsOf(range->second, request)) {
      phase.leased.erase(range);
    } else if (auto completion = phase.leased_push_completions.find(lease);
               completion != phase.leased_push_completions.end() &&
               IsOf(completion->second, request)) {
      phase.leased_push_completions.erase(completion);
    }
  }
  if (reported_all != nullptr) {
    *reported_all = request.done_size() > 0 &&
                    std::none_of(phase.leased.begin(), phase.leased.end(),
                                 [&](const auto& entry) {
                                   return IsOf(entry.second, request);
                                 });
  }
  v1::LeaseWorkResponse response;
  uint32_t count = std::min(request.max_ranges(), kMaxRangesPerLease);
  for (; count > 0 && !phase.push_completions.empty(); --count) {
    v1::PushRepair& completion = phase.push_completions.front();
    completion.set_lease(next_lease_++);
    *response.add_repairs() = completion;
    phase.leased_push_completions.emplace(
        completion.lease(),
        LeasedPushCompletion{completion, request.worker_index(),
                             request.worker_generation()});
    phase.push_completions.pop_front();
  }
  for (; count > 0 && !stopped && !phase.unleased.empty(); --count) {
    const v1::WorkRange& range = phase.unleased.back();
    *response.add_ranges() = range;
    response.add_leases(next_lease_);
    phase.leased.emplace(next_lease_, LeasedRange{range, request.worker_index(),
                                                  request.worker_generation()});
    ++next_lease_;
    phase.unleased.pop_back();
  }
  if (phase.AllDone()) {
    phase.unleased.shrink_to_fit();
    response.set_exhausted(true);
  }
  if (stopped && phase.NobodyWorks()) response.set_exhausted(true);
  RecordChange(was_done, phase);
  caller.calls.push_back({request.request(), response});
  caller.highest = std::max(caller.highest, request.request());
  std::erase_if(caller.calls, [&caller](const Call& call) {
    return call.request + cluster::kMaxLeaseCallSpan <= caller.highest;
  });
  return response;
}

void RangeQueue::RecordChange(bool was_done, const Phase& phase) {
  if (was_done && !phase.AllDone()) ++num_unfinished_;
  if (!was_done && phase.AllDone()) --num_unfinished_;
}

std::vector<RangeShare> RangeQueue::Claim(WorkerIndex worker,
                                          Generation generation) {
  std::vector<RangeShare> shares;
  const auto is_its = [&](const auto& entry) {
    return entry.second.worker == worker.value() &&
           entry.second.generation == generation.value();
  };
  for (auto& [name, phase] : phases_) {
    const bool was_done = phase.AllDone();
    RangeShare share{name, {}, {}};
    for (const auto& entry : phase.leased) {
      if (is_its(entry)) share.ranges.push_back(entry.second.range);
    }
    for (const auto& entry : phase.leased_push_completions) {
      if (is_its(entry)) {
        share.push_completions.push_back(entry.second.completion);
      }
    }
    std::erase_if(phase.leased, is_its);
    std::erase_if(phase.leased_push_completions, is_its);
    RecordChange(was_done, phase);
    share.ranges = Uncovered(name, share.ranges);
    if (!share.ranges.empty() || !share.push_completions.empty()) {
      shares.push_back(std::move(share));
    }
  }
  auto caller = callers_.find(worker.value());
  if (caller != callers_.end() &&
      caller->second.generation <= generation.value()) {
    callers_.erase(caller);
  }
  return shares;
}

void RangeQueue::Return(const RangeShare& share) {
  Phase& phase = phases_.at(share.phase_name);
  const bool was_done = phase.AllDone();
  phase.unleased.insert(phase.unleased.end(), share.ranges.rbegin(),
                        share.ranges.rend());
  phase.push_completions.insert(phase.push_completions.begin(),
                                share.push_completions.begin(),
                                share.push_completions.end());
  RecordChange(was_done, phase);
}

void RangeQueue::Reclaim(WorkerIndex worker, Generation generation) {
  for (const RangeShare& share : Claim(worker, generation)) Return(share);
}

void RangeQueue::BeginRun(
    absl::FunctionRef<bool(const std::string& phase_name)> keep) {
  std::erase_if(phases_, [&](const auto& entry) { return !keep(entry.first); });
  num_unfinished_ = 0;
  for (auto& [name, phase] : phases_) {
    phase.fingerprint = kAnyDefinition;
    if (!phase.AllDone()) ++num_unfinished_;
  }
}

size_t RangeQueue::num_push_completions() const {
  size_t count = 0;
  for (const auto& [name, phase] : phases_) {
    count +=
        phase.push_completions.size() + phase.leased_push_completions.size();
  }
  return count;
}

bool RangeQueue::HasPushCompletionsOf(WorkerIndex worker,
                                      Generation generation) const {
  const auto is_of = [&](const v1::PushRepair& completion) {
    return completion.worker().worker_index() == worker.value() &&
           completion.worker().worker_generation() == generation.value();
  };
  for (const auto& [name, phase] : phases_) {
    if (std::any_of(phase.push_completions.begin(),
                    phase.push_completions.end(), is_of)) {
      return true;
    }
    for (const auto& [lease, leased] : phase.leased_push_completions) {
      if (is_of(leased.completion)) return true;
    }
  }
  return false;
}

std::vector<v1::WorkRange> RangeQueue::Uncovered(
    const std::string& phase_name,
    const std::vector<v1::WorkRange>& ranges) const {
  std::vector<v1::WorkRange> result;
  const auto covered = covered_.find(phase_name);
  for (const v1::WorkRange& range : ranges) {
    if (covered == covered_.end()) {
      result.push_back(range);
      continue;
    }
    const std::vector<v1::WorkRange> missing = covered->second.Missing(range);
    result.insert(result.end(), missing.begin(), missing.end());
  }
  return result;
}

std::vector<v1::WorkRange> RangeQueue::Covered(
    const std::string& phase_name) const {
  const auto covered = covered_.find(phase_name);
  return covered == covered_.end() ? std::vector<v1::WorkRange>()
                                   : covered->second.ranges();
}

std::string RangeQueue::Order(const std::string& phase_name) const {
  const auto order = orders_.find(phase_name);
  return order == orders_.end() ? std::string() : order->second;
}

std::vector<std::string> RangeQueue::names() const {
  std::vector<std::string> names;
  for (const auto& [name, phase] : phases_) names.push_back(name);
  return names;
}

void RangeQueue::Save(v1::WorkQueueState* state) const {
  for (const auto& [name, phase] : phases_) {
    v1::WorkState* saved = state->add_works();
    saved->set_work(name);
    saved->set_fingerprint(phase.fingerprint);
    saved->set_num_ranges(phase.num_ranges);
    saved->mutable_unleased()->Add(phase.unleased.begin(),
                                   phase.unleased.end());
    for (const auto& [lease, range] : phase.leased) {
      v1::LeasedRangeState* leased = saved->add_leased();
      leased->set_lease(lease);
      leased->mutable_worker()->set_worker_index(range.worker);
      leased->mutable_worker()->set_worker_generation(range.generation);
      *leased->mutable_range() = range.range;
    }
    saved->mutable_repairs()->Add(phase.push_completions.begin(),
                                  phase.push_completions.end());
    for (const auto& [lease, completion] : phase.leased_push_completions) {
      v1::LeasedRepairState* leased = saved->add_leased_repairs();
      leased->mutable_worker()->set_worker_index(completion.worker);
      leased->mutable_worker()->set_worker_generation(completion.generation);
      *leased->mutable_repair() = completion.completion;
    }
  }
  SaveCovered(covered_, state->mutable_covered());
  state->set_num_unfinished(num_unfinished_);
  for (const auto& [worker, caller] : callers_) {
    v1::CallerState* saved = state->add_callers();
    saved->mutable_worker()->set_worker_index(worker);
    saved->mutable_worker()->set_worker_generation(caller.generation);
    for (const Call& call : caller.calls) {
      v1::LeaseCallState* saved_call = saved->add_calls();
      saved_call->set_request(call.request);
      *saved_call->mutable_response() = call.response;
    }
  }
  state->set_next_lease(next_lease_);
  for (const auto& [phase_name, order] : orders_) {
    v1::WorkOrderState* saved = state->add_orders();
    saved->set_work(phase_name);
    saved->set_order(order);
  }
}

void RangeQueue::Load(const v1::WorkQueueState& state) {
  *this = RangeQueue();
  for (const v1::WorkState& saved : state.works()) {
    Phase& phase = phases_[saved.work()];
    phase.fingerprint = saved.fingerprint();
    phase.num_ranges = static_cast<int>(saved.num_ranges());
    phase.unleased.assign(saved.unleased().begin(), saved.unleased().end());
    for (const v1::LeasedRangeState& leased : saved.leased()) {
      phase.leased[leased.lease()] = {leased.range(),
                                      leased.worker().worker_index(),
                                      leased.worker().worker_generation()};
    }
    phase.push_completions.assign(saved.repairs().begin(),
                                  saved.repairs().end());
    for (const v1::LeasedRepairState& leased : saved.leased_repairs()) {
      phase.leased_push_completions[leased.repair().lease()] = {
          leased.repair(), leased.worker().worker_index(),
          leased.worker().worker_generation()};
    }
  }
  LoadCovered(state.covered(), &covered_);
  num_unfinished_ = state.num_unfinished();
  for (const v1::CallerState& saved : state.callers()) {
    Caller& caller = callers_[saved.worker().worker_index()];
    caller.generation = saved.worker().worker_generation();
    for (const v1::LeaseCallState& call : saved.calls()) {
      caller.calls.push_back({call.request(), call.response()});
      caller.highest = std::max(caller.highest, call.request());
    }
  }
  next_lease_ = state.next_lease();
  for (const v1::WorkOrderState& saved : state.orders()) {
    SetOrder(saved.work(), saved.order());
  }
}

}  // namespace oarlock::coordinator
