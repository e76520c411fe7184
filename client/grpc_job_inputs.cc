// What columnar data needs of the coordinator.

#include "base/status_macros.h"
#include "client/grpc_job_client.h"
#include "client/messages/input_messages.h"

namespace oarlock::client {

absl::StatusOr<v1::FeatureList> GrpcJobClient::DefineFeatures(
    const v1::FeatureList& features) {
  v1::DefineFeaturesRequest request;
  request.set_worker_index(worker_index_.value());
  request.set_worker_generation(generation_.value());
  *request.mutable_features() = features;
  v1::DefineFeaturesResponse response;
  OARLOCK_RETURN_IF_ERROR(connections_->CallWithRetries(
      ServerIndex(0), [&](grpc::ClientContext* context) {
        return coordinator().DefineFeatures(context, request, &response);
      }));
  return response.features();
}

absl::Status GrpcJobClient::DefineInput(
    const std::string& name, const std::vector<v1::ListedFile>& files) {
  for (v1::DefineInputRequest& request : InputParts(name, files)) {
    request.set_worker_index(worker_index_.value());
    request.set_worker_generation(generation_.value());
    v1::DefineInputResponse response;
    OARLOCK_RETURN_IF_ERROR(connections_->CallWithRetries(
        ServerIndex(0), [&](grpc::ClientContext* context) {
          return coordinator().DefineInput(context, request, &response);
        }));
  }
  return absl::OkStatus();
}

absl::StatusOr<JobClient::Input> GrpcJobClient::GetInput(
    const std::string& name) {
  Input input;
  for (uint32_t part = 0;; ++part) {
    v1::GetInputRequest request;
    request.set_worker_index(worker_index_.value());
    request.set_worker_generation(generation_.value());
    request.set_name(name);
    request.set_part(part);
    v1::GetInputResponse response;
    OARLOCK_RETURN_IF_ERROR(connections_->CallWithRetries(
        ServerIndex(0), [&](grpc::ClientContext* context) {
          return coordinator().GetInput(context, request, &response);
        }));
    if (AppendPart(response, &input)) return input;
  }
}

}  // namespace oarlock::client
