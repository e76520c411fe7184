#include "pserver/service/unknown_calls.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "cluster/connect.h"
#include "cluster/retry.h"
#include "cluster/security.h"
#include "cluster/wire_version.h"

namespace oarlock::pserver {

absl::Status UnknownMethod(const UnknownCallsOptions& options,
                           std::string_view method) {
  // Only version 1 has it.
  if (method.starts_with("/oarlock.v1.AdminService/")) {
    return cluster::CheckClientVersion(1);
  }
  if (method.starts_with("/oarlock.v1.CoordinatorService/") &&
      options.server != ServerIndex(0)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "this is server ", options.server.value(),
        ", and only the coordinator answers that; ask server 0 at ",
        options.coordinator_endpoint));
  }
  constexpr size_t kShownBytes = 100;
  return absl::UnimplementedError(
      absl::StrCat("this server has no method ",
                   absl::CHexEscape(std::string(method.substr(0, kShownBytes))),
                   "; it speaks protocol version ", cluster::kProtocolVersion,
                   ", so use servers and clients of one release"));
}

// Waits for a call, then for its status to be sent.
class UnknownCalls::Call : public QueueTag {
 public:
  static void Accept(UnknownCalls* calls, grpc::ServerCompletionQueue* queue,
                     const std::shared_ptr<QueueGate>& gate) {
    gate->WhileOpen([&] {
      auto* const call = new Call(calls, queue, gate);  // OnEvent frees.
      calls->service_.RequestCall(&call->context_, &call->stream_, queue, queue,
                                  call);
    });
  }

  void OnEvent(bool ok) override {
    std::unique_ptr<Call> call(this);
    // Sent, given up by its caller, or never taken: nothing is left to do.
    if (answered_ || !ok) return;
    Accept(calls_, queue_, gate_);
    absl::Status status = cluster::CheckToken(context_, calls_->options_.token);
    if (status.ok())
      status = UnknownMethod(calls_->options_, context_.method());
    gate_->WhileOpen([&] {
      answered_ = true;
      // From here on the queue owns it.
      stream_.Finish(cluster::ToGrpc(status), call.release());
    });
  }

 private:
  Call(UnknownCalls* calls, grpc::ServerCompletionQueue* queue,
       std::shared_ptr<QueueGate> gate)
      : calls_(calls),
        queue_(queue),
        gate_(std::move(gate)),
        stream_(&context_) {}

  UnknownCalls* const calls_;
  grpc::ServerCompletionQueue* const queue_;
  const std::shared_ptr<QueueGate> gate_;
  grpc::GenericServerContext context_;
  grpc::GenericServerAsyncReaderWriter stream_;
  bool answered_ = false;
};

CallQueues::Acceptor UnknownCalls::Acceptor(std::shared_ptr<QueueGate> gate) {
  return [this, gate = std::move(gate)](grpc::ServerCompletionQueue* queue) {
    Call::Accept(this, queue, gate);
  };
}

}  // namespace oarlock::pserver
