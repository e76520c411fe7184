#include "pserver/aggregator/sync_aggregator.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "absl/types/span.h"
#include "base/check.h"
#include "pserver/aggregator/push_stamp_of.h"

namespace oarlock::pserver {
namespace {

const v1::RequestHeader& HeaderOf(const wire::PushSparseRequestView& push) {
  return push.header;
}
const v1::RequestHeader& HeaderOf(const wire::PushDenseRequestView& push) {
  return push.header;
}
template <typename PushView>
const v1::RequestHeader& HeaderOf(const PushView& push) {
  return std::visit(
      [](const auto& view) -> const v1::RequestHeader& {
        return HeaderOf(view);
      },
      push);
}

std::string NameOf(const v1::TableConfig& config) {
  return absl::StrFormat("table %d '%s'", config.id(), config.name());
}

absl::Status ShutDownError() {
  return absl::UnavailableError(
      "the server is shutting down; the push was not applied; send it again "
      "to the server's successor");
}

}  // namespace

SyncAggregator::SyncAggregator(sparse_table::SparseTable* table,
                               const LogicalClock* clock)
    : sparse_(table),
      clock_(clock),
      reduction_(table->config().reduction()),
      name_(NameOf(table->config())),
      sparse_merger_(table->config().sparse().dim()) {
  for (size_t i = 0; i < rounds_.size(); ++i) rounds_[i].number = 1 + i;
}

SyncAggregator::SyncAggregator(sparse_table::DenseTable* table,
                               const LogicalClock* clock)
    : dense_(table),
      clock_(clock),
      reduction_(table->config().reduction()),
      name_(NameOf(table->config())),
      sparse_merger_(0) {
  for (size_t i = 0; i < rounds_.size(); ++i) rounds_[i].number = 1 + i;
}

void SyncAggregator::PushSparse(wire::PushSparseRequestView push,
                                PushDone done) {
  OARLOCK_CHECK(sparse_ != nullptr);
  Push(std::move(push), std::move(done));
}

void SyncAggregator::PushDense(wire::PushDenseRequestView push, PushDone done) {
  OARLOCK_CHECK(dense_ != nullptr);
  Push(std::move(push), std::move(done));
}

void SyncAggregator::Push(PushView push, PushDone done) {
  Arrival arrival;
  absl::Status refusal;
  Replies replies;
  {
    absl::MutexLock lock(&mutex_);
    arrival = Arrive(&push, &done, &refusal, &replies);
  }
  for (Reply& reply : replies) reply.done(std::move(reply.outcome));
  switch (arrival) {
    case Arrival::kHeld:
      ApplyCompleteRounds();
      break;
    case Arrival::kJoined:
      break;
    case Arrival::kLate:
      done(AnswerLate(push));
      break;
    case Arrival::kRefused:
      done(refusal);
      break;
  }
}

SyncAggregator::Arrival SyncAggregator::Arrive(PushView* push, PushDone* done,
                                               absl::Status* refusal,
                                               Replies* replies) {
  const v1::RequestHeader& header = HeaderOf(*push);
  if (shut_down_) {
    *refusal = ShutDownError();
    return Arrival::kRefused;
  }
  if (HeldMessage* held = FindHeld(header); held != nullptr) {
    if (held->callers.size() == kMaxCallersPerMessage) {
      replies->push_back(
          {std::move(held->callers.front()),
           absl::UnavailableError(absl::StrFormat(
               "%d later calls wait for the same push to %s; wait for theirs",
               kMaxCallersPerMessage, name_))});
      held->callers.erase(held->callers.begin());
    }
    held->callers.push_back(std::move(*done));
    return Arrival::kJoined;
  }
  if (header.round() != 0 && header.round() < open_round()) {
    return Arrival::kLate;
  }
  const uint64_t ahead = header.round() - open_round();
  if (header.round() == 0) {
    *refusal = absl::InvalidArgumentError(absl::StrFormat(
        "a push to %s names round 0; the table is in sync mode: name the "
        "round, counted from 1",
        name_));
  } else if (ahead > kMaxRoundsAhead) {
    *refusal = absl::FailedPreconditionError(absl::StrFormat(
        "worker %d pushes to %s for round %d while round %d is open; legal is "
        "up to %d ahead; wait for the responses of earlier rounds",
        header.worker_index(), name_, header.round(), open_round(),
        kMaxRoundsAhead));
  } else {
    *refusal = CheckContribution(header, rounds_[ahead]);
  }
  if (!refusal->ok()) return Arrival::kRefused;

  Member& member = members_[WorkerIndex(header.worker_index())];
  member.first_round = member.started
                           ? std::min(member.first_round, header.round())
                           : header.round();
  member.started = true;
  const PushStamp stamp = StampOf(header);
  const uint32_t message_index = header.message_index();
  Contribution& contribution =
      rounds_[ahead].contributions[{stamp.worker, stamp.generation}];
  contribution.sequence = stamp.sequence;
  contribution.num_messages = header.table_message_count();
  HeldMessage& message = contribution.messages[message_index];
  message.push = std::move(*push);
  message.callers.push_back(std::move(*done));
  ++num_held_;
  return Arrival::kHeld;
}

absl::Status SyncAggregator::CheckContribution(const v1::RequestHeader& header,
                                               const Round& round) const {
  const PushStamp stamp = StampOf(header);
  const auto member = members_.find(stamp.worker);
  if (member == members_.end() ||
      member->second.generation != stamp.generation) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "worker %d generation %d pushes to %s for round %d but is no member of "
        "its rounds; join with SetRoundMembership first",
        stamp.worker.value(), stamp.generation.value(), name_, header.round()));
  }
  if (header.table_message_count() < 1 ||
      header.table_message_count() > kMaxTableMessages) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "a push to %s has table_message_count %d; legal is 1 to %d", name_,
        header.table_message_count(), kMaxTableMessages));
  }
  const Contributor name(stamp.worker, stamp.generation);
  // One push per round, and rounds in the order of pushes.
  const auto refuse_order = [&](Sequence other, uint64_t other_round) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "worker %d brings sequence %d for round %d of %s, but sequence %d for "
        "round %d; each round takes one push, a later round a later one",
        stamp.worker.value(), stamp.sequence.value(), header.round(), name_,
        other.value(), other_round));
  };
  const auto closed = closed_sequences_.find(stamp.worker);
  if (closed != closed_sequences_.end() &&
      closed->second.first == stamp.generation &&
      closed->second.second >= stamp.sequence) {
    return refuse_order(closed->second.second, open_round() - 1);
  }
  for (const Round& other : rounds_) {
    const auto found = other.contributions.find(name);
    if (found == other.contributions.end()) continue;
    const Contribution& contribution = found->second;
    if ((contribution.sequence <=> stamp.sequence) !=
        (other.number <=> round.number)) {
      return refuse_order(contribution.sequence, other.number);
    }
    if (other.number != round.number) continue;
    if (contribution.num_messages != header.table_message_count() ||
        contribution.complete()) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "worker %d sends message %d of sequence %d to %s with "
          "table_message_count %d; %d of %d messages are here already; each "
          "message has a number of its own and all the same count",
          stamp.worker.value(), header.message_index(), stamp.sequence.value(),
          name_, header.table_message_count(), contribution.messages.size(),
          contribution.num_messages));
    }
  }
  return absl::OkStatus();
}

SyncAggregator::HeldMessage* SyncAggregator::FindHeld(
    const v1::RequestHeader& header) {
  const PushStamp stamp = StampOf(header);
  const auto find_in = [&](Round& round) -> HeldMessage* {
    const auto found =
        round.contributions.find({stamp.worker, stamp.generation});
    if (found == round.contributions.end() ||
        found->second.sequence != stamp.sequence) {
      return nullptr;
    }
    const auto message = found->second.messages.find(header.message_index());
    return message == found->second.messages.end() ? nullptr : &message->second;
  };
  if (closed_ != nullptr && closed_->number == header.round()) {
    return find_in(*closed_);
  }
  for (Round& round : rounds_) {
    if (round.number == header.round()) return find_in(round);
  }
  return nullptr;
}

bool SyncAggregator::Holds(const v1::RequestHeader& header) {
  absl::MutexLock lock(&mutex_);
  return FindHeld(header) != nullptr;
}

absl::StatusOr<PushOutcome> SyncAggregator::AnswerLate(
    const PushView& push) const {
  const v1::RequestHeader& header = HeaderOf(push);
  const PushStamp stamp = StampOf(header);
  PushOutcome outcome;
  bool applied = true;
  if (const auto* sparse = std::get_if<wire::PushSparseRequestView>(&push)) {
    for (const KeyGroup& group : sparse->groups) {
      applied = applied && sparse_->HasApplied(group.partition, stamp);
    }
    outcome.duplicate_groups = sparse->groups.size();
  } else {
    const auto& dense = std::get<wire::PushDenseRequestView>(push);
    for (const BlockIndex block : dense.blocks) {
      applied = applied && dense_->HasApplied(block, stamp);
    }
    outcome.duplicate_groups = dense.blocks.size();
  }
  if (applied) return outcome;
  return absl::FailedPreconditionError(absl::StrFormat(
      "round %d of %s is over and was completed without worker %d generation "
      "%d sequence %d; join and contribute to the open round",
      header.round(), name_, stamp.worker.value(), stamp.generation.value(),
      stamp.sequence.value()));
}

void SyncAggregator::SetRoundMember(WorkerIndex worker, Generation generation,
                                    bool joins) {
  Replies replies;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = members_.find(worker);
    const Generation known =
        found == members_.end() ? Generation(0) : found->second.generation;
    if (generation < known) return;
    if (!joins) {
      if (found != members_.end()) members_.erase(found);
      DropIncomplete(worker, generation, &replies);
    } else if (generation > known) {
      members_[worker] = {.generation = generation,
                          .first_round = open_round()};
      DropIncomplete(worker, Generation(generation.value() - 1), &replies);
    }
  }
  for (Reply& reply : replies) reply.done(std::move(reply.outcome));
  ApplyCompleteRounds();
}

void SyncAggregator::DropIncomplete(WorkerIndex worker, Generation last,
                                    Replies* replies) {
  for (Round& round : rounds_) {
    auto it = round.contributions.lower_bound({worker, Generation(0)});
    while (it != round.contributions.end() && it->first.first == worker &&
           it->first.second <= last) {
      if (it->second.complete()) {
        ++it;
        continue;
      }
      for (auto& [index, message] : it->second.messages) {
        for (PushDone& done : message.callers) {
          replies->push_back(
              {std::move(done),
               absl::AbortedError(absl::StrFormat(
                   "worker %d generation %d left the rounds of %s with %d of "
                   "%d messages for round %d; they are dropped; register anew",
                   worker.value(), it->first.second.value(), name_,
                   it->second.messages.size(), it->second.num_messages,
                   round.number))});
        }
      }
      num_held_ -= it->second.messages.size();
      it = round.contributions.erase(it);
    }
  }
}

bool SyncAggregator::OpenRoundIsComplete() const {
  if (open_round() > last_allowed_round_) return false;
  const auto& contributions = rounds_[0].contributions;
  for (const auto& [worker, member] : members_) {
    if (member.first_round > open_round()) continue;
    const auto found = contributions.find({worker, member.generation});
    if (found == contributions.end() || !found->second.complete()) return false;
  }
  // Without members to wait for, the round is complete when there is something
  // to apply, in this round or in the next.
  return !contributions.empty() || !rounds_[1].contributions.empty();
}

void SyncAggregator::CloseOpenRound() {
  closed_ = std::make_unique<Round>(std::move(rounds_[0]));
  for (const auto& [name, contribution] : closed_->contributions) {
    closed_sequences_[name.first] = {name.second, contribution.sequence};
  }
  std::move(rounds_.begin() + 1, rounds_.end(), rounds_.begin());
  rounds_.back() = Round();
  rounds_.back().number = closed_->number + rounds_.size();
}

void SyncAggregator::ApplyCompleteRounds() {
  while (true) {
    const Round* round = nullptr;
    {
      absl::MutexLock lock(&mutex_);
      if (busy_ || between_ > 0 || shut_down_ || !OpenRoundIsComplete()) return;
      CloseOpenRound();
      busy_ = true;
      round = closed_.get();
    }
    const absl::Status status = Apply(*round);
    std::unique_ptr<Round> applied;
    {
      absl::MutexLock lock(&mutex_);
      ++num_applied_rounds_;
      applied = std::move(closed_);
      for (const auto& [name, contribution] : applied->contributions) {
        num_held_ -= contribution.messages.size();
      }
    }
    for (auto& [name, contribution] : applied->contributions) {
      for (auto& [index, message] : contribution.messages) {
        for (PushDone& done : message.callers) {
          if (status.ok()) {
            done(PushOutcome());
          } else {
            done(status);
          }
        }
      }
    }
    absl::MutexLock lock(&mutex_);
    busy_ = false;
  }
}

void SyncAggregator::BetweenRounds(
    absl::FunctionRef<void(uint64_t complete_rounds)> action) {
  uint64_t complete_rounds = 0;
  {
    absl::MutexLock lock(&mutex_);
    ++between_;
    const auto is_idle = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return !busy_;
    };
    mutex_.Await(absl::Condition(&is_idle));
    busy_ = true;
    complete_rounds = open_round() - 1;
  }
  action(complete_rounds);
  {
    absl::MutexLock lock(&mutex_);
    busy_ = false;
    --between_;
  }
  ApplyCompleteRounds();
}

absl::Status SyncAggregator::Apply(const Round& round) {
  if (round.contributions.empty()) return absl::OkStatus();
  const uint32_t divisor =
      reduction_ == v1::MEAN ? round.contributions.size() : 1;
  std::vector<PushStamp> stamps;
  for (const auto& [name, contribution] : round.contributions) {
    stamps.push_back({.worker = name.first,
                      .generation = name.second,
                      .sequence = contribution.sequence});
  }
  if (sparse_ != nullptr) return ApplySparse(round, divisor, stamps);
  ApplyDense(round, divisor, stamps);
  return absl::OkStatus();
}

absl::Status SyncAggregator::ApplySparse(const Round& round, uint32_t divisor,
                                         const std::vector<PushStamp>& stamps) {
  std::vector<const wire::PushSparseRequestView*> pushes;
  // The latest that the log has, so that a replay takes the same.
  std::optional<uint32_t> logged_time;
  for (const auto& [name, contribution] : round.contributions) {
    for (const auto& [index, message] : contribution.messages) {
      pushes.push_back(&std::get<wire::PushSparseRequestView>(message.push));
      logged_time = std::max(logged_time, pushes.back()->logical_time);
    }
  }
  const uint32_t now = clock_ == nullptr ? 0 : clock_->Now();
  const uint32_t logical_time = logged_time.value_or(now);
  return sparse_merger_.Merge(pushes, divisor,
                              [&](const sparse_table::SparsePush& slice) {
                                sparse_table::SparsePush push = slice;
                                push.stamps = stamps;
                                push.logical_time = logical_time;
                                return sparse_->Push(push).status();
                              });
}

void SyncAggregator::ApplyDense(const Round& round, uint32_t divisor,
                                const std::vector<PushStamp>& stamps) {
  std::vector<const wire::PushDenseRequestView*> pushes;
  for (const auto& [name, contribution] : round.contributions) {
    for (const auto& [index, message] : contribution.messages) {
      pushes.push_back(&std::get<wire::PushDenseRequestView>(message.push));
    }
  }
  dense_merger_.Merge(
      pushes, divisor,
      [&](BlockIndex block) { return dense_->BlockSize(block); },
      [&](BlockIndex block, const float* gradients) {
        dense_->Push(block, gradients, stamps);
      });
}

uint64_t SyncAggregator::HoldRounds() {
  absl::MutexLock lock(&mutex_);
  last_allowed_round_ = open_round() - 1;
  return last_allowed_round_;
}

void SyncAggregator::AllowRounds(uint64_t last) {
  {
    absl::MutexLock lock(&mutex_);
    last_allowed_round_ = last;
  }
  ApplyCompleteRounds();
}

bool SyncAggregator::AwaitRounds(uint64_t last, const Clock& clock,
                                 absl::Time deadline) {
  absl::MutexLock lock(&mutex_);
  const auto applied = [this, last]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return !busy_ && open_round() > last;
  };
  return clock.AwaitUntil(&mutex_, absl::Condition(&applied), deadline);
}

void SyncAggregator::Restore(uint64_t version, uint64_t complete_rounds) {
  absl::MutexLock lock(&mutex_);
  num_applied_rounds_ = version;
  for (size_t i = 0; i < rounds_.size(); ++i) {
    rounds_[i].number = complete_rounds + 1 + i;
  }
}

uint64_t SyncAggregator::CompleteRounds() const {
  absl::MutexLock lock(&mutex_);
  return open_round() - 1;
}

uint64_t SyncAggregator::Version() const {
  absl::MutexLock lock(&mutex_);
  return num_applied_rounds_;
}

uint64_t SyncAggregator::HeldPushes() const {
  absl::MutexLock lock(&mutex_);
  return num_held_;
}

void SyncAggregator::Shutdown() {
  Replies replies;
  {
    absl::MutexLock lock(&mutex_);
    shut_down_ = true;
    for (Round& round : rounds_) {
      for (auto& [name, contribution] : round.contributions) {
        num_held_ -= contribution.messages.size();
        for (auto& [index, message] : contribution.messages) {
          for (PushDone& done : message.callers) {
            replies.push_back({std::move(done), ShutDownError()});
          }
        }
      }
      round.contributions.clear();
    }
  }
  for (Reply& reply : replies) reply.done(std::move(reply.outcome));
  absl::MutexLock lock(&mutex_);
  const auto idle = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return !busy_;
  };
  mutex_.Await(absl::Condition(&idle));
}

}  // namespace oarlock::pserver
