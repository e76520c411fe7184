#include "pserver/checkpoint/checkpoint_service.h"

#include <utility>

#include "absl/status/status.h"
#include "base/status_macros.h"
#include "proto/v1/checkpoint.grpc.pb.h"
#include "pserver/rpc/service_methods.h"

namespace oarlock::pserver {

class CheckpointService::Impl {
 public:
  Impl(ServerCut* cuts, RollBack roll_back, const CoordinatorTerm* term,
       const std::string& token)
      : cuts_(cuts), term_(term), methods_(token) {
    using S = v1::CheckpointService::AsyncService;
    AddOrder(&S::RequestOpenCut, &ServerCut::Open);
    AddOrder(&S::RequestFreezeCut, &ServerCut::Freeze);
    AddOrder(&S::RequestSaveCut, &ServerCut::Save);
    AddOrder(&S::RequestCloseCut, &ServerCut::Close);
    methods_.AddAnswer(&S::RequestRollBack,
                       [term, roll_back = std::move(roll_back)](
                           const v1::RollBackRequest& request)
                           -> absl::StatusOr<v1::RollBackResponse> {
                         OARLOCK_RETURN_IF_ERROR(term->Check(request.term()));
                         return roll_back(request);
                       });
  }

  grpc::Service* service() { return methods_.service(); }
  CallQueues::Acceptor Acceptor(std::shared_ptr<QueueGate> gate) const {
    return methods_.Acceptor(std::move(gate));
  }

 private:
  // A step of a cut, which a coordinator that was replaced may not order.
  template <typename Base, typename Request, typename Response, typename Queue>
  void AddOrder(void (Base::*ask)(grpc::ServerContext*, Request*,
                                  grpc::ServerAsyncResponseWriter<Response>*,
                                  grpc::CompletionQueue*, Queue*, void*),
                void (ServerCut::*step)(const Request&,
                                        ServerCut::Done<Response>)) {
    methods_.AddAsync(ask, [this, step](const Request& request, auto done) {
      if (absl::Status status = term_->Check(request.term()); !status.ok()) {
        return done(status);
      }
      if (cuts_ == nullptr) {
        return done(absl::FailedPreconditionError(
            "this server has no --checkpoint_dir; give all servers the same"));
      }
      (cuts_->*step)(request, std::move(done));
    });
  }

  ServerCut* const cuts_;
  const CoordinatorTerm* const term_;
  ServiceMethods<v1::CheckpointService::AsyncService> methods_;
};

CheckpointService::CheckpointService(ServerCut* cuts, RollBack roll_back,
                                     const CoordinatorTerm* term,
                                     const std::string& token)
    : impl_(std::make_unique<Impl>(cuts, std::move(roll_back), term, token)) {}

CheckpointService::~CheckpointService() = default;

grpc::Service* CheckpointService::service() { return impl_->service(); }

CallQueues::Acceptor CheckpointService::Acceptor(
    std::shared_ptr<QueueGate> gate) const {
  return impl_->Acceptor(std::move(gate));
}

}  // namespace oarlock::pserver
