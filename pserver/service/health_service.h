// gRPC's health checking protocol. Watch is left out, which the protocol
// allows: clients get Unimplemented and then take the server for healthy.

#ifndef OARLOCK_PSERVER_SERVICE_HEALTH_SERVICE_H_
#define OARLOCK_PSERVER_SERVICE_HEALTH_SERVICE_H_

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "proto/vendored/health.grpc.pb.h"
#include "pserver/rpc/call_queues.h"
#include "pserver/rpc/unary_call.h"

namespace oarlock::pserver {

// Thread-safe.
class HealthService {
 public:
  // `services`: full names of what the server offers.
  explicit HealthService(std::vector<std::string> services);

  HealthService(const HealthService&) = delete;
  HealthService& operator=(const HealthService&) = delete;

  // At first it serves.
  void SetServing(bool serving) { serving_ = serving; }

  // What to register with the builder.
  grpc::Service* service() { return &service_; }
  // For CallQueues::Start; the service must outlive the queues' threads.
  CallQueues::Acceptor Acceptor(std::shared_ptr<QueueGate> gate) const;

 private:
  using Call = PendingCall<grpc::health::v1::HealthCheckRequest,
                           grpc::health::v1::HealthCheckResponse>;
  using Method = UnaryMethod<grpc::health::v1::HealthCheckRequest,
                             grpc::health::v1::HealthCheckResponse>;

  void Check(Call call) const;

  const std::vector<std::string> services_;
  std::atomic<bool> serving_ = true;
  grpc::health::v1::Health::AsyncService service_;
  Method check_;
};

}  // namespace oarlock::pserver

#endif  // OARLOCK_PSERVER_SERVICE_HEALTH_SERVICE_H_
