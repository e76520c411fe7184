#include "collective/rendezvous_server.h"

#include <grpcpp/server_builder.h>

#include <chrono>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "base/listen_check.h"
#include "base/status_macros.h"
#include "cluster/retry.h"

namespace oarlock {
namespace {

class StreamSeat : public Seat {
 public:
  using Stream = grpc::ServerReaderWriter<v1::GroupMessage, v1::MemberMessage>;

  StreamSeat(grpc::ServerContext* context, Stream* stream)
      : context_(context), stream_(stream) {}

  // Some bytes a second to a rank that is dropped when it has been silent for
  // `silence_timeout`: they always fit into the connection's buffers.
  void Send(const v1::GroupMessage& message) override {
    absl::MutexLock lock(&mutex_);
    stream_->Write(message);
  }
  void Close() override { context_->TryCancel(); }

 private:
  grpc::ServerContext* const context_;
  absl::Mutex mutex_;
  Stream* const stream_;
};

}  // namespace

grpc::Status RendezvousServer::Service::Join(
    grpc::ServerContext* context,
    grpc::ServerReaderWriter<v1::GroupMessage, v1::MemberMessage>* stream) {
  if (absl::Status status = CheckToken(*context, token_); !status.ok()) {
    return ToGrpc(status);
  }
  v1::MemberMessage message;
  if (!stream->Read(&message) || !message.has_hello()) {
    return ToGrpc(absl::InvalidArgumentError(
        "a stream of Join has to begin with a JoinHello"));
  }
  StreamSeat seat(context, stream);
  const int rank = static_cast<int>(message.hello().rank());
  absl::Status status = roster_->Enter(message.hello(), &seat);
  if (!status.ok()) return ToGrpc(status);
  while (stream->Read(&message)) roster_->OnMessage(rank, &seat, message);
  roster_->Closed(rank, &seat);
  return grpc::Status::OK;
}

RendezvousServer::RendezvousServer(Roster::Options options, std::string token)
    : tick_(options.silence_timeout / kSignsPerSilence),
      roster_(std::move(options)),
      service_(&roster_, std::move(token)) {}

absl::StatusOr<std::unique_ptr<RendezvousServer>> RendezvousServer::Start(
    Roster::Options options, const SecurityOptions& security) {
  const std::string endpoint = options.endpoints[0];
  OARLOCK_RETURN_IF_ERROR(CheckServable(endpoint, security));
  OARLOCK_ASSIGN_OR_RETURN(auto credentials, MakeServerCredentials(security));
  OARLOCK_ASSIGN_OR_RETURN(std::string token, ReadToken(security));
  const auto cannot_listen = [&](absl::string_view why) {
    return absl::FailedPreconditionError(absl::StrCat(
        "rank 0 cannot serve the rendezvous at ", endpoint, ": ", why));
  };
  if (absl::Status status = CheckCanListen(endpoint); !status.ok()) {
    return cannot_listen(status.message());
  }
  auto self = absl::WrapUnique(
      new RendezvousServer(std::move(options), std::move(token)));
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

void RendezvousServer::Tick() {
  absl::MutexLock lock(&mutex_);
  while (!mutex_.AwaitWithTimeout(absl::Condition(&closing_), tick_)) {
    mutex_.Unlock();
    roster_.Tick();
    mutex_.Lock();
  }
}

RendezvousServer::~RendezvousServer() {
  if (server_ == nullptr) return;
  roster_.AwaitEmpty(kGoodbye);
  {
    absl::MutexLock lock(&mutex_);
    closing_ = true;
  }
  ticker_.join();
  // A deadline that is long over: ends the calls that are still there.
  server_->Shutdown(std::chrono::system_clock::time_point());
}

}  // namespace oarlock
