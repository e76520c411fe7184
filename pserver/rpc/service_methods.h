// The methods of one gRPC service: what each does, and how the call queues take
// its calls.

#ifndef OARLOCK_PSERVER_RPC_SERVICE_METHODS_H_
#define OARLOCK_PSERVER_RPC_SERVICE_METHODS_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cluster/security.h"
#include "pserver/rpc/call_queues.h"
#include "pserver/rpc/unary_call.h"

namespace oarlock::pserver {

// `AsyncService` is the class of that name in a generated service. All methods
// are added before the queues start; after that it is thread-safe.
template <typename AsyncService>
class ServiceMethods {
 public:
  // Every call must carry `token` as metadata kTokenMetadataKey. Empty: none.
  explicit ServiceMethods(std::string token) : token_(std::move(token)) {}

  ServiceMethods(const ServiceMethods&) = delete;
  ServiceMethods& operator=(const ServiceMethods&) = delete;

  // RequestX of the generated service, for a method X.
  template <typename Base, typename Request, typename Response>
  using Ask = void (Base::*)(grpc::ServerContext*, Request*,
                             grpc::ServerAsyncResponseWriter<Response>*,
                             grpc::CompletionQueue*,
                             grpc::ServerCompletionQueue*, void*);

  // `handle` gets each call of the method, a PendingCall, whose token has been
  // checked. It must not block for long.
  template <typename Base, typename Request, typename Response, typename Handle>
  void Add(Ask<Base, Request, Response> ask, Handle handle) {
    UnaryMethod<Request, Response> method;
    method.ask = [this, ask](grpc::ServerContext* context, Request* request,
                             grpc::ServerAsyncResponseWriter<Response>* writer,
                             grpc::ServerCompletionQueue* queue, void* tag) {
      (service_.*ask)(context, request, writer, queue, queue, tag);
    };
    method.handle = [this, handle](PendingCall<Request, Response> call) {
      const absl::Status status = cluster::CheckToken(call.context(), token_);
      if (!status.ok()) return call.Fail(status);
      handle(std::move(call));
    };
    accept_.push_back(
        [method = std::make_unique<const UnaryMethod<Request, Response>>(
             std::move(method))](grpc::ServerCompletionQueue* queue,
                                 const std::shared_ptr<QueueGate>& gate) {
          UnaryCall<Request, Response>::Accept(method.get(), queue, gate);
        });
  }

  // `answer` makes the response of a request: a Response, a
  // StatusOr<Response>, or a Status where the response is empty.
  template <typename Base, typename Request, typename Response, typename Answer>
  void AddAnswer(Ask<Base, Request, Response> ask, Answer answer) {
    Add(ask, [answer](PendingCall<Request, Response> call) {
      Finish(&call, answer(call.request()));
    });
  }

  // `start` gets a request and a function that takes its result, of one of
  // those types, when it is there.
  template <typename Base, typename Request, typename Response, typename Start>
  void AddAsync(Ask<Base, Request, Response> ask, Start start) {
    Add(ask, [start](PendingCall<Request, Response> call) {
      const Request request = call.request();
      start(request, [call = std::move(call)](const auto& result) mutable {
        Finish(&call, result);
      });
    });
  }

  // What to register with the builder.
  grpc::Service* service() { return &service_; }
  // For CallQueues::Start; this must outlive the queues' threads.
  CallQueues::Acceptor Acceptor(std::shared_ptr<QueueGate> gate) const {
    return [this, gate = std::move(gate)](grpc::ServerCompletionQueue* queue) {
      for (const auto& accept : accept_) {
        for (int i = 0; i < kAcceptsPerMethod; ++i) accept(queue, gate);
      }
    };
  }

 private:
  // Calls of each method that a queue is ready to take at once; more wait
  // inside gRPC.
  static constexpr int kAcceptsPerMethod = 2;

  template <typename Request, typename Response, typename Result>
  static void Finish(PendingCall<Request, Response>* call,
                     const Result& result) {
    if constexpr (std::is_same_v<Result, Response>) {
      call->Answer(result);
    } else if constexpr (std::is_same_v<Result, absl::Status>) {
      if (!result.ok()) return call->Fail(result);
      call->Answer(Response());
    } else {
      if (!result.ok()) return call->Fail(result.status());
      call->Answer(*result);
    }
  }

  const std::string token_;
  AsyncService service_;
  // Each makes a queue ready for one call of its method.
  std::vector<absl::AnyInvocable<void(grpc::ServerCompletionQueue*,
                                      const std::shared_ptr<QueueGate>&) const>>
      accept_;
};

}  // namespace oarlock::pserver

#endif  // OARLOCK_PSERVER_RPC_SERVICE_METHODS_H_
