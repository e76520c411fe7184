#include "collective/group_state.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/log.h"

namespace oarlock::collective {
namespace {

int TicksOf(absl::Duration duration, absl::Duration heartbeat_timeout) {
  return static_cast<int>(std::ceil(
      absl::FDivDuration(duration, heartbeat_timeout) * kHeartbeatsPerTimeout));
}

v1::GroupMessage FailureMessage(const absl::Status& status) {
  v1::GroupMessage message;
  message.mutable_failure()->set_code(static_cast<int>(status.code()));
  message.mutable_failure()->set_message(std::string(status.message()));
  return message;
}

absl::Status Differs(absl::string_view what, absl::string_view theirs,
                     absl::string_view ours, uint32_t rank) {
  return absl::InvalidArgumentError(
      absl::StrCat("rank ", rank, " has ", what, " ", theirs, ", rank 0 has ",
                   ours, "; all ranks need the same"));
}

}  // namespace

absl::Status StatusOf(const v1::GroupFailure& failure) {
  const absl::Status status(static_cast<absl::StatusCode>(failure.code()),
                            failure.message());
  return status.ok() ? absl::UnknownError("a failure without a code") : status;
}

GroupState::GroupState(Options options, const Clock& clock)
    : options_(std::move(options)),
      clock_(clock),
      join_ticks_(TicksOf(options_.join_timeout, options_.heartbeat_timeout)),
      members_(options_.expected.size()) {
  OARLOCK_CHECK(options_.endpoints.size() == options_.expected.size());
}

std::string GroupState::NameOf(int rank) const {
  return absl::StrCat("rank ", rank, " (", options_.endpoints[rank], ")");
}

std::string GroupState::NamesOf(const std::vector<uint32_t>& ranks) const {
  return absl::StrJoin(ranks, ", ", [this](std::string* out, uint32_t rank) {
    absl::StrAppend(out, NameOf(static_cast<int>(rank)));
  });
}

absl::Status GroupState::CheckHello(const v1::JoinHello& hello) const {
  const v1::JoinHello& expected = options_.expected;
  if (hello.protocol_version() != expected.protocol_version()) {
    return Differs("the protocol's version",
                   absl::StrCat(hello.protocol_version()),
                   absl::StrCat(expected.protocol_version()), hello.rank());
  }
  if (hello.job_id() != expected.job_id()) {
    return Differs("the job", absl::StrCat("\"", hello.job_id(), "\""),
                   absl::StrCat("\"", expected.job_id(), "\""), hello.rank());
  }
  if (hello.size() != expected.size()) {
    return Differs("a group of", absl::StrCat(hello.size(), " ranks"),
                   absl::StrCat(expected.size()), hello.rank());
  }
  if (hello.rank() >= expected.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("rank ", hello.rank(), " does not exist; the group has ",
                     expected.size(), ", from 0 on"));
  }
  if (hello.generation() > expected.generation()) {
    return absl::UnavailableError(
        absl::StrCat("rank 0 is of generation ", expected.generation(),
                     " of the job, this rank of ", hello.generation(),
                     "; the new rank 0 will come"));
  }
  if (hello.generation() < expected.generation()) {
    return absl::FailedPreconditionError(
        absl::StrCat("rank ", hello.rank(), " is of generation ",
                     hello.generation(), " of the job, rank 0 of ",
                     expected.generation(), "; the older one has to end"));
  }
  if (hello.backend() != expected.backend()) {
    return Differs("the backend", hello.backend(), expected.backend(),
                   hello.rank());
  }
  if (hello.digest() != expected.digest()) {
    return Differs("the digest", absl::StrCat("\"", hello.digest(), "\""),
                   absl::StrCat("\"", expected.digest(), "\""), hello.rank());
  }
  return absl::OkStatus();
}

absl::Status GroupState::Enter(const v1::JoinHello& hello,
                               MemberConnection* connection) {
  absl::MutexLock lock(&mutex_);
  absl::Status status = CheckHello(hello);
  if (absl::IsUnavailable(status)) {
    // Its launcher has started its node's ranks again: nothing comes of this
    // group, whose launchers shall do the same.
    FailLocked(absl::UnavailableError(absl::StrCat(
        NameOf(static_cast<int>(hello.rank())),
        " was started again with all ranks of its node, as generation ",
        hello.generation(), " of the job; this one, ",
        options_.expected.generation(), ", is over")));
  }
  if (status.ok() && !failure_.ok()) {
    // Other ranks try again until there is a new rank 0. This one has to end,
    // or it would wait for itself.
    if (hello.rank() == 0) connection->Send(FailureMessage(failure_));
    status = absl::UnavailableError(
        absl::StrCat("this group is over: ", failure_.message()));
  }
  if (status.ok() &&
      (complete_ || members_[hello.rank()].connection != nullptr)) {
    status = absl::AlreadyExistsError(
        absl::StrCat(NameOf(static_cast<int>(hello.rank())),
                     " has come already; each process needs a rank of its "
                     "own (PADDLE_TRAINER_ID)"));
  }
  if (!status.ok()) {
    // Who comes anew again and again is worth one line.
    if (last_refusal_ != status.message()) {
      Log().warn("rendezvous: refused a process: {}",
                 std::string(status.message()));
    }
    last_refusal_ = std::string(status.message());
    return status;
  }
  Member& member = members_[hello.rank()];
  member.connection = connection;
  member.hello = hello;
  member.missed_heartbeats = 0;
  if (Missing().empty()) {
    Welcome();
  } else {
    SendMissing();
  }
  return absl::OkStatus();
}

void GroupState::SendMissing() {
  v1::GroupMessage message;
  for (uint32_t rank : Missing()) {
    message.mutable_waiting()->add_missing(rank);
  }
  SendToAll(message);
}

void GroupState::Welcome() {
  complete_ = true;
  v1::GroupMessage message;
  message.mutable_welcome()->set_secret(options_.secret);
  for (const Member& member : members_) {
    message.mutable_welcome()->add_addresses(member.hello.address());
  }
  SendToAll(message);
}

void GroupState::OnMessage(int rank, const MemberConnection* connection,
                           const v1::MemberMessage& message) {
  absl::MutexLock lock(&mutex_);
  Member& member = members_[rank];
  if (member.connection != connection) return;
  member.missed_heartbeats = 0;
  if (message.has_heartbeat()) {
    member.operations.assign(message.heartbeat().operations().begin(),
                             message.heartbeat().operations().end());
  } else if (message.has_failure()) {
    FailLocked(FailureOf(rank, message.failure()));
  } else if (message.has_leave()) {
    member.left = true;
    v1::GroupMessage left;
    for (size_t i = 0; i < members_.size(); ++i) {
      if (members_[i].left) left.mutable_left()->add_ranks(i);
    }
    SendToAll(left);
  }
}

absl::Status GroupState::FailureOf(int rank,
                                   const v1::GroupFailure& failure) const {
  std::string text = failure.message();
  if (failure.operation() > 0) {
    std::vector<uint32_t> behind;
    for (size_t i = 0; i < members_.size(); ++i) {
      if (static_cast<int>(i) == rank) continue;
      const std::vector<uint64_t>& operations = members_[i].operations;
      if (operations.size() <= failure.communicator() ||
          operations[failure.communicator()] < failure.operation()) {
        behind.push_back(i);
      }
    }
    if (!behind.empty()) {
      absl::StrAppend(&text, "; as last heard, not begun by ", NamesOf(behind));
    }
  }
  return absl::Status(StatusOf(failure).code(),
                      absl::StrCat(NameOf(rank), ": ", text));
}

void GroupState::Closed(int rank, const MemberConnection* connection) {
  absl::MutexLock lock(&mutex_);
  Member& member = members_[rank];
  if (member.connection != connection) return;
  member.connection = nullptr;
  if (!complete_) {
    if (failure_.ok()) {
      Log().warn("rendezvous: {} has gone before all had come", NameOf(rank));
      SendMissing();
    }
    return;
  }
  if (member.left) return;
  FailLocked(absl::UnavailableError(
      absl::StrCat(NameOf(rank),
                   " died: its process ended or closed its connection without "
                   "leaving the group; its log may say why")));
}

void GroupState::Tick() {
  absl::MutexLock lock(&mutex_);
  ++ticks_;
  if (!complete_) TickBeforeWelcome();
  v1::GroupMessage heartbeat;
  heartbeat.mutable_heartbeat();
  SendToAll(heartbeat);
  std::vector<uint32_t> silent;
  for (size_t i = 0; i < members_.size(); ++i) {
    Member& member = members_[i];
    if (member.connection == nullptr || member.left) continue;
    // One more than fits: a tick may come just before a heartbeat.
    if (++member.missed_heartbeats <= kHeartbeatsPerTimeout) continue;
    silent.push_back(i);
    member.connection->Close();
    member.connection = nullptr;
  }
  if (silent.empty()) return;
  const std::string text =
      absl::StrCat(NamesOf(silent), " sent no heartbeat for ",
                   absl::FormatDuration(options_.heartbeat_timeout),
                   ": stopped, or cut off from rank 0");
  if (complete_) {
    FailLocked(absl::UnavailableError(text));
  } else {
    Log().warn("rendezvous: {}", text);
    SendMissing();
  }
}

void GroupState::TickBeforeWelcome() {
  if (ticks_ < join_ticks_ || !failure_.ok()) return;
  FailLocked(absl::DeadlineExceededError(absl::StrCat(
      NamesOf(Missing()), " did not come to rank 0 within ",
      absl::FormatDuration(options_.join_timeout),
      last_refusal_.empty() ? "" : "; refused meanwhile: ", last_refusal_)));
}

void GroupState::Fail(const absl::Status& status) {
  absl::MutexLock lock(&mutex_);
  FailLocked(status);
}

void GroupState::FailLocked(const absl::Status& status) {
  if (!failure_.ok()) return;
  failure_ = status;
  SendToAll(FailureMessage(status));
}

void GroupState::SendToAll(const v1::GroupMessage& message) {
  for (const Member& member : members_) {
    if (member.connection != nullptr) member.connection->Send(message);
  }
}

std::vector<uint32_t> GroupState::Missing() const {
  std::vector<uint32_t> missing;
  for (size_t i = 0; i < members_.size(); ++i) {
    if (members_[i].connection == nullptr) missing.push_back(i);
  }
  return missing;
}

bool GroupState::IsEmpty() const {
  return std::all_of(members_.begin(), members_.end(),
                     [](const Member& m) { return m.connection == nullptr; });
}

void GroupState::AwaitEmpty(absl::Duration timeout) const {
  absl::MutexLock lock(&mutex_);
  clock_.AwaitFor(&mutex_, absl::Condition(this, &GroupState::IsEmpty),
                  timeout);
}

}  // namespace oarlock::collective
