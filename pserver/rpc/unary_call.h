// A unary call on a completion queue, from the time when it can be taken until
// its response is sent.

#ifndef OARLOCK_PSERVER_RPC_UNARY_CALL_H_
#define OARLOCK_PSERVER_RPC_UNARY_CALL_H_

#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "base/check.h"
#include "cluster/retry.h"
#include "pserver/rpc/call_queues.h"

namespace oarlock::pserver {

template <typename Request, typename Response>
class UnaryCall;

// A call that waits for its response. If it is dropped without a response, its
// caller gets Unavailable. Movable; any one thread may use it.
template <typename Request, typename Response>
class PendingCall {
 public:
  explicit PendingCall(std::unique_ptr<UnaryCall<Request, Response>> call)
      : call_(std::move(call)) {}
  PendingCall(PendingCall&&) = default;
  PendingCall& operator=(PendingCall&&) = delete;
  ~PendingCall() {
    if (call_ == nullptr) return;
    Fail(absl::UnavailableError("the server dropped the call; call again"));
  }

  const Request& request() const { return call_->request_; }
  const grpc::ServerContext& context() const { return call_->context_; }
  // Kept until the response is sent.
  void Keep(std::shared_ptr<const void> memory) {
    call_->memory_ = std::move(memory);
  }

  // Call one of the two, once.
  void Answer(const Response& response) {
    Send([&](auto* call) {
      call->writer_.Finish(response, grpc::Status::OK, call);
    });
  }
  void Fail(const absl::Status& status) {
    OARLOCK_CHECK(!status.ok());
    Send([&](auto* call) {
      call->writer_.FinishWithError(cluster::ToGrpc(status), call);
    });
  }

 private:
  template <typename Finish>
  void Send(Finish finish) {
    OARLOCK_CHECK(call_ != nullptr);
    std::unique_ptr<UnaryCall<Request, Response>> call = std::move(call_);
    const std::shared_ptr<QueueGate> gate = call->gate_;
    gate->WhileOpen([&] {
      call->answered_ = true;
      // From here on the queue owns it; its thread may delete it at once.
      finish(call.release());
    });
  }

  std::unique_ptr<UnaryCall<Request, Response>> call_;
};

// A method of a service. `ask` requests its next call from gRPC, and `handle`
// handles it. `handle` must not block for long: calls of all methods share
// threads.
template <typename RequestType, typename ResponseType>
struct UnaryMethod {
  using Request = RequestType;
  using Response = ResponseType;
  std::function<void(grpc::ServerContext*, Request*,
                     grpc::ServerAsyncResponseWriter<Response>*,
                     grpc::ServerCompletionQueue*, void* tag)>
      ask;
  std::function<void(PendingCall<Request, Response>)> handle;
};

template <typename Request, typename Response>
class UnaryCall final : public QueueTag {
 public:
  using Method = UnaryMethod<Request, Response>;

  // Makes `queue` ready to take one more call of `method`, which must outlive
  // the queue.
  static void Accept(const Method* method, grpc::ServerCompletionQueue* queue,
                     const std::shared_ptr<QueueGate>& gate) {
    gate->WhileOpen([&] {
      auto* const call = new UnaryCall(method, queue, gate);  // OnEvent frees.
      method->ask(&call->context_, &call->request_, &call->writer_, queue,
                  call);
    });
  }

  void OnEvent(bool ok) override {
    std::unique_ptr<UnaryCall> call(this);
    // Sent, given up by its caller, or never taken: nothing is left to do.
    if (answered_ || !ok) return;
    Accept(method_, queue_, gate_);
    method_->handle(PendingCall<Request, Response>(std::move(call)));
  }

 private:
  friend class PendingCall<Request, Response>;

  UnaryCall(const Method* method, grpc::ServerCompletionQueue* queue,
            std::shared_ptr<QueueGate> gate)
      : method_(method),
        queue_(queue),
        gate_(std::move(gate)),
        writer_(&context_) {}

  const Method* const method_;
  grpc::ServerCompletionQueue* const queue_;
  const std::shared_ptr<QueueGate> gate_;
  grpc::ServerContext context_;
  Request request_;
  grpc::ServerAsyncResponseWriter<Response> writer_;
  std::shared_ptr<const void> memory_;
  // Its response is on the way.
  bool answered_ = false;
};

}  // namespace oarlock::pserver

#endif  // OARLOCK_PSERVER_RPC_UNARY_CALL_H_
