#include "pserver/service/health_service.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace oarlock::pserver {

HealthService::HealthService(std::vector<std::string> services)
    : services_(std::move(services)) {
  check_.ask = [this](auto* context, auto* request, auto* writer, auto* queue,
                      void* tag) {
    service_.RequestCheck(context, request, writer, queue, queue, tag);
  };
  check_.handle = [this](Call call) { Check(std::move(call)); };
}

CallQueues::Acceptor HealthService::Acceptor(
    std::shared_ptr<QueueGate> gate) const {
  return [this, gate = std::move(gate)](grpc::ServerCompletionQueue* queue) {
    UnaryCall<Method::Request, Method::Response>::Accept(&check_, queue, gate);
  };
}

void HealthService::Check(Call call) const {
  const std::string& name = call.request().service();
  if (!name.empty() &&
      std::find(services_.begin(), services_.end(), name) == services_.end()) {
    return call.Fail(absl::NotFoundError(
        absl::StrCat("this server has no service '", name, "'")));
  }
  Method::Response response;
  response.set_status(serving_ ? Method::Response::SERVING
                               : Method::Response::NOT_SERVING);
  call.Answer(response);
}

}  // namespace oarlock::pserver
