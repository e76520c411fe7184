#include "coordinator/dead_workers.h"

#include <algorithm>
#include <set>
#include <utility>

namespace oarlock::coordinator {
namespace {

void Name(WorkerIndex worker, uint64_t generation, v1::WorkerIncarnation* to) {
  to->set_worker_index(worker.value());
  to->set_worker_generation(generation);
}

}  // namespace

void DeadWorkers::Add(const Incarnation& incarnation) {
  records_.emplace_back().incarnation = incarnation;
}

void DeadWorkers::SetForgotten(WorkerIndex worker, Generation generation) {
  uint64_t& forgotten = forgotten_[worker.value()];
  forgotten = std::max(forgotten, generation.value());
}

void DeadWorkers::RecordLedgers(const v1::ServerHeartbeatRequest& request) {
  for (const v1::WorkerLedger& ledger : request.ledgers()) {
    const auto record = std::find_if(
        records_.begin(), records_.end(), [&ledger](const Record& record) {
          const Incarnation& incarnation = record.incarnation;
          return incarnation.worker.value() == ledger.worker().worker_index() &&
                 incarnation.generation.value() ==
                     ledger.worker().worker_generation();
        });
    if (record == records_.end() || record->claimed ||
        !record->incarnation.needs_ledgers ||
        request.workers_version() < record->incarnation.fenced_by) {
      continue;
    }
    record->ledgers[request.server_index()] = {request.server_generation(),
                                               ledger};
  }
}

void DeadWorkers::Describe(ServerIndex server, uint64_t server_generation,
                           v1::ServerHeartbeatResponse* response) const {
  for (const Record& record : records_) {
    if (record.claimed || !record.incarnation.needs_ledgers) continue;
    const auto reported = record.ledgers.find(server.value());
    if (reported != record.ledgers.end() &&
        reported->second.server_generation == server_generation) {
      continue;
    }
    Name(record.incarnation.worker, record.incarnation.generation.value(),
         response->add_wanted_ledgers());
  }
  for (const auto& [worker, generation] : forgotten_) {
    Name(WorkerIndex(worker), generation, response->add_forgotten());
  }
}

std::optional<DeadWorkers::Claimed> DeadWorkers::Claim(
    uint64_t known_version, const std::vector<uint64_t>& server_generations) {
  const auto ready = [&](const Record& record) {
    if (record.claimed) return false;
    if (!record.incarnation.needs_ledgers) {
      return record.incarnation.fenced_by <= known_version;
    }
    for (uint32_t i = 0; i < server_generations.size(); ++i) {
      const auto reported = record.ledgers.find(i);
      if (reported == record.ledgers.end() ||
          reported->second.server_generation != server_generations[i]) {
        return false;
      }
    }
    return true;
  };
  const auto record = std::find_if(records_.begin(), records_.end(), ready);
  if (record == records_.end()) return std::nullopt;
  record->claimed = true;
  Claimed claimed;
  claimed.incarnation = record->incarnation;
  for (auto& [server, reported] : record->ledgers) {
    claimed.ledgers.push_back(std::move(reported.ledger));
  }
  record->ledgers.clear();
  return claimed;
}

void DeadWorkers::Forget(
    const std::function<bool(WorkerIndex, Generation)>& has_push_completions) {
  std::vector<Record> kept;
  // Workers of which an incarnation is kept. Their newer ones are kept too.
  std::set<uint32_t> held_up;
  for (Record& record : records_) {
    const Incarnation& incarnation = record.incarnation;
    if (held_up.contains(incarnation.worker.value()) || !record.claimed ||
        has_push_completions(incarnation.worker, incarnation.generation)) {
      held_up.insert(incarnation.worker.value());
      kept.push_back(std::move(record));
      continue;
    }
    SetForgotten(incarnation.worker, incarnation.generation);
  }
  records_ = std::move(kept);
}

std::map<uint32_t, uint64_t> DeadWorkers::Newest() const {
  std::map<uint32_t, uint64_t> newest = forgotten_;
  for (const Record& record : records_) {
    uint64_t& generation = newest[record.incarnation.worker.value()];
    generation = std::max(generation, record.incarnation.generation.value());
  }
  return newest;
}

bool DeadWorkers::AllClaimedOrFinished() const {
  return std::all_of(records_.begin(), records_.end(),
                     [](const Record& record) {
                       return record.claimed || record.incarnation.finished;
                     });
}

const DeadWorkers::Incarnation* DeadWorkers::FirstUnrecovered() const {
  for (const Record& record : records_) {
    if (!record.claimed && record.incarnation.needs_ledgers) {
      return &record.incarnation;
    }
  }
  return nullptr;
}

void DeadWorkers::Save(v1::SavedDeadWorkers* state) const {
  for (const Record& record : records_) {
    v1::DeathState* saved = state->add_deaths();
    Name(record.incarnation.worker, record.incarnation.generation.value(),
         saved->mutable_worker());
    saved->set_fenced_by(record.incarnation.fenced_by);
    saved->set_needs_ledgers(record.incarnation.needs_ledgers);
    saved->set_finished(record.incarnation.finished);
    saved->set_left(record.incarnation.left);
    saved->set_taken(record.claimed);
    for (const auto& [server, reported] : record.ledgers) {
      v1::ReportedLedgerState* ledger = saved->add_ledgers();
      ledger->set_server_index(server);
      ledger->set_server_generation(reported.server_generation);
      *ledger->mutable_ledger() = reported.ledger;
    }
  }
  for (const auto& [worker, generation] : forgotten_) {
    Name(WorkerIndex(worker), generation, state->add_forgotten());
  }
}

void DeadWorkers::Load(const v1::SavedDeadWorkers& state) {
  *this = DeadWorkers();
  for (const v1::DeathState& saved : state.deaths()) {
    Record& record = records_.emplace_back();
    record.incarnation.worker = WorkerIndex(saved.worker().worker_index());
    record.incarnation.generation =
        Generation(saved.worker().worker_generation());
    record.incarnation.fenced_by = saved.fenced_by();
    record.incarnation.needs_ledgers = saved.needs_ledgers();
    record.incarnation.finished = saved.finished();
    record.incarnation.left = saved.left();
    record.claimed = saved.taken();
    for (const v1::ReportedLedgerState& reported : saved.ledgers()) {
      record.ledgers[reported.server_index()] = {reported.server_generation(),
                                                 reported.ledger()};
    }
  }
  for (const v1::WorkerIncarnation& forgotten : state.forgotten()) {
    SetForgotten(WorkerIndex(forgotten.worker_index()),
                 Generation(forgotten.worker_generation()));
  }
}

}  // namespace oarlock::coordinator
