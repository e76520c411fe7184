// Answers calls of methods that this server does not have: those of another
// protocol version, and those of the coordinator on a server that has none.
// gRPC itself answers them with an empty text.

#ifndef OARLOCK_PSERVER_SERVICE_UNKNOWN_CALLS_H_
#define OARLOCK_PSERVER_SERVICE_UNKNOWN_CALLS_H_

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "base/types.h"
#include "pserver/rpc/call_queues.h"

namespace oarlock::pserver {

struct UnknownCallsOptions {
  ServerIndex server;
  // "host:port" of server 0.
  std::string coordinator_endpoint;
  // A call without it gets no other information. Empty: none is demanded.
  std::string token;
};

// The status of a call of `method`, such as "/package.Service/Method". It has
// one line. FailedPrecondition for methods of protocol version 1, and for the
// coordinator's; else Unimplemented, with at most 100 bytes of the method.
absl::Status UnknownMethod(const UnknownCallsOptions& options,
                           std::string_view method);

// Thread-safe.
class UnknownCalls {
 public:
  explicit UnknownCalls(UnknownCallsOptions options)
      : options_(std::move(options)) {}

  UnknownCalls(const UnknownCalls&) = delete;
  UnknownCalls& operator=(const UnknownCalls&) = delete;

  // What to register with the builder.
  grpc::AsyncGenericService* service() { return &service_; }
  // For CallQueues::Start; this must outlive the queues' threads.
  CallQueues::Acceptor Acceptor(std::shared_ptr<QueueGate> gate);

 private:
  class Call;

  const UnknownCallsOptions options_;
  grpc::AsyncGenericService service_;
};

}  // namespace oarlock::pserver

#endif  // OARLOCK_PSERVER_SERVICE_UNKNOWN_CALLS_H_
