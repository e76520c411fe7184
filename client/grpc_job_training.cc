// GrpcJobClient's calls about the state of training: checkpoints,
// evaluations, stopping, online files.

#include "base/status_macros.h"
#include "client/grpc_job_client.h"
#include "cluster/retry.h"

namespace oarlock::client {
namespace {

// How long a checkpoint may take.
constexpr absl::Duration kCheckpointTimeout = absl::Hours(1);
constexpr int kCheckpointAttempts = 5;

}  // namespace

absl::StatusOr<v1::CheckpointResponse> GrpcJobClient::MakeCheckpoint(
    bool best) {
  v1::CheckpointRequest request;
  request.set_best(best);
  // Each call makes another checkpoint, so it is repeated only where the
  // coordinator or another server was away.
  for (int attempt = 1;; ++attempt) {
    grpc::ClientContext context;
    connections_->PrepareToWait(&context, kCheckpointTimeout);
    v1::CheckpointResponse response;
    const absl::Status status = cluster::FromGrpc(
        coordinator().Checkpoint(&context, request, &response));
    if (status.ok()) return response;
    if (!absl::IsUnavailable(status) || attempt == kCheckpointAttempts) {
      return status;
    }
    OARLOCK_RETURN_IF_ERROR(Alive());
    // Returns when the coordinator is back.
    OARLOCK_RETURN_IF_ERROR(GetJobStatus().status());
  }
}

absl::Status GrpcJobClient::Checkpoint() {
  return MakeCheckpoint(/*best=*/false).status();
}

absl::StatusOr<std::string> GrpcJobClient::CheckpointBest() {
  OARLOCK_ASSIGN_OR_RETURN(const v1::CheckpointResponse made,
                           MakeCheckpoint(/*best=*/true));
  return made.directory();
}

absl::Status GrpcJobClient::ReportEvaluation(const v1::Evaluation& evaluation) {
  v1::ReportEvaluationRequest request;
  request.set_worker_index(worker_index_.value());
  request.set_worker_generation(generation_.value());
  *request.mutable_evaluation() = evaluation;
  v1::ReportEvaluationResponse response;
  return connections_->CallWithRetries(
      ServerIndex(0), [&](grpc::ClientContext* context) {
        return coordinator().ReportEvaluation(context, request, &response);
      });
}

absl::Status GrpcJobClient::StopTraining(const std::string& reason) {
  v1::StopTrainingRequest request;
  request.set_reason(reason);
  v1::StopTrainingResponse response;
  OARLOCK_RETURN_IF_ERROR(connections_->CallWithRetries(
      ServerIndex(0), [&](grpc::ClientContext* context) {
        return coordinator().StopTraining(context, request, &response);
      }));
  training_stopped_ = true;
  return absl::OkStatus();
}

absl::StatusOr<bool> GrpcJobClient::BeginEpoch(uint32_t epoch) {
  v1::BeginEpochRequest request;
  request.set_epoch(epoch);
  v1::BeginEpochResponse response;
  OARLOCK_RETURN_IF_ERROR(connections_->CallWithRetries(
      ServerIndex(0), [&](grpc::ClientContext* context) {
        return coordinator().BeginEpoch(context, request, &response);
      }));
  return response.begins();
}

absl::Status GrpcJobClient::RecordFile(const v1::TrainingFile& file) {
  v1::RecordFileRequest request;
  request.set_worker_index(worker_index_.value());
  request.set_worker_generation(generation_.value());
  *request.mutable_file() = file;
  v1::RecordFileResponse response;
  return connections_->CallWithRetries(
      ServerIndex(0), [&](grpc::ClientContext* context) {
        return coordinator().RecordFile(context, request, &response);
      });
}

absl::StatusOr<v1::ListFilesResponse> GrpcJobClient::ListFiles(
    uint32_t first_epoch) {
  v1::ListFilesRequest request;
  request.set_first_epoch(first_epoch);
  v1::ListFilesResponse response;
  OARLOCK_RETURN_IF_ERROR(connections_->CallWithRetries(
      ServerIndex(0), [&](grpc::ClientContext* context) {
        return coordinator().ListFiles(context, request, &response);
      }));
  return response;
}

}  // namespace oarlock::client
