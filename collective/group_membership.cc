#include "collective/group_membership.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "cluster/retry.h"
#include "cluster/security.h"
#include "collective/group_state.h"

namespace oarlock::collective {
namespace {

// Between two attempts to join.
constexpr absl::Duration kRejoinBackoff = absl::Milliseconds(200);
// Between two lines about who is waited for.
constexpr absl::Duration kProgressInterval = absl::Seconds(10);

}  // namespace

GroupMembership::GroupMembership(Options options,
                                 std::shared_ptr<grpc::Channel> channel,
                                 int wake_fd, const Clock& clock)
    : options_(std::move(options)),
      clock_(clock),
      tick_(options_.heartbeat_timeout / kHeartbeatsPerTimeout),
      stub_(v1::RendezvousService::NewStub(std::move(channel))),
      wake_fd_(wake_fd),
      rank_(static_cast<int>(options_.hello.rank())) {}

absl::StatusOr<std::unique_ptr<GroupMembership>> GroupMembership::Join(
    Options options, std::shared_ptr<grpc::Channel> channel,
    const Clock& clock) {
  const int wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake_fd < 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat("eventfd: ", std::strerror(errno)));
  }
  auto self = absl::WrapUnique(new GroupMembership(
      std::move(options), std::move(channel), wake_fd, clock));
  GroupMembership* const raw = self.get();
  {
    absl::MutexLock lock(&self->mutex_);
    // Rank 0, whose message says more, has the first word.
    self->join_deadline_ =
        clock.Now() + self->options_.join_timeout + 2 * self->tick_;
  }
  self->reader_ = std::thread([raw] { raw->Run(); });
  self->heartbeat_ = std::thread([raw] { raw->HeartbeatLoop(); });
  absl::Status failure;
  {
    absl::MutexLock lock(&self->mutex_);
    self->mutex_.Await(
        absl::Condition(raw, &GroupMembership::HasJoinedOrFailed));
    failure = self->failure_;
  }
  if (!failure.ok()) return failure;
  return self;
}

GroupMembership::~GroupMembership() {
  bool fails;
  {
    absl::MutexLock lock(&mutex_);
    fails = joined_ && !leaving_ && failure_.ok();
  }
  if (fails) {
    Fail(absl::UnavailableError("ended its communicator without leaving the "
                                "group: it gave up, its log may say why"))
        .IgnoreError();
  }
  {
    absl::MutexLock lock(&mutex_);
    closing_ = true;
    Cancel();
  }
  reader_.join();
  heartbeat_.join();
  close(wake_fd_);
}

std::string GroupMembership::NameOf(int rank) const {
  return absl::StrCat("rank ", rank, " (", options_.endpoints[rank], ")");
}

absl::Status GroupMembership::status() const {
  absl::MutexLock lock(&mutex_);
  return failure_;
}

void GroupMembership::SetFailure(const absl::Status& status) {
  if (!failure_.ok()) return;
  failure_ = status;
  const uint64_t one = 1;
  OARLOCK_CHECK(write(wake_fd_, &one, sizeof(one)) == sizeof(one));
}

void GroupMembership::Cancel() {
  if (context_ != nullptr) context_->TryCancel();
}

void GroupMembership::Write(const v1::MemberMessage& message) {
  absl::MutexLock lock(&write_mutex_);
  if (writable_ != nullptr) writable_->Write(message);
}

void GroupMembership::Run() {
  while (true) {
    const absl::Status end = RunStream();
    absl::MutexLock lock(&mutex_);
    OnStreamEnd(end);
    if (closing_ || joined_ || !failure_.ok()) return;
    const auto closing = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return closing_ || !failure_.ok();
    };
    clock_.AwaitFor(&mutex_, absl::Condition(&closing), kRejoinBackoff);
    if (closing()) return;
  }
}

absl::Status GroupMembership::RunStream() {
  grpc::ClientContext context;
  context.set_wait_for_ready(true);
  if (!options_.token.empty()) {
    context.AddMetadata(cluster::kTokenMetadataKey, options_.token);
  }
  {
    absl::MutexLock lock(&mutex_);
    if (closing_ || !failure_.ok()) return failure_;
    context_ = &context;
    heard_ = false;
    missed_heartbeats_ = 0;
  }
  const std::unique_ptr<Stream> stream = stub_->Join(&context);
  v1::MemberMessage hello;
  *hello.mutable_hello() = options_.hello;
  absl::Status end;
  if (stream->Write(hello)) {
    {
      absl::MutexLock lock(&write_mutex_);
      writable_ = stream.get();
    }
    v1::GroupMessage message;
    while (end.ok() && stream->Read(&message)) end = OnMessage(message);
  }
  {
    absl::MutexLock lock(&write_mutex_);
    writable_ = nullptr;
  }
  // A stream that rank 0 ended has its reason still to come.
  if (!end.ok()) context.TryCancel();
  const absl::Status finish = cluster::FromGrpc(stream->Finish());
  absl::MutexLock lock(&mutex_);
  context_ = nullptr;
  return end.ok() ? finish : end;
}

absl::Status GroupMembership::OnMessage(const v1::GroupMessage& message) {
  absl::MutexLock lock(&mutex_);
  heard_ = true;
  missed_heartbeats_ = 0;
  if (message.has_waiting()) {
    missing_.assign(message.waiting().missing().begin(),
                    message.waiting().missing().end());
  } else if (message.has_welcome()) {
    const auto& all = message.welcome().addresses();
    if (static_cast<size_t>(all.size()) != options_.endpoints.size()) {
      SetFailure(absl::InternalError(
          absl::StrCat("rank 0 told ", all.size(), " addresses for ",
                       options_.endpoints.size(), " ranks")));
      return failure_;
    }
    addresses_.assign(all.begin(), all.end());
    secret_ = message.welcome().secret();
    joined_ = true;
  } else if (message.has_failure()) {
    SetFailure(StatusOf(message.failure()));
    return failure_;
  } else if (message.has_left()) {
    left_.insert(message.left().ranks().begin(), message.left().ranks().end());
  }
  return absl::OkStatus();
}

void GroupMembership::OnStreamEnd(const absl::Status& status) {
  if (closing_ || !failure_.ok()) return;
  if (joined_) {
    // Who has left is not told when rank 0 ends, and need not know.
    if (left_.count(rank_) > 0) return;
    SetFailure(absl::UnavailableError(
        absl::StrCat(NameOf(0), " died: its connection closed (",
                     status.message(), "); its log may say why")));
    return;
  }
  last_end_ = std::string(status.message());
  if (absl::IsUnimplemented(status)) {
    SetFailure(absl::FailedPreconditionError(absl::StrCat(
        "what listens at ", options_.endpoints[0],
        " is no rendezvous of a collective job; rank 0 has to listen there")));
  } else if (!absl::IsUnavailable(status) && !absl::IsCancelled(status) &&
             !status.ok()) {
    SetFailure(Annotate(status, absl::StrCat(NameOf(0), " refused")));
  }
}

void GroupMembership::HeartbeatLoop() {
  const int progress_ticks = std::max(
      1, static_cast<int>(absl::FDivDuration(kProgressInterval, tick_)));
  for (int ticks = 1;; ++ticks) {
    v1::MemberMessage heartbeat;
    {
      absl::MutexLock lock(&mutex_);
      clock_.AwaitFor(&mutex_, absl::Condition(&closing_), tick_);
      if (closing_) return;
      CountMissedHeartbeats();
      if (!joined_ && failure_.ok()) {
        const absl::Status late = JoinTimeout();
        if (clock_.Now() >= join_deadline_) {
          SetFailure(late);
          Cancel();
        } else if (ticks % progress_ticks == 0) {
          Log().info("still waiting: {}", std::string(late.message()));
        }
      }
      heartbeat.mutable_heartbeat()->mutable_operations()->Assign(
          operations_.begin(), operations_.end());
    }
    Write(heartbeat);
  }
}

void GroupMembership::CountMissedHeartbeats() {
  if (context_ == nullptr || !heard_) return;
  if (++missed_heartbeats_ <= kHeartbeatsPerTimeout) return;
  if (joined_ && left_.count(rank_) == 0) {
    SetFailure(absl::UnavailableError(
        absl::StrCat(NameOf(0), " sent no heartbeat for ",
                     absl::FormatDuration(options_.heartbeat_timeout),
                     ": stopped, or cut off from this rank")));
  }
  Cancel();
}

absl::Status GroupMembership::JoinTimeout() const {
  const std::string within =
      absl::StrCat(" within ", absl::FormatDuration(options_.join_timeout));
  if (!heard_) {
    return absl::DeadlineExceededError(
        absl::StrCat(NameOf(0), " did not answer", within,
                     last_end_.empty() ? "" : ", last: ", last_end_,
                     "; start it, or look at its endpoint"));
  }
  return absl::DeadlineExceededError(absl::StrCat(
      absl::StrJoin(missing_, ", ",
                    [this](std::string* out, uint32_t rank) {
                      absl::StrAppend(out, NameOf(static_cast<int>(rank)));
                    }),
      " did not come to rank 0", within));
}

uint64_t GroupMembership::BeginOperation(uint32_t communicator) {
  absl::MutexLock lock(&mutex_);
  if (operations_.size() <= communicator) operations_.resize(communicator + 1);
  return ++operations_[communicator];
}

absl::Status GroupMembership::Fail(const absl::Status& status,
                                   uint32_t communicator, uint64_t operation) {
  v1::MemberMessage message;
  message.mutable_failure()->set_code(static_cast<int>(status.code()));
  message.mutable_failure()->set_message(std::string(status.message()));
  message.mutable_failure()->set_communicator(communicator);
  message.mutable_failure()->set_operation(operation);
  Write(message);
  absl::MutexLock lock(&mutex_);
  const auto answered = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return !failure_.ok();
  };
  clock_.AwaitFor(&mutex_, absl::Condition(&answered),
                  options_.heartbeat_timeout + 2 * tick_);
  SetFailure(Annotate(status, NameOf(rank_)));
  return failure_;
}

absl::Status GroupMembership::FailBroken(int peer, const absl::Status& broken) {
  bool has_left;
  {
    absl::MutexLock lock(&mutex_);
    const auto known = [this, peer]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return !failure_.ok() || left_.count(peer) > 0;
    };
    clock_.AwaitFor(&mutex_, absl::Condition(&known),
                    options_.heartbeat_timeout + 2 * tick_);
    if (!failure_.ok()) return failure_;
    has_left = left_.count(peer) > 0;
  }
  return Fail(absl::UnavailableError(
      has_left ? absl::StrCat(NameOf(peer),
                              " has left the group, and this rank is still in "
                              "an operation with it")
               : absl::StrCat(
                     "the connection to ", NameOf(peer),
                     ", which sends heartbeats, broke: ", broken.message())));
}

absl::Status GroupMembership::Leave(absl::Duration timeout) {
  {
    absl::MutexLock lock(&mutex_);
    if (!failure_.ok()) return failure_;
    leaving_ = true;
  }
  v1::MemberMessage message;
  message.mutable_leave();
  Write(message);
  absl::MutexLock lock(&mutex_);
  const size_t size = options_.endpoints.size();
  const auto done = [this, size]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return !failure_.ok() ||
           (rank_ == 0 ? left_.size() == size : left_.count(rank_) > 0);
  };
  if (clock_.AwaitFor(&mutex_, absl::Condition(&done), timeout)) {
    return failure_;
  }
  std::vector<std::string> behind;
  for (int i = 0; i < static_cast<int>(size); ++i) {
    if (left_.count(i) == 0) behind.push_back(NameOf(i));
  }
  return absl::DeadlineExceededError(absl::StrCat(
      absl::StrJoin(behind, ", "), " did not leave the group within ",
      absl::FormatDuration(timeout)));
}

}  // namespace oarlock::collective
