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
#include "coordinator/ranges/train_phase.h"

namespace oarlock::coordinator {
namespace {

template <typename Leased>
bool IsOf(const Leased& leased, const v1::LeaseRangesRequest& request) {
  return leased.worker == request.worker_index() &&
         leased.generation == request.worker_generation();
}

// The parts of the data order `of` that are not in `order`; see
// DefinePhaseRequest.
std::string PartsMissingFrom(absl::string_view order, absl::string_view of) {
  const std::vector<absl::string_view> there = absl::StrSplit(order, ", ");
  std::vector<absl::string_view> missing = absl::StrSplit(of, ", ");
  std::erase_if(missing, [&there](absl::string_view part) {
    return std::find(there.begin(), there.end(), part) != there.end();
  });
  return missing.empty() ? "nothing of it" : absl::StrJoin(missing, ", ");
}

}  // namespace

absl::Status RangeQueue::Define(const v1::DefinePhaseRequest& request) {
  if (request.phase_name().empty() ||
      request.phase_name().size() > kMaxNameBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a phase name has ", request.phase_name().size(),
        " bytes; legal are 1 to ", kMaxNameBytes, "; name it \"kind/epoch\""));
  }
  if (request.ranges_size() > kMaxRangesPerPhase) {
    return absl::ResourceExhaustedError(
        absl::StrCat("phase '", request.phase_name(), "' has ",
                     request.ranges_size(), " ranges; at most ",
                     kMaxRangesPerPhase, " are kept; make the ranges longer"));
  }
  if (request.data_order().size() > kMaxOrderBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("order of phase '", request.phase_name(), "' has ",
                     request.data_order().size(), " bytes; at most ",
                     kMaxOrderBytes, " are kept"));
  }
  const std::string order = Order(request.phase_name());
  if (!order.empty() && !request.data_order().empty() &&
      order != request.data_order()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "phase ", request.phase_name(), " was begun with ",
        PartsMissingFrom(request.data_order(), order), "; with ",
        PartsMissingFrom(order, request.data_order()),
        " other examples stand at its places, and some would be trained twice "
        "and others not; go on as it was begun, and change that between two "
        "epochs"));
  }
  v1::DefinePhaseRequest compared = request;
  compared.clear_data_order();
  const uint64_t fingerprint = std::max(
      kAnyDefinition + 1,
      static_cast<uint64_t>(FeatureHash(compared.SerializeAsString(), 0, 0)));
  if (auto it = phases_.find(request.phase_name()); it != phases_.end()) {
    Phase& known = it->second;
    if (known.completions_alone) {
      SetRanges(request, fingerprint, &known);
      return absl::OkStatus();
    }
    if (known.fingerprint == kAnyDefinition) known.fingerprint = fingerprint;
    if (known.fingerprint == fingerprint) return absl::OkStatus();
    return absl::AlreadyExistsError(absl::StrCat(
        "phase '", request.phase_name(), "' is defined with ",
        it->second.num_ranges, " ranges, and again otherwise with ",
        request.ranges_size(), "; do all workers see the same files?"));
  }
  if (phases_.size() >= kMaxPhases || num_unfinished_ >= kMaxUnfinishedPhases) {
    return absl::ResourceExhaustedError(
        absl::StrCat("phase '", request.phase_name(), "' would be number ",
                     phases_.size() + 1, " and unfinished number ",
                     num_unfinished_ + 1, "; at most ", kMaxPhases, " and ",
                     kMaxUnfinishedPhases, " are kept; finish one first"));
  }
  SetRanges(request, fingerprint, &phases_[request.phase_name()]);
  return absl::OkStatus();
}

void RangeQueue::SetRanges(const v1::DefinePhaseRequest& request,
                           uint64_t fingerprint, Phase* phase) {
  const bool was_done = phase->AllDone();
  phase->fingerprint = fingerprint;
  phase->completions_alone = false;
  if (request.pushes() && !EpochOf(request.phase_name()).has_value()) {
    named_epochs_.emplace(request.phase_name(),
                          kFirstNamedEpoch + named_epochs_.size());
  }
  phase->num_ranges = request.ranges_size();
  phase->unleased = Uncovered(
      request.phase_name(), {request.ranges().begin(), request.ranges().end()});
  std::reverse(phase->unleased.begin(), phase->unleased.end());
  RecordChange(was_done, *phase);
  SetOrder(request.phase_name(), request.data_order());
}

absl::StatusOr<v1::LeaseRangesResponse> RangeQueue::Lease(
    const v1::LeaseRangesRequest& request, bool stopped, bool* reported_all) {
  if (reported_all != nullptr) *reported_all = false;
  if (request.request() == 0) {
    return absl::InvalidArgumentError(
        "lease of ranges with request number 0; count them from 1");
  }
  auto it = phases_.find(request.phase_name());
  if (it == phases_.end() || it->second.completions_alone) {
    return absl::UnavailableError(absl::StrCat(
        "phase '", request.phase_name(), "' is not defined yet; call again"));
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
  v1::LeaseRangesResponse response;
  uint32_t count = std::min(request.max_ranges(), kMaxRangesPerLease);
  for (; count > 0 && !phase.push_completions.empty(); --count) {
    v1::PushCompletion& completion = phase.push_completions.front();
    completion.set_lease(next_lease_++);
    *response.add_push_completions() = completion;
    phase.leased_push_completions.emplace(
        completion.lease(),
        LeasedPushCompletion{completion, request.worker_index(),
                             request.worker_generation()});
    phase.push_completions.pop_front();
  }
  for (; count > 0 && !stopped && !phase.unleased.empty(); --count) {
    const v1::DataRange& range = phase.unleased.back();
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

void RangeQueue::BeginNextRun() {
  std::erase_if(phases_, [](const auto& entry) {
    return entry.second.push_completions.empty();
  });
  for (auto& [name, phase] : phases_) {
    phase.fingerprint = kAnyDefinition;
    phase.completions_alone = true;
    phase.num_ranges = 0;
    phase.unleased.clear();
  }
  num_unfinished_ = phases_.size();
  covered_.clear();
  std::erase_if(orders_, [this](const auto& entry) {
    return !phases_.contains(entry.first);
  });
  callers_.clear();
}

size_t RangeQueue::num_push_completions() const {
  size_t count = 0;
  for (const auto& [name, phase] : phases_) {
    count +=
        phase.push_completions.size() + phase.leased_push_completions.size();
  }
  return count;
}

std::vector<std::string> RangeQueue::NamesWithPushCompletions() const {
  std::vector<std::string> names;
  for (const auto& [name, phase] : phases_) {
    if (!phase.push_completions.empty() ||
        !phase.leased_push_completions.empty()) {
      names.push_back(name);
    }
  }
  return names;
}

std::vector<v1::UnfinishedPhase> RangeQueue::PhasesOfRunBefore() const {
  std::vector<v1::UnfinishedPhase> works;
  for (const auto& [name, phase] : phases_) {
    if (!phase.completions_alone) continue;
    v1::UnfinishedPhase& work = works.emplace_back();
    work.set_phase_name(name);
    work.set_data_order(Order(name));
  }
  return works;
}

bool RangeQueue::HasPushCompletionsOf(WorkerIndex worker,
                                      Generation generation) const {
  const auto is_of = [&](const v1::PushCompletion& completion) {
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

std::vector<v1::DataRange> RangeQueue::Uncovered(
    const std::string& phase_name,
    const std::vector<v1::DataRange>& ranges) const {
  std::vector<v1::DataRange> result;
  const auto covered = covered_.find(phase_name);
  for (const v1::DataRange& range : ranges) {
    if (covered == covered_.end()) {
      result.push_back(range);
      continue;
    }
    const std::vector<v1::DataRange> missing = covered->second.Missing(range);
    result.insert(result.end(), missing.begin(), missing.end());
  }
  return result;
}

std::vector<v1::DataRange> RangeQueue::Covered(
    const std::string& phase_name) const {
  const auto covered = covered_.find(phase_name);
  return covered == covered_.end() ? std::vector<v1::DataRange>()
                                   : covered->second.ranges();
}

std::string RangeQueue::Order(const std::string& phase_name) const {
  const auto order = orders_.find(phase_name);
  return order == orders_.end() ? std::string() : order->second;
}

std::optional<uint32_t> RangeQueue::EpochOf(
    const std::string& phase_name) const {
  if (const auto epoch = EpochOfPhaseName(phase_name)) return epoch;
  const auto named = named_epochs_.find(phase_name);
  if (named == named_epochs_.end()) return std::nullopt;
  return named->second;
}

std::string RangeQueue::PhaseOfEpoch(uint32_t epoch) const {
  for (const auto& [name, number] : named_epochs_) {
    if (number == epoch) return name;
  }
  return TrainPhaseName(epoch);
}

std::vector<std::string> RangeQueue::names() const {
  std::vector<std::string> names;
  for (const auto& [name, phase] : phases_) names.push_back(name);
  return names;
}

void RangeQueue::Save(v1::RangeQueueState* state) const {
  for (const auto& [name, phase] : phases_) {
    v1::PhaseRangesState* saved = state->add_phases();
    saved->set_phase_name(name);
    saved->set_fingerprint(phase.fingerprint);
    saved->set_num_ranges(phase.num_ranges);
    saved->set_completions_alone(phase.completions_alone);
    saved->mutable_unleased()->Add(phase.unleased.begin(),
                                   phase.unleased.end());
    for (const auto& [lease, range] : phase.leased) {
      v1::LeasedRangeState* leased = saved->add_leased();
      leased->set_lease(lease);
      leased->mutable_worker()->set_worker_index(range.worker);
      leased->mutable_worker()->set_worker_generation(range.generation);
      *leased->mutable_range() = range.range;
    }
    saved->mutable_push_completions()->Add(phase.push_completions.begin(),
                                           phase.push_completions.end());
    for (const auto& [lease, completion] : phase.leased_push_completions) {
      v1::LeasedPushCompletionState* leased =
          saved->add_leased_push_completions();
      leased->mutable_worker()->set_worker_index(completion.worker);
      leased->mutable_worker()->set_worker_generation(completion.generation);
      *leased->mutable_push_completion() = completion.completion;
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
  for (const auto& [name, epoch] : named_epochs_) {
    v1::NamedEpochState* saved = state->add_named_epochs();
    saved->set_phase_name(name);
    saved->set_epoch(epoch);
  }
  for (const auto& [phase_name, order] : orders_) {
    v1::DataOrderState* saved = state->add_data_orders();
    saved->set_phase_name(phase_name);
    saved->set_data_order(order);
  }
}

void RangeQueue::Load(const v1::RangeQueueState& state) {
  *this = RangeQueue();
  for (const v1::PhaseRangesState& saved : state.phases()) {
    Phase& phase = phases_[saved.phase_name()];
    phase.fingerprint = saved.fingerprint();
    phase.num_ranges = static_cast<int>(saved.num_ranges());
    phase.completions_alone = saved.completions_alone();
    phase.unleased.assign(saved.unleased().begin(), saved.unleased().end());
    for (const v1::LeasedRangeState& leased : saved.leased()) {
      phase.leased[leased.lease()] = {leased.range(),
                                      leased.worker().worker_index(),
                                      leased.worker().worker_generation()};
    }
    phase.push_completions.assign(saved.push_completions().begin(),
                                  saved.push_completions().end());
    for (const v1::LeasedPushCompletionState& leased :
         saved.leased_push_completions()) {
      phase.leased_push_completions[leased.push_completion().lease()] = {
          leased.push_completion(), leased.worker().worker_index(),
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
  for (const v1::NamedEpochState& saved : state.named_epochs()) {
    named_epochs_[saved.phase_name()] = saved.epoch();
  }
  next_lease_ = state.next_lease();
  for (const v1::DataOrderState& saved : state.data_orders()) {
    SetOrder(saved.phase_name(), saved.data_order());
  }
}

}  // namespace oarlock::coordinator
