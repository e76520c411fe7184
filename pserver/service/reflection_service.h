// gRPC's server reflection protocol, over the descriptors that are linked in.

#ifndef OARLOCK_PSERVER_SERVICE_REFLECTION_SERVICE_H_
#define OARLOCK_PSERVER_SERVICE_REFLECTION_SERVICE_H_

#include <grpcpp/grpcpp.h>

#include <atomic>
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
  // Streams that may be open at a time; one more is ResourceExhausted.
  static constexpr int kMaxStreams = 16;

  // `services`: full names of what the server offers. Every stream must carry
  // `token`; empty: none.
  explicit ReflectionService(std::vector<std::string> services,
                             std::string token = "")
      : services_(std::move(services)), token_(std::move(token)) {}

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
  const std::string token_;
  std::atomic<int> num_streams_ = 0;
  grpc::reflection::v1alpha::ServerReflection::AsyncService service_;
};

}  // namespace oarlock::pserver

#endif  // OARLOCK_PSERVER_SERVICE_REFLECTION_SERVICE_H_
