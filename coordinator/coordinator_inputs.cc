// The coordinator's part in columnar data: numbers of features, lists of files.

#include "absl/status/status.h"
#include "base/status_macros.h"
#include "coordinator/coordinator.h"

namespace oarlock::coordinator {

absl::StatusOr<v1::DefineFeaturesResponse> Coordinator::DefineFeatures(
    const v1::DefineFeaturesRequest& request) {
  absl::MutexLock lock(&mutex_);
  OARLOCK_RETURN_IF_ERROR(
      Check(request.worker_index(), request.worker_generation()).status());
  v1::DefineFeaturesResponse response;
  OARLOCK_ASSIGN_OR_RETURN(*response.mutable_features(),
                           features_.Number(request.features()));
  if (features_.has_list()) return response;
  OARLOCK_RETURN_IF_ERROR(calls_
                              .Begin([&](auto* call) {
                                *call->mutable_define_features() = request;
                              })
                              .status());
  features_.Set(response.features());
  return response;
}

absl::Status Coordinator::DefineInput(const v1::DefineInputRequest& request) {
  absl::MutexLock lock(&mutex_);
  OARLOCK_RETURN_IF_ERROR(
      Check(request.worker_index(), request.worker_generation()).status());
  if (inputs_.IsKnown(request)) return absl::OkStatus();
  OARLOCK_RETURN_IF_ERROR(inputs_.Check(request));
  OARLOCK_RETURN_IF_ERROR(
      calls_.Begin([&](auto* call) { *call->mutable_define_input() = request; })
          .status());
  inputs_.Define(request);
  return absl::OkStatus();
}

absl::StatusOr<v1::GetInputResponse> Coordinator::GetInput(
    const v1::GetInputRequest& request) {
  absl::MutexLock lock(&mutex_);
  OARLOCK_RETURN_IF_ERROR(
      Check(request.worker_index(), request.worker_generation()).status());
  OARLOCK_ASSIGN_OR_RETURN(v1::GetInputResponse response, inputs_.Get(request));
  if (response.last() && features_.has_list()) {
    *response.mutable_features() = features_.list();
  }
  return response;
}

}  // namespace oarlock::coordinator
