#include "launch/meeting_server.h"

#include <grpcpp/server_builder.h>

#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/listen_check.h"
#include "base/status_macros.h"
#include "cluster/retry.h"

namespace oarlock {
namespace {

// For answers that are under way when the server ends.
constexpr absl::Duration kLastAnswers = absl::Milliseconds(500);

}  // namespace

grpc::Status MeetingServer::Service::Report(grpc::ServerContext* context,
                                            const v1::NodeReport* report,
                                            v1::MeetingAnswer* answer) {
  if (absl::Status status = CheckToken(*context, token_); !status.ok()) {
    return ToGrpc(status);
  }
  absl::StatusOr<v1::MeetingAnswer> result = meeting_->Report(*report);
  if (!result.ok()) return ToGrpc(result.status());
  *answer = *std::move(result);
  return grpc::Status::OK;
}

MeetingServer::MeetingServer(const Meeting::Options& options, std::string token)
    : silence_timeout_(options.silence_timeout),
      meeting_(options),
      service_(&meeting_, std::move(token)) {}

absl::StatusOr<std::unique_ptr<MeetingServer>> MeetingServer::Start(
    Meeting::Options options, const SecurityOptions& security) {
  const std::string endpoint = options.endpoint;
  OARLOCK_RETURN_IF_ERROR(CheckServable(endpoint, security));
  OARLOCK_ASSIGN_OR_RETURN(auto credentials, MakeServerCredentials(security));
  OARLOCK_ASSIGN_OR_RETURN(std::string token, ReadToken(security));
  const auto cannot_listen = [&](absl::string_view why) {
    return absl::FailedPreconditionError(absl::StrCat(
        "node 0 cannot let the others meet at --master ", endpoint, ": ", why));
  };
  if (absl::Status status = CheckCanListen(endpoint); !status.ok()) {
    return cannot_listen(status.message());
  }
  auto self = absl::WrapUnique(new MeetingServer(options, std::move(token)));
  grpc::ServerBuilder builder;
  ApplyServerArguments(&builder);
  int port = 0;
  builder.AddListeningPort(endpoint, std::move(credentials), &port);
  builder.RegisterService(&self->service_);
  self->server_ = builder.BuildAndStart();
  if (self->server_ == nullptr || port == 0) {
    return cannot_listen("gRPC's lines above say why");
  }
  self->ticker_ = std::thread([raw = self.get()] { raw->Tick(); });
  return self;
}

void MeetingServer::Tick() {
  const absl::Duration tick = silence_timeout_ / kReportsPerSilence;
  absl::MutexLock lock(&mutex_);
  while (!mutex_.AwaitWithTimeout(absl::Condition(&closing_), tick)) {
    mutex_.Unlock();
    meeting_.Tick();
    mutex_.Lock();
  }
}

MeetingServer::~MeetingServer() {
  if (server_ == nullptr) return;
  meeting_.AwaitAllTold(silence_timeout_);
  {
    absl::MutexLock lock(&mutex_);
    closing_ = true;
  }
  ticker_.join();
  server_->Shutdown(absl::ToChronoTime(Clock::Real().Now() + kLastAnswers));
}

}  // namespace oarlock
