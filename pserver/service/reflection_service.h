// gRPC's server reflection protocol, over the descriptors that are linked in.

#ifndef OARLOCK_PSERVER_SERVICE_REFLECTION_SERVICE_H_
#define OARLOCK_PSERVER_SERVICE_REFLECTION_SERVICE_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "proto/vendored/reflection.grpc.pb.h"
#include "pserver/rpc/call_queues.h"

namespace oarlock::pserver {

// Thread-safe.
class ReflectionService {
 public:
  // `services`: full names of what the server offers.
  explicit ReflectionService(std::vector<std::string> services)
      : services_(std::move(services)) {}

  ReflectionService(const ReflectionService&) = delete;
  ReflectionService& operator=(const ReflectionService&) = delete;

  // What to register with the builder.
  grpc::Service* service() { return &service_; }
  // For CallQueues::Start; the service must outlive the queues' threads.
  CallQueues::Acceptor Acceptor(std::shared_ptr<QueueGate> gate);

  // The response to one request.
  grpc::reflection::v1alpha::ServerReflectionResponse Answer(
      const grpc::reflection::v1alpha::ServerReflectionRequest& request) const;

 private:
  class Conversation;

  const std::vector<std::string> services_;
  grpc::reflection::v1alpha::ServerReflection::AsyncService service_;
};

}  // namespace oarlock::pserver

#endif  // OARLOCK_PSERVER_SERVICE_REFLECTION_SERVICE_H_
