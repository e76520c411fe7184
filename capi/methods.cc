#include "capi/methods.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "capi/json.h"
#include "proto/v1/coordinator_job.pb.h"
#include "proto/v1/coordinator_training.pb.h"
#include "proto/v1/server_admin_tables.pb.h"

namespace oarlock::capi {
namespace {

namespace pb = google::protobuf;

// These take as long as they take.
constexpr absl::Duration kLongTimeout = absl::Hours(1);

struct Method {
  const char* name;
  const pb::Message* request;
  const pb::Message* response;
  absl::Duration attempt_timeout = absl::ZeroDuration();
};

template <typename Request, typename Response>
Method Of(const char* name,
          absl::Duration attempt_timeout = absl::ZeroDuration()) {
  return {name, &Request::default_instance(), &Response::default_instance(),
          attempt_timeout};
}

// Those that the session does not do by itself.
const std::vector<Method>& Methods() {
  static const auto* const methods = new std::vector<Method>{
      Of<v1::JobStatusRequest, v1::JobStatusResponse>(
          "CoordinatorService/GetJobStatus"),
      Of<v1::CheckpointRequest, v1::CheckpointResponse>(
          "CoordinatorService/Checkpoint", kLongTimeout),
      Of<v1::ReportEvaluationRequest, v1::ReportEvaluationResponse>(
          "CoordinatorService/ReportEvaluation"),
      Of<v1::StopTrainingRequest, v1::StopTrainingResponse>(
          "CoordinatorService/StopTraining"),
      Of<v1::BeginEpochRequest, v1::BeginEpochResponse>(
          "CoordinatorService/BeginEpoch"),
      Of<v1::RecordFileRequest, v1::RecordFileResponse>(
          "CoordinatorService/RecordFile"),
      Of<v1::ListFilesRequest, v1::ListFilesResponse>(
          "CoordinatorService/ListFiles"),
      Of<v1::DrainRequest, v1::DrainResponse>("CoordinatorService/Drain"),
      Of<v1::ServerStatusRequest, v1::ServerStatusResponse>(
          "ServerAdminService/GetServerStatus"),
      Of<v1::HotKeysRequest, v1::HotKeysResponse>(
          "ServerAdminService/GetHotKeys"),
      Of<v1::EvictRequest, v1::EvictResponse>("ServerAdminService/Evict",
                                              kLongTimeout),
      Of<v1::ListChangesRequest, v1::ListChangesResponse>(
          "ServerAdminService/ListChanges"),
  };
  return *methods;
}

void SetWorker(const Session& session, pb::Message* request) {
  const pb::Reflection* const reflection = request->GetReflection();
  const pb::Descriptor* const type = request->GetDescriptor();
  if (const auto* index = type->FindFieldByName("worker_index")) {
    reflection->SetUInt32(request, index, session.worker_index());
  }
  if (const auto* generation = type->FindFieldByName("worker_generation")) {
    reflection->SetUInt64(request, generation, session.worker_generation());
  }
}

}  // namespace

absl::Status CallMethod(Session* session, uint32_t server,
                        const std::string& method, const std::string& request,
                        Session::OperationPtr operation) {
  const auto found =
      std::find_if(Methods().begin(), Methods().end(),
                   [&](const Method& each) { return method == each.name; });
  if (found == Methods().end()) {
    std::string names;
    for (const Method& each : Methods()) {
      absl::StrAppend(&names, names.empty() ? "" : ", ", each.name);
    }
    return absl::InvalidArgumentError(
        absl::StrCat("no method '", method, "'; legal are ", names));
  }
  if (server >= session->num_servers()) {
    return absl::InvalidArgumentError(
        absl::StrCat("server ", server, ", but the job has ",
                     session->num_servers(), " servers, numbered from 0"));
  }
  const std::unique_ptr<pb::Message> message(found->request->New());
  OARLOCK_RETURN_IF_ERROR(
      FromJson(request.empty() ? "{}" : request, "the request", message.get()));
  SetWorker(*session, message.get());
  return session->Call(
      ServerIndex(server), absl::StrCat("/oarlock.v1.", method),
      message->SerializeAsString(), found->attempt_timeout,
      [type = found->response](
          const std::string& bytes) -> absl::StatusOr<std::string> {
        const std::unique_ptr<pb::Message> response(type->New());
        if (!response->ParseFromString(bytes)) {
          return absl::InternalError("a response cannot be read");
        }
        return ToJson(*response);
      },
      std::move(operation));
}

}  // namespace oarlock::capi
