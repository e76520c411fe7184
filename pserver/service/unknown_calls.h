// Answers calls of methods that this server does not have. gRPC itself answers
// them with an empty text, which tells a peer of another version nothing.

#ifndef OARLOCK_PSERVER_SERVICE_UNKNOWN_CALLS_H_
#define OARLOCK_PSERVER_SERVICE_UNKNOWN_CALLS_H_

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "pserver/rpc/call_queues.h"

namespace oarlock::pserver {

// The status of a call of `method`, such as "/package.Service/Method". It has
// one line, and shows at most 100 bytes of the method.
absl::Status UnknownMethod(std::string_view method);

// Thread-safe.
class UnknownCalls {
 public:
  // A call without `token` learns nothing but that it lacks it.
  explicit UnknownCalls(std::string token) : token_(std::move(token)) {}

  UnknownCalls(const UnknownCalls&) = delete;
  UnknownCalls& operator=(const UnknownCalls&) = delete;

  // What to register with the builder.
  grpc::AsyncGenericService* service() { return &service_; }
  // For CallQueues::Start; this must outlive the queues' threads.
  CallQueues::Acceptor Acceptor(std::shared_ptr<QueueGate> gate);

 private:
  class Call;

  const std::string token_;
  grpc::AsyncGenericService service_;
};

}  // namespace oarlock::pserver

#endif  // OARLOCK_PSERVER_SERVICE_UNKNOWN_CALLS_H_
