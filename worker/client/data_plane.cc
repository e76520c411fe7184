#include "worker/client/data_plane.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/status_macros.h"

namespace oarlock {
namespace {

const char* MethodPath(DataPlane::Method method) {
  switch (method) {
    case DataPlane::Method::kPullSparse:
      return "/oarlock.v1.ParameterService/PullSparse";
    case DataPlane::Method::kPushSparse:
      return "/oarlock.v1.ParameterService/PushSparse";
    case DataPlane::Method::kPullDense:
      return "/oarlock.v1.ParameterService/PullDense";
    case DataPlane::Method::kPushDense:
      return "/oarlock.v1.ParameterService/PushDense";
  }
  return "";
}

}  // namespace

struct DataPlane::PendingCall {
  ServerIndex server;
  Method method;
  grpc::ByteBuffer request;
  absl::Duration attempt_timeout;
  OnAnswer on_answer;

  // Of the attempt under way. The context is replaced under mutex_, because
  // the destructor cancels through it.
  std::unique_ptr<grpc::ClientContext> context;
  std::unique_ptr<grpc::GenericClientAsyncResponseReader> reader;
  grpc::ByteBuffer response;
  grpc::Status status;

  // Between two attempts.
  bool backing_off = false;
  std::optional<Backoff> backoff;
  absl::Time give_up;
};

DataPlane::DataPlane(const ServerConnections* connections)
    : connections_(connections) {
  for (const ServerConnections::Server& server : connections->servers()) {
    stubs_.push_back(std::make_unique<grpc::GenericStub>(server.channel));
  }
  thread_ = std::thread([this] { Poll(); });
}

DataPlane::~DataPlane() {
  {
    absl::MutexLock lock(&mutex_);
    closing_ = true;
    for (PendingCall* call : pending_) {
      if (call->context != nullptr) call->context->TryCancel();
    }
    mutex_.Await(absl::Condition(
        +[](absl::flat_hash_set<PendingCall*>* pending) {
          return pending->empty();
        },
        &pending_));
  }
  queue_.Shutdown();
  thread_.join();
}

void DataPlane::Call(ServerIndex server, Method method,
                     grpc::ByteBuffer request, absl::Duration attempt_timeout,
                     OnAnswer on_answer) {
  auto* call = new PendingCall;
  call->server = server;
  call->method = method;
  call->request = std::move(request);
  call->attempt_timeout = attempt_timeout;
  call->on_answer = std::move(on_answer);
  bool closing;
  {
    absl::MutexLock lock(&mutex_);
    closing = closing_;
    pending_.insert(call);
  }
  if (closing) {
    Finish(call, absl::CancelledError("the client is being closed"));
    return;
  }
  Start(call);
}

void DataPlane::Start(PendingCall* call) {
  auto context = std::make_unique<grpc::ClientContext>();
  connections_->Prepare(context.get(), call->attempt_timeout);
  call->backing_off = false;
  call->response.Clear();
  {
    absl::MutexLock lock(&mutex_);
    call->context = std::move(context);
    if (closing_) call->context->TryCancel();
  }
  call->reader = stubs_[call->server.value()]->PrepareUnaryCall(
      call->context.get(), MethodPath(call->method), call->request, &queue_);
  call->reader->StartCall();
  call->reader->Finish(&call->response, &call->status, call);
}

void DataPlane::Poll() {
  void* tag;
  bool ok;
  while (queue_.Next(&tag, &ok)) OnEvent(static_cast<PendingCall*>(tag));
}

void DataPlane::OnEvent(PendingCall* call) {
  if (call->backing_off) {
    Start(call);
  } else {
    OnAttemptEnd(call);
  }
}

void DataPlane::OnAttemptEnd(PendingCall* call) {
  if (call->status.ok()) {
    Finish(call, std::move(call->response));
    return;
  }
  const absl::Status status = FromGrpc(call->status);
  const RetryAdvice advice = AdviceFor(status.code());
  const absl::Time now = Clock::Real().Now();
  if (!call->backoff.has_value()) {
    call->backoff.emplace(RetryOptions{},
                          absl::ToUnixNanos(now) ^ call->server.value());
    call->give_up = now + connections_->options().rpc_timeout;
  }
  bool closing;
  {
    absl::MutexLock lock(&mutex_);
    closing = closing_;
  }
  const bool may_help = advice == RetryAdvice::kSameCall ||
                        advice == RetryAdvice::kSameCallSlower;
  if (closing || !may_help || now >= call->give_up) {
    absl::Status annotated =
        Annotate(status, connections_->Name(call->server));
    if (may_help && !closing) {
      annotated = Annotate(
          annotated,
          absl::StrCat("gave up after ",
                       absl::FormatDuration(
                           connections_->options().rpc_timeout),
                       " of retries"));
    }
    Finish(call, annotated);
    return;
  }
  // Until the channel's state changes, at most for the backoff. Watching makes
  // it connect: gRPC works on a connection only while somebody waits for it.
  call->backing_off = true;
  grpc::Channel& channel = *connections_->servers()[call->server.value()].channel;
  channel.NotifyOnStateChange(channel.GetState(/*try_to_connect=*/true),
                              absl::ToChronoTime(now + call->backoff->Next()),
                              &queue_, call);
}

void DataPlane::Finish(PendingCall* call,
                       absl::StatusOr<grpc::ByteBuffer> answer) {
  call->on_answer(std::move(answer));
  absl::MutexLock lock(&mutex_);
  pending_.erase(call);
  delete call;
}

}  // namespace oarlock
