#include "pserver/checkpoint/checkpoint_service.h"

#include <utility>

#include "cluster/security.h"
#include "proto/v1/checkpoint.grpc.pb.h"
#include "pserver/rpc/unary_call.h"

namespace oarlock::pserver {

class CheckpointService::Impl {
 public:
  Impl(ServerCut* cuts, const std::string& token)
      : cuts_(cuts),
        token_(token),
        open_(Method(&AsyncService::RequestOpenCut, &ServerCut::Open)),
        freeze_(Method(&AsyncService::RequestFreezeCut, &ServerCut::Freeze)),
        save_(Method(&AsyncService::RequestSaveCut, &ServerCut::Save)),
        close_(Method(&AsyncService::RequestCloseCut, &ServerCut::Close)) {}

  grpc::Service* service() { return &service_; }

  void Accept(grpc::ServerCompletionQueue* queue,
              const std::shared_ptr<QueueGate>& gate) const {
    AcceptOne(open_, queue, gate);
    AcceptOne(freeze_, queue, gate);
    AcceptOne(save_, queue, gate);
    AcceptOne(close_, queue, gate);
  }

 private:
  using AsyncService = v1::CheckpointService::AsyncService;

  template <typename S, typename Request, typename Response>
  UnaryMethod<Request, Response> Method(
      void (S::*ask)(grpc::ServerContext*, Request*,
                     grpc::ServerAsyncResponseWriter<Response>*,
                     grpc::CompletionQueue*, grpc::ServerCompletionQueue*,
                     void*),
      void (ServerCut::*step)(const Request&, ServerCut::Done<Response>)) {
    UnaryMethod<Request, Response> method;
    method.ask = [this, ask](grpc::ServerContext* context, Request* request,
                             grpc::ServerAsyncResponseWriter<Response>* writer,
                             grpc::ServerCompletionQueue* queue, void* tag) {
      (service_.*ask)(context, request, writer, queue, queue, tag);
    };
    method.handle = [this, step](PendingCall<Request, Response> call) {
      const absl::Status status = cluster::CheckToken(call.context(), token_);
      if (!status.ok()) return call.Fail(status);
      const Request request = call.request();
      (cuts_->*step)(request,
                     [call = std::move(call)](
                         const absl::StatusOr<Response>& result) mutable {
                       if (result.ok()) {
                         call.Answer(*result);
                       } else {
                         call.Fail(result.status());
                       }
                     });
    };
    return method;
  }
  template <typename Request, typename Response>
  static void AcceptOne(const UnaryMethod<Request, Response>& method,
                        grpc::ServerCompletionQueue* queue,
                        const std::shared_ptr<QueueGate>& gate) {
    UnaryCall<Request, Response>::Accept(&method, queue, gate);
  }

  ServerCut* const cuts_;
  const std::string token_;
  AsyncService service_;
  const UnaryMethod<v1::OpenCutRequest, v1::OpenCutResponse> open_;
  const UnaryMethod<v1::FreezeCutRequest, v1::FreezeCutResponse> freeze_;
  const UnaryMethod<v1::SaveCutRequest, v1::SaveCutResponse> save_;
  const UnaryMethod<v1::CloseCutRequest, v1::CloseCutResponse> close_;
};

CheckpointService::CheckpointService(ServerCut* cuts, const std::string& token)
    : impl_(std::make_unique<Impl>(cuts, token)) {}

CheckpointService::~CheckpointService() = default;

grpc::Service* CheckpointService::service() { return impl_->service(); }

CallQueues::Acceptor CheckpointService::Acceptor(
    std::shared_ptr<QueueGate> gate) const {
  return [this, gate = std::move(gate)](grpc::ServerCompletionQueue* queue) {
    impl_->Accept(queue, gate);
  };
}

}  // namespace oarlock::pserver
