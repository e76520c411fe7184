#include "launch/meeting_server.h"

#include <utility>

#include "absl/memory/memory.h"
#include "base/status_macros.h"
#include "cluster/retry.h"
#include "cluster/serve.h"

namespace oarlock::launch {
namespace {

// For answers that are under way when the server ends.
constexpr absl::Duration kLastAnswers = absl::Milliseconds(500);

}  // namespace

grpc::Status MeetingServer::Service::Report(grpc::ServerContext* context,
                                            const v1::NodeReport* report,
                                            v1::MeetingAnswer* answer) {
  if (absl::Status status = cluster::CheckToken(*context, token_);
      !status.ok()) {
    return cluster::ToGrpc(status);
  }
  absl::StatusOr<v1::MeetingAnswer> result = meeting_->Report(*report);
  if (!result.ok()) return cluster::ToGrpc(result.status());
  *answer = *std::move(result);
  return grpc::Status::OK;
}

MeetingServer::MeetingServer(const Meeting::Options& options, std::string token,
                             const Clock& clock)
    : silence_timeout_(options.silence_timeout),
      meeting_(options, clock),
      service_(&meeting_, std::move(token)) {}

absl::StatusOr<std::unique_ptr<MeetingServer>> MeetingServer::Start(
    Meeting::Options options, const cluster::SecurityOptions& security,
    const Clock& clock) {
  OARLOCK_ASSIGN_OR_RETURN(std::string token, cluster::ReadToken(security));
  auto self =
      absl::WrapUnique(new MeetingServer(options, std::move(token), clock));
  OARLOCK_ASSIGN_OR_RETURN(
      self->server_,
      cluster::Serve(options.endpoint, security,
                     "node 0 cannot let the others meet at --master",
                     &self->service_));
  self->ticker_.emplace(clock, options.silence_timeout / kReportsPerSilence,
                        [meeting = &self->meeting_] { meeting->Tick(); });
  return self;
}

MeetingServer::~MeetingServer() {
  if (server_ == nullptr) return;
  meeting_.AwaitAllTold(silence_timeout_);
  ticker_.reset();
  server_->Shutdown(GrpcDeadline(kLastAnswers));
}

}  // namespace oarlock::launch
