#include "tests/stress/faulty_proxy.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "cluster/retry.h"
#include "tests/base/eventually.h"

namespace oarlock {
namespace {

constexpr absl::Duration kDeadline = absl::Seconds(30);
constexpr char kData[] = "/oarlock.v1.ParameterService/PushSparse";
constexpr char kControl[] = "/oarlock.v1.CoordinatorService/Heartbeat";

std::string TextOf(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  EXPECT_TRUE(buffer.Dump(&slices).ok());
  std::string text;
  for (const grpc::Slice& slice : slices) {
    text.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return text;
}

grpc::ByteBuffer BytesOf(const std::string& text) {
  const grpc::Slice slice(text);
  return grpc::ByteBuffer(&slice, 1);
}

// Answers every request with itself, or with what its "refuse" header says, and
// keeps what it got.
class EchoServer : public grpc::CallbackGenericService {
 public:
  struct Request {
    std::string method;
    std::string text;
    std::string token;
    absl::Time deadline;
  };

  EchoServer() {
    grpc::ServerBuilder builder;
    cluster::ApplyServerArguments(&builder);
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                             &port_);
    builder.RegisterCallbackGenericService(this);
    server_ = builder.BuildAndStart();
  }
  ~EchoServer() override { server_->Shutdown(); }

  uint16_t port() const { return static_cast<uint16_t>(port_); }
  std::vector<Request> requests() {
    absl::MutexLock lock(&mutex_);
    return requests_;
  }
  // Whether so many come.
  bool Await(size_t count) {
    return Eventually([&] { return requests().size() >= count; });
  }

  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override {
    return new Echo(this, context);
  }

 private:
  class Echo : public grpc::ServerGenericBidiReactor {
   public:
    Echo(EchoServer* server, grpc::GenericCallbackServerContext* context)
        : server_(server), context_(context) {
      StartRead(&bytes_);
    }
    void OnReadDone(bool ok) override {
      if (!ok) return Finish(grpc::Status::CANCELLED);
      server_->RecordRequest({context_->method(), TextOf(bytes_),
                              Header("oarlock-token"),
                              absl::FromChrono(context_->deadline())});
      context_->AddTrailingMetadata("tail", "t");
      if (const std::string why = Header("refuse"); !why.empty()) {
        return Finish(grpc::Status(grpc::StatusCode::FAILED_PRECONDITION, why,
                                   "details"));
      }
      StartWriteAndFinish(&bytes_, grpc::WriteOptions(), grpc::Status::OK);
    }
    void OnDone() override { delete this; }

   private:
    std::string Header(const std::string& name) const {
      const auto found = context_->client_metadata().find(name);
      if (found == context_->client_metadata().end()) return "";
      return std::string(found->second.data(), found->second.size());
    }
    EchoServer* const server_;
    grpc::GenericCallbackServerContext* const context_;
    grpc::ByteBuffer bytes_;
  };

  void RecordRequest(Request request) {
    absl::MutexLock lock(&mutex_);
    requests_.push_back(std::move(request));
  }

  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
  absl::Mutex mutex_;
  std::vector<Request> requests_ ABSL_GUARDED_BY(mutex_);
};

class FaultyProxyTest : public ::testing::Test {
 protected:
  struct Response {
    grpc::Status status;
    std::string text;
    std::string tail;
  };

  void StartProxy(const std::string& data, const std::string& control = "",
                  absl::Duration cut_interval = absl::InfiniteDuration()) {
    FaultyProxyOptions options;
    options.route.target_port = echo_.port();
    options.seed = 7;
    options.data = *ParseFaultRates(data);
    options.control = *ParseFaultRates(control);
    options.mean_cut_interval = cut_interval;
    proxy_ = *FaultyProxy::Start(options, clock_);
    stub_ = std::make_unique<grpc::GenericStub>(grpc::CreateCustomChannel(
        absl::StrCat("127.0.0.1:", proxy_->port()),
        grpc::InsecureChannelCredentials(), cluster::MakeChannelArguments()));
  }

  Response Call(const std::string& text, const char* method = kData,
                const std::string& refuse = "", bool wait = true) {
    grpc::ClientContext context;
    context.set_wait_for_ready(wait);
    context.set_deadline(GrpcDeadline(kDeadline));
    context.AddMetadata("oarlock-token", "secret");
    if (!refuse.empty()) context.AddMetadata("refuse", refuse);
    const grpc::ByteBuffer request = BytesOf(text);
    grpc::ByteBuffer received;
    Response response;
    // Not absl::Notification, whose short way tsan does not see.
    std::promise<grpc::Status> done;
    stub_->UnaryCall(
        &context, method, grpc::StubOptions(), &request, &received,
        [&](grpc::Status status) { done.set_value(std::move(status)); });
    response.status = done.get_future().get();
    if (response.status.ok()) response.text = TextOf(received);
    const auto tail = context.GetServerTrailingMetadata().find("tail");
    if (tail != context.GetServerTrailingMetadata().end()) {
      response.tail = std::string(tail->second.data(), tail->second.size());
    }
    return response;
  }

  FakeClock clock_;
  EchoServer echo_;
  std::unique_ptr<FaultyProxy> proxy_;
  std::unique_ptr<grpc::GenericStub> stub_;
};

TEST_F(FaultyProxyTest, WithoutFaultsEverythingIsForwarded) {
  StartProxy("");
  const std::string text(3 << 20, 'x');
  const auto begun = GrpcDeadline(absl::ZeroDuration());
  const Response response = Call(text);
  EXPECT_TRUE(response.status.ok()) << response.status.error_message();
  EXPECT_EQ(response.text, text);
  EXPECT_EQ(response.tail, "t");
  const std::vector<EchoServer::Request> requests = echo_.requests();
  ASSERT_EQ(requests.size(), 1u);
  EXPECT_EQ(requests[0].method, kData);
  EXPECT_EQ(requests[0].token, "secret");
  EXPECT_GT(requests[0].deadline, absl::FromChrono(begun));
  EXPECT_LE(requests[0].deadline, absl::FromChrono(GrpcDeadline(kDeadline)));

  const Response refused = Call("a", kData, "not so");
  EXPECT_EQ(refused.status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(refused.status.error_message(), "not so");
  EXPECT_EQ(refused.tail, "t");
}

TEST_F(FaultyProxyTest, DroppedRequestDoesNotArriveAndDroppedResponseDoes) {
  StartProxy("drop_request=1", "drop_response=1");
  EXPECT_EQ(Call("a").status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(Call("b", kControl).status.error_code(),
            grpc::StatusCode::UNAVAILABLE);
  const std::vector<EchoServer::Request> requests = echo_.requests();
  ASSERT_EQ(requests.size(), 1u);
  EXPECT_EQ(requests[0].text, "b");
  const FaultCounts counts = proxy_->counts();
  EXPECT_EQ(counts.calls, 2u);
  EXPECT_EQ(counts.dropped_requests, 1u);
  EXPECT_EQ(counts.dropped_responses, 1u);
}

TEST_F(FaultyProxyTest, DuplicatesArriveTwiceAtOnceOrAfterTheResponse) {
  StartProxy("duplicate_now=1", "duplicate_late=1");
  EXPECT_EQ(Call("a").text, "a");
  EXPECT_TRUE(echo_.Await(2));
  EXPECT_EQ(Call("b", kControl).text, "b");
  EXPECT_TRUE(clock_.AwaitWaiters(1));
  EXPECT_EQ(echo_.requests().size(), 3u);
  clock_.Advance(kMaxLateness);
  EXPECT_TRUE(echo_.Await(4));
  const std::vector<EchoServer::Request> requests = echo_.requests();
  EXPECT_EQ(requests[1].text, "a");
  EXPECT_EQ(requests[3].text, "b");
  EXPECT_EQ(requests[3].token, "secret");
  const FaultCounts counts = proxy_->counts();
  EXPECT_EQ(counts.duplicates_now, 1u);
  EXPECT_EQ(counts.duplicates_late, 1u);
  EXPECT_EQ(counts.duplicates.at("PushSparse"), 1u);
  EXPECT_EQ(counts.duplicates.at("Heartbeat"), 1u);
}

TEST_F(FaultyProxyTest, DelayedRequestsOvertakeOneAnother) {
  StartProxy("delay=1");
  constexpr int kCalls = 20;
  std::atomic<int> answered = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < kCalls; ++i) {
    threads.emplace_back([&, i] {
      EXPECT_EQ(Call(absl::StrCat(i)).text, absl::StrCat(i));
      ++answered;
    });
  }
  // All are drawn while time stands still.
  EXPECT_TRUE(Eventually([&] { return proxy_->counts().calls == kCalls; }));
  EXPECT_TRUE(Eventually([&] {
    clock_.Advance(kMaxFaultDelay / 100);
    return answered == kCalls;
  }));
  for (std::thread& thread : threads) thread.join();
  const FaultCounts counts = proxy_->counts();
  EXPECT_EQ(counts.delayed_requests, static_cast<uint64_t>(kCalls));
  EXPECT_EQ(counts.delayed_responses, static_cast<uint64_t>(kCalls));
  EXPECT_GT(counts.overtaken_requests, 0u);
}

TEST_F(FaultyProxyTest, CutConnectionsFailTheCallsOnThemAndComeBack) {
  constexpr absl::Duration kInterval = absl::Milliseconds(100);
  StartProxy("", "", kInterval);
  const std::string text(1 << 20, 'x');
  int failed = 0;
  for (int turn = 0; failed < 3 && turn < 100; ++turn) {
    const uint64_t cuts = proxy_->counts().cuts;
    // gRPC may notice late that the connection is gone.
    Response whole;
    EXPECT_TRUE(Eventually([&] {
      whole = Call(text);
      return whole.status.ok();
    })) << whole.status.error_message();
    EXPECT_EQ(whole.text, text);
    // No cut while time stands still.
    EXPECT_EQ(proxy_->counts().cuts, cuts);

    clock_.Advance(1000 * kInterval);
    // What gRPC says between two calls may be what is cut.
    const Response response = Call(text);
    EXPECT_EQ(proxy_->counts().cuts, cuts + 1);
    if (response.status.ok()) continue;
    EXPECT_EQ(response.status.error_code(), grpc::StatusCode::UNAVAILABLE)
        << response.status.error_message();
    ++failed;
  }
  EXPECT_EQ(failed, 3);
  EXPECT_GE(proxy_->counts().connections_cut, proxy_->counts().cuts);
}

TEST_F(FaultyProxyTest, EndsWhileCallsWait) {
  StartProxy("delay=1,duplicate=1");
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([this] { Call("a", kData, "", /*wait=*/false); });
  }
  EXPECT_TRUE(Eventually([&] {
    clock_.Advance(kMaxFaultDelay / 100);
    return echo_.requests().size() >= 2;
  }));
  proxy_.reset();
  for (std::thread& thread : threads) thread.join();
}

TEST(FaultRatesTest, RatesAreNamedAndBounded) {
  const FaultRates rates = *ParseFaultRates("drop=.25,duplicate_late=1");
  EXPECT_EQ(rates.drop_request, .25);
  EXPECT_EQ(rates.drop_response, .25);
  EXPECT_EQ(rates.duplicate_late, 1);
  EXPECT_EQ(rates.duplicate_now, 0);
  for (const char* text :
       {"drop", "drop=", "drop=2", "drop=-1", "drop=nan", "lose=.1", "=.1"}) {
    EXPECT_EQ(ParseFaultRates(text).status().code(),
              absl::StatusCode::kInvalidArgument)
        << text;
  }
}

TEST(FaultyRoutesTest, RoutesAreTwoPorts) {
  const std::vector<FaultyRoute> routes = *ParseFaultyRoutes("1=2,65535=3");
  ASSERT_EQ(routes.size(), 2u);
  EXPECT_EQ(routes[1].port, 65535);
  EXPECT_EQ(routes[1].target_port, 3);
  for (const char* text : {"", "1", "1=", "1=2=3", "1=65536", "1=2,"}) {
    EXPECT_EQ(ParseFaultyRoutes(text).status().code(),
              absl::StatusCode::kInvalidArgument)
        << text;
  }
}

}  // namespace
}  // namespace oarlock
