#include "client/control_calls.h"

#include <grpcpp/alarm.h>
#include <grpcpp/client_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/status_macros.h"
#include "cluster/retry.h"
#include "cluster/wire_version.h"

namespace oarlock::client {
namespace {

absl::Status ClosedError() {
  return absl::CancelledError("the client is being closed");
}

bool IsNotYet(const absl::Status& status) {
  return absl::IsUnavailable(status) &&
         absl::StartsWith(status.message(), cluster::kBarrierNotYet);
}

std::string BytesOf(const grpc::ByteBuffer& buffer) {
  std::string bytes;
  std::vector<grpc::Slice> slices;
  if (!buffer.Dump(&slices).ok()) return bytes;
  bytes.reserve(buffer.Length());
  for (const grpc::Slice& slice : slices) {
    bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return bytes;
}

}  // namespace

// A call, and the tag under which it waits.
struct ControlCalls::Attempt : CompletionThread::Event {
  explicit Attempt(ControlCalls* calls) : calls(calls) {}
  void Run() override { calls->OnEvent(this); }
  CompletionThread::Event* tag() { return this; }

  ControlCalls* const calls;
  uint64_t number = 0;
  Call call;
  absl::Duration retry_timeout;
  absl::Time give_up = absl::InfiniteFuture();
  std::optional<cluster::Backoff> backoff;
  bool pausing = false;
  grpc::Alarm alarm;
  // Guarded by mutex_, since Cancel uses it.
  std::unique_ptr<grpc::ClientContext> context;
  bool cancelled = false;
  // Of the try under way.
  std::unique_ptr<grpc::GenericClientAsyncResponseReader> reader;
  grpc::ByteBuffer response;
  grpc::Status status;
};

ControlCalls::ControlCalls(const ServerConnections* connections,
                           CompletionThread* completions)
    : connections_(connections), queue_(completions->queue()) {
  for (const ServerConnections::Server& server : connections->servers()) {
    stubs_.push_back(std::make_unique<grpc::GenericStub>(server.channel));
  }
}

ControlCalls::~ControlCalls() {
  {
    absl::MutexLock lock(&mutex_);
    closing_ = true;
    for (const auto& [number, attempt] : attempts_) {
      if (attempt->context != nullptr) attempt->context->TryCancel();
      attempt->alarm.Cancel();
    }
    const auto empty = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return attempts_.empty();
    };
    mutex_.Await(absl::Condition(&empty));
  }
}

uint64_t ControlCalls::StartAfter(absl::Duration delay, Call call) {
  auto owned = std::make_unique<Attempt>(this);
  Attempt* const attempt = owned.get();
  attempt->call = std::move(call);
  if (attempt->call.attempt_timeout == absl::ZeroDuration()) {
    attempt->call.attempt_timeout = connections_->options().rpc_timeout;
  }
  attempt->retry_timeout = attempt->call.give_up_after == absl::ZeroDuration()
                               ? connections_->retry_timeout()
                               : attempt->call.give_up_after;
  uint64_t number;
  bool closing;
  {
    absl::MutexLock lock(&mutex_);
    number = attempt->number = ++last_number_;
    closing = closing_;
    if (!closing) attempts_.emplace(number, std::move(owned));
  }
  if (closing) {
    owned->call.done(ClosedError());
  } else if (delay == absl::ZeroDuration()) {
    Begin(attempt);
  } else {
    absl::MutexLock lock(&mutex_);
    attempt->pausing = true;
    attempt->alarm.Set(queue_, GrpcDeadline(delay), attempt->tag());
    if (closing_ || attempt->cancelled) attempt->alarm.Cancel();
  }
  return number;
}

void ControlCalls::Begin(Attempt* attempt) {
  auto context = std::make_unique<grpc::ClientContext>();
  connections_->PrepareToWait(context.get(), attempt->call.attempt_timeout);
  attempt->response.Clear();
  attempt->pausing = false;
  const grpc::Slice slice(attempt->call.request);
  const grpc::ByteBuffer request(&slice, 1);
  // One lock over all of it: a context that is cancelled has its call.
  absl::MutexLock lock(&mutex_);
  attempt->context = std::move(context);
  attempt->reader = stubs_[attempt->call.server.value()]->PrepareUnaryCall(
      attempt->context.get(), attempt->call.path, request, queue_);
  attempt->reader->StartCall();
  attempt->reader->Finish(&attempt->response, &attempt->status, attempt->tag());
  if (closing_ || attempt->cancelled) attempt->context->TryCancel();
}

void ControlCalls::Cancel(uint64_t number) {
  absl::MutexLock lock(&mutex_);
  const auto found = attempts_.find(number);
  if (found == attempts_.end()) return;
  Attempt& attempt = *found->second;
  attempt.cancelled = true;
  if (attempt.context != nullptr) attempt.context->TryCancel();
  attempt.alarm.Cancel();
}

void ControlCalls::OnEvent(Attempt* attempt) {
  if (attempt->pausing) {
    absl::Status ended;
    {
      absl::MutexLock lock(&mutex_);
      if (closing_) {
        ended = ClosedError();
      } else if (attempt->cancelled) {
        ended = absl::CancelledError("the operation was cancelled");
      }
    }
    if (!ended.ok()) return Finish(attempt, ended);
    return Begin(attempt);
  }
  if (attempt->status.ok()) {
    return Finish(attempt, BytesOf(attempt->response));
  }
  absl::Status status = cluster::FromGrpc(attempt->status);
  if (!TryAgain(attempt, &status)) Finish(attempt, status);
}

bool ControlCalls::TryAgain(Attempt* attempt, absl::Status* status) {
  const absl::Time now = connections_->clock().Now();
  absl::MutexLock lock(&mutex_);
  if (closing_) {
    *status = ClosedError();
    return false;
  }
  if (attempt->cancelled) {
    *status = absl::CancelledError("the operation was cancelled");
    return false;
  }
  absl::Duration pause = absl::ZeroDuration();
  if (IsNotYet(*status)) {
    attempt->backoff.reset();
    attempt->give_up = absl::InfiniteFuture();
  } else {
    const cluster::RetryAdvice advice = cluster::AdviceFor(status->code());
    if (advice != cluster::RetryAdvice::kSameCall &&
        advice != cluster::RetryAdvice::kSameCallSlower) {
      *status = Annotate(*status, connections_->Name(attempt->call.server));
      return false;
    }
    if (!attempt->backoff.has_value()) {
      attempt->backoff.emplace(cluster::kAwayRetries,
                               connections_->job_hash() ^ attempt->number);
      attempt->give_up = now + attempt->retry_timeout;
    }
    if (now >= attempt->give_up) {
      *status = absl::UnavailableError(absl::StrCat(
          connections_->Name(attempt->call.server), " did not answer within ",
          absl::FormatDuration(attempt->retry_timeout), " (", status->message(),
          "); is it running?"));
      return false;
    }
    pause = attempt->backoff->Next();
  }
  attempt->pausing = true;
  attempt->alarm.Set(queue_, GrpcDeadline(pause), attempt->tag());
  return true;
}

void ControlCalls::Finish(Attempt* attempt,
                          absl::StatusOr<std::string> outcome) {
  Done done = std::move(attempt->call.done);
  done(std::move(outcome));
  absl::MutexLock lock(&mutex_);
  attempts_.erase(attempt->number);
}

}  // namespace oarlock::client
