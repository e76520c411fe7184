#include "tests/stress/faulty_proxy.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/synchronization/mutex.h"
#include "base/random.h"
#include "base/status_macros.h"
#include "cluster/retry.h"
#include "tests/stress/cutting_relay.h"
#include "tests/stress/delayed_calls.h"

namespace oarlock {
namespace {

constexpr char kDataPlane[] = "/oarlock.v1.ParameterService/";
constexpr uint64_t kRelaySeed = 1;
constexpr uint32_t kMaxPort = 65535;

using Metadata = std::vector<std::pair<std::string, std::string>>;

// Without what gRPC adds by itself.
Metadata Copy(const std::multimap<grpc::string_ref, grpc::string_ref>& all) {
  Metadata metadata;
  for (const auto& [key, value] : all) {
    const std::string name(key.data(), key.size());
    if (absl::StartsWith(name, ":") || absl::StartsWith(name, "grpc-") ||
        name == "user-agent" || name == "content-type" || name == "te") {
      continue;
    }
    metadata.emplace_back(name, std::string(value.data(), value.size()));
  }
  return metadata;
}

// A request as it came.
struct Message {
  std::string method;
  Metadata metadata;
  absl::Duration timeout;
  grpc::ByteBuffer bytes;
};

// One that was sent on.
struct Sent {
  grpc::ClientContext context;
  grpc::ByteBuffer request;
  grpc::ByteBuffer response;
};

}  // namespace

// Thread-safe. Every call that was begun is ended before this is destroyed.
class FaultyProxy::Impl : public grpc::CallbackGenericService {
 public:
  Impl(const FaultyProxyOptions& options, const Clock& clock)
      : options_(options),
        clock_(clock),
        delayed_(clock),
        random_(options.seed) {}
  ~Impl() override { Stop(); }

  absl::Status Start() {
    const std::string target =
        absl::StrCat("127.0.0.1:", options_.route.target_port);
    stub_ = std::make_unique<grpc::GenericStub>(
        grpc::CreateCustomChannel(target, grpc::InsecureChannelCredentials(),
                                  cluster::MakeChannelArguments()));
    grpc::ServerBuilder builder;
    cluster::ApplyServerArguments(&builder);
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                             &port);
    builder.RegisterCallbackGenericService(this);
    server_ = builder.BuildAndStart();
    if (server_ == nullptr) {
      return absl::UnavailableError("no port of 127.0.0.1 can be had");
    }
    CuttingRelayOptions relay;
    relay.port = options_.route.port;
    relay.target_port = static_cast<uint16_t>(port);
    relay.seed = DeriveSeed(options_.seed, kRelaySeed);
    relay.mean_cut_interval = options_.mean_cut_interval;
    OARLOCK_ASSIGN_OR_RETURN(relay_, CuttingRelay::Start(relay, clock_));
    return absl::OkStatus();
  }

  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override;

  uint16_t port() const { return relay_->port(); }
  FaultCounts counts() const {
    absl::MutexLock lock(&mutex_);
    FaultCounts counts = counts_;
    counts.cuts = relay_->num_cuts();
    counts.connections_cut = relay_->num_connections_cut();
    return counts;
  }

 private:
  class Call;
  using Answered = std::function<void(const grpc::Status&, Sent*)>;

  void Stop();
  // What is to happen to a call that has come, and its number.
  std::pair<FaultPlan, uint64_t> Plan(const std::string& method);
  void RecordForwarded(uint64_t number, const std::string& method, bool twice);
  // `answered` is called once, on any thread. The result, null when the proxy
  // is being stopped, may be cancelled.
  std::shared_ptr<Sent> Send(const Message& message, Answered answered);
  // Once more, later, for nobody.
  void SendLate(const Message& message, absl::Duration lateness);
  void CallEnded() {
    absl::MutexLock lock(&mutex_);
    --num_calls_;
  }

  const FaultyProxyOptions options_;
  const Clock& clock_;
  std::unique_ptr<grpc::GenericStub> stub_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<CuttingRelay> relay_;
  DelayedCalls delayed_;

  mutable absl::Mutex mutex_;
  RandomSequence random_ ABSL_GUARDED_BY(mutex_);
  FaultCounts counts_ ABSL_GUARDED_BY(mutex_);
  uint64_t highest_forwarded_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t late_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  int num_calls_ ABSL_GUARDED_BY(mutex_) = 0;
  std::set<std::shared_ptr<Sent>> sent_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
};

// One call of a client, until it is answered.
class FaultyProxy::Impl::Call : public grpc::ServerGenericBidiReactor {
 public:
  Call(Impl* proxy, grpc::GenericCallbackServerContext* context)
      : proxy_(proxy), context_(context) {
    StartRead(&message_.bytes);
  }

  void OnReadDone(bool ok) override {
    if (!ok) {
      return Finish(grpc::Status(grpc::StatusCode::CANCELLED,
                                 "the client has sent no request"));
    }
    message_.method = context_->method();
    message_.metadata = Copy(context_->client_metadata());
    message_.timeout = absl::FromChrono(context_->deadline()) -
                       absl::FromChrono(GrpcDeadline(absl::ZeroDuration()));
    std::tie(plan_, number_) = proxy_->Plan(message_.method);
    if (plan_.drop_request) return Finish(Lost("request"));
    proxy_->delayed_.After(plan_.request_delay, [this] { Forward(); });
  }

  // The client has gone; what it asked for may be done all the same.
  void OnCancel() override {
    std::shared_ptr<Sent> sent;
    {
      absl::MutexLock lock(&mutex_);
      cancelled_ = true;
      sent = sent_;
    }
    if (sent != nullptr) sent->context.TryCancel();
  }

  void OnDone() override {
    proxy_->CallEnded();
    delete this;
  }

 private:
  static grpc::Status Lost(const char* what) {
    return grpc::Status(grpc::StatusCode::UNAVAILABLE,
                        absl::StrCat("the network lost the ", what));
  }

  void Forward() {
    proxy_->RecordForwarded(number_, message_.method, plan_.twice);
    const auto answered = [this](const grpc::Status& status, Sent* sent) {
      OnResponse(status, sent);
    };
    const auto ignored = [](const grpc::Status&, Sent*) {};
    // This may be gone as soon as the response is there.
    Impl* const proxy = proxy_;
    const Message message = message_;
    const bool twice = plan_.twice;
    const bool second = twice && plan_.second_response;
    if (second) proxy->Send(message, ignored);
    {
      absl::MutexLock lock(&mutex_);
      forwarding_ = true;
    }
    const std::shared_ptr<Sent> sent = proxy->Send(message, answered);
    if (twice && !second) proxy->Send(message, ignored);
    Forwarded(sent);
  }

  // The call may be cancelled from now on, and answered.
  void Forwarded(std::shared_ptr<Sent> sent) {
    bool cancelled;
    bool answered;
    {
      absl::MutexLock lock(&mutex_);
      forwarding_ = false;
      sent_ = sent;
      cancelled = cancelled_;
      answered = answered_;
    }
    if (cancelled && sent != nullptr) sent->context.TryCancel();
    if (answered) Reply();
  }

  void OnResponse(const grpc::Status& status, Sent* sent) {
    status_ = status;
    if (sent != nullptr) {
      response_ = std::move(sent->response);
      initial_ = Copy(sent->context.GetServerInitialMetadata());
      trailing_ = Copy(sent->context.GetServerTrailingMetadata());
    }
    {
      absl::MutexLock lock(&mutex_);
      answered_ = true;
      if (forwarding_) return;
    }
    Reply();
  }

  void Reply() {
    if (plan_.late) proxy_->SendLate(message_, plan_.lateness);
    if (plan_.drop_response) return Finish(Lost("response"));
    proxy_->delayed_.After(plan_.response_delay, [this] {
      for (const auto& [key, value] : initial_) {
        context_->AddInitialMetadata(key, value);
      }
      for (const auto& [key, value] : trailing_) {
        context_->AddTrailingMetadata(key, value);
      }
      if (status_.ok()) {
        StartWriteAndFinish(&response_, grpc::WriteOptions(), status_);
      } else {
        Finish(status_);
      }
    });
  }

  Impl* const proxy_;
  grpc::GenericCallbackServerContext* const context_;
  Message message_;
  FaultPlan plan_;
  uint64_t number_ = 0;
  // Written by the response, read by the reply.
  grpc::Status status_;
  grpc::ByteBuffer response_;
  Metadata initial_;
  Metadata trailing_;

  absl::Mutex mutex_;
  bool forwarding_ ABSL_GUARDED_BY(mutex_) = false;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  bool answered_ ABSL_GUARDED_BY(mutex_) = false;
  std::shared_ptr<Sent> sent_ ABSL_GUARDED_BY(mutex_);
};

grpc::ServerGenericBidiReactor* FaultyProxy::Impl::CreateReactor(
    grpc::GenericCallbackServerContext* context) {
  {
    absl::MutexLock lock(&mutex_);
    ++num_calls_;
  }
  return new Call(this, context);
}

std::pair<FaultPlan, uint64_t> FaultyProxy::Impl::Plan(
    const std::string& method) {
  absl::MutexLock lock(&mutex_);
  const FaultPlan plan = DrawFaultPlan(
      absl::StartsWith(method, kDataPlane) ? options_.data : options_.control,
      &random_);
  if (plan.drop_request) {
    ++counts_.dropped_requests;
  } else {
    counts_.delayed_requests += plan.request_delay > absl::ZeroDuration();
    counts_.dropped_responses += plan.drop_response;
    counts_.delayed_responses +=
        !plan.drop_response && plan.response_delay > absl::ZeroDuration();
  }
  return {plan, ++counts_.calls};
}

void FaultyProxy::Impl::RecordForwarded(uint64_t number,
                                        const std::string& method, bool twice) {
  absl::MutexLock lock(&mutex_);
  counts_.overtaken_requests += number < highest_forwarded_;
  highest_forwarded_ = std::max(highest_forwarded_, number);
  if (!twice) return;
  ++counts_.duplicates_now;
  ++counts_.duplicates[method.substr(method.rfind('/') + 1)];
}

std::shared_ptr<Sent> FaultyProxy::Impl::Send(const Message& message,
                                              Answered answered) {
  auto sent = std::make_shared<Sent>();
  sent->request = message.bytes;
  for (const auto& [key, value] : message.metadata) {
    sent->context.AddMetadata(key, value);
  }
  sent->context.set_deadline(GrpcDeadline(message.timeout));
  bool stopping;
  {
    absl::MutexLock lock(&mutex_);
    stopping = stopping_;
    if (!stopping) sent_.insert(sent);
  }
  if (stopping) {
    answered(grpc::Status(grpc::StatusCode::UNAVAILABLE, "the proxy ends"),
             nullptr);
    return nullptr;
  }
  stub_->UnaryCall(
      &sent->context, message.method, grpc::StubOptions(), &sent->request,
      &sent->response,
      [this, sent, answered = std::move(answered)](const grpc::Status& status) {
        answered(status, sent.get());
        absl::MutexLock lock(&mutex_);
        sent_.erase(sent);
      });
  return sent;
}

void FaultyProxy::Impl::SendLate(const Message& message,
                                 absl::Duration lateness) {
  const size_t num_bytes = message.bytes.Length();
  {
    absl::MutexLock lock(&mutex_);
    if (stopping_ || late_bytes_ + num_bytes > kMaxLateBytes) return;
    late_bytes_ += num_bytes;
  }
  delayed_.After(lateness, [this, message, num_bytes] {
    {
      absl::MutexLock lock(&mutex_);
      late_bytes_ -= num_bytes;
      if (stopping_) return;
      ++counts_.duplicates_late;
      ++counts_
            .duplicates[message.method.substr(message.method.rfind('/') + 1)];
    }
    Send(message, [](const grpc::Status&, Sent*) {});
  });
}

void FaultyProxy::Impl::Stop() {
  relay_.reset();
  std::set<std::shared_ptr<Sent>> sent;
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
    sent = sent_;
  }
  for (const std::shared_ptr<Sent>& one : sent) one->context.TryCancel();
  delayed_.Stop();
  if (server_ != nullptr) {
    server_->Shutdown(GrpcDeadline(absl::ZeroDuration()));
  }
  absl::MutexLock lock(&mutex_);
  const auto over = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return num_calls_ == 0 && sent_.empty();
  };
  mutex_.Await(absl::Condition(&over));
}

absl::StatusOr<std::vector<FaultyRoute>> ParseFaultyRoutes(
    absl::string_view text) {
  std::vector<FaultyRoute> routes;
  for (const absl::string_view route : absl::StrSplit(text, ',')) {
    const std::vector<absl::string_view> ports = absl::StrSplit(route, '=');
    uint32_t port = 0;
    uint32_t target = 0;
    if (ports.size() != 2 || !absl::SimpleAtoi(ports[0], &port) ||
        !absl::SimpleAtoi(ports[1], &target) || port > kMaxPort ||
        target > kMaxPort) {
      return absl::InvalidArgumentError(absl::StrCat(
          "route is '", route, "'; legal is PORT=PORT, say 6000=6174"));
    }
    routes.push_back(
        {static_cast<uint16_t>(port), static_cast<uint16_t>(target)});
  }
  return routes;
}

absl::StatusOr<std::unique_ptr<FaultyProxy>> FaultyProxy::Start(
    const FaultyProxyOptions& options, const Clock& clock) {
  auto impl = std::make_unique<Impl>(options, clock);
  OARLOCK_RETURN_IF_ERROR(impl->Start());
  return std::unique_ptr<FaultyProxy>(new FaultyProxy(std::move(impl)));
}

FaultyProxy::FaultyProxy(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

FaultyProxy::~FaultyProxy() = default;

uint16_t FaultyProxy::port() const { return impl_->port(); }

FaultCounts FaultyProxy::counts() const { return impl_->counts(); }

}  // namespace oarlock
