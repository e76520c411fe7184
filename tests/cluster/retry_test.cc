#include "cluster/retry.h"

#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/server.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <future>
#include <limits>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "wire/wire_limits.h"

namespace oarlock::cluster {
namespace {

using ::testing::HasSubstr;

TEST(RetryOptionsTest, DefaultsAreLegalAndEachBadFieldIsNamed) {
  EXPECT_TRUE(RetryOptions().Validate().ok());
  struct Case {
    const char* field;
    void (*spoil)(RetryOptions*);
  };
  const Case kCases[] = {
      {"initial_backoff",
       [](RetryOptions* o) { o->initial_backoff = absl::Microseconds(999); }},
      {"multiplier", [](RetryOptions* o) { o->multiplier = 0.99; }},
      {"multiplier", [](RetryOptions* o) { o->multiplier = 11; }},
      {"multiplier",
       [](RetryOptions* o) {
         o->multiplier = std::numeric_limits<double>::quiet_NaN();
       }},
      {"max_backoff",
       [](RetryOptions* o) { o->max_backoff = absl::Milliseconds(19); }},
      {"max_backoff",
       [](RetryOptions* o) { o->max_backoff = absl::InfiniteDuration(); }},
      {"jitter", [](RetryOptions* o) { o->jitter = 1; }},
      {"jitter", [](RetryOptions* o) { o->jitter = -0.1; }},
      {"total_deadline",
       [](RetryOptions* o) { o->total_deadline = absl::ZeroDuration(); }},
      {"total_deadline",
       [](RetryOptions* o) { o->total_deadline = absl::InfiniteDuration(); }},
  };
  for (const Case& c : kCases) {
    RetryOptions options;
    c.spoil(&options);
    const absl::Status status = options.Validate();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()),
                HasSubstr(absl::StrCat("RetryOptions.", c.field, " is ")));
  }
}

TEST(BackoffTest, WaitsGrowByTheMultiplierUpToTheLimit) {
  RetryOptions options;
  options.jitter = 0;
  Backoff backoff(options, 1);
  absl::Duration expected = absl::Milliseconds(20);
  for (int i = 0; i < 30; ++i) {
    EXPECT_LT(absl::AbsDuration(backoff.Next() - expected),
              absl::Microseconds(1));
    expected = std::min(expected * 1.6, absl::Seconds(1));
  }
  backoff.Reset();
  EXPECT_EQ(backoff.Next(), absl::Milliseconds(20));
}

TEST(BackoffTest, JitterStaysInItsRangeAndUsesIt) {
  RetryOptions options;
  options.multiplier = 1;
  options.initial_backoff = options.max_backoff = absl::Milliseconds(100);
  Backoff backoff(options, 3);
  absl::Duration least = absl::InfiniteDuration(), most;
  for (int i = 0; i < 2000; ++i) {
    const absl::Duration wait = backoff.Next();
    least = std::min(least, wait);
    most = std::max(most, wait);
  }
  EXPECT_GE(least, absl::Milliseconds(80));
  EXPECT_LT(least, absl::Milliseconds(81));
  EXPECT_LT(most, absl::Milliseconds(120));
  EXPECT_GT(most, absl::Milliseconds(119));
}

TEST(BackoffTest, TheSameSeedWaitsTheSameAndAnotherDoesNot) {
  Backoff a((RetryOptions()), 1), b((RetryOptions()), 1),
      c((RetryOptions()), 2);
  int different = 0;
  for (int i = 0; i < 10; ++i) {
    const absl::Duration wait = a.Next();
    EXPECT_EQ(wait, b.Next());
    different += wait != c.Next();
  }
  EXPECT_GE(different, 9);
}

TEST(RetryAdviceTest, EachCodeSaysWhoShouldRetry) {
  using Code = absl::StatusCode;
  EXPECT_EQ(AdviceFor(Code::kInvalidArgument), RetryAdvice::kNever);
  EXPECT_EQ(AdviceFor(Code::kNotFound), RetryAdvice::kNever);
  EXPECT_EQ(AdviceFor(Code::kAlreadyExists), RetryAdvice::kNever);
  EXPECT_EQ(AdviceFor(Code::kDataLoss), RetryAdvice::kNever);
  EXPECT_EQ(AdviceFor(Code::kUnauthenticated), RetryAdvice::kNever);
  EXPECT_EQ(AdviceFor(Code::kInternal), RetryAdvice::kNever);
  EXPECT_EQ(AdviceFor(Code::kUnimplemented), RetryAdvice::kNever);
  EXPECT_EQ(AdviceFor(Code::kOutOfRange), RetryAdvice::kNever);
  EXPECT_EQ(AdviceFor(Code::kFailedPrecondition), RetryAdvice::kAfterFix);
  EXPECT_EQ(AdviceFor(Code::kAborted), RetryAdvice::kRegisterAnew);
  EXPECT_EQ(AdviceFor(Code::kUnavailable), RetryAdvice::kSameCall);
  EXPECT_EQ(AdviceFor(Code::kDeadlineExceeded), RetryAdvice::kSameCall);
  EXPECT_EQ(AdviceFor(Code::kCancelled), RetryAdvice::kSameCall);
  EXPECT_EQ(AdviceFor(Code::kResourceExhausted), RetryAdvice::kSameCallSlower);
}

TEST(GrpcStatusTest, EveryCodeAndItsMessageGoThereAndBack) {
  for (int code = 0; code <= 16; ++code) {
    const absl::Status status(static_cast<absl::StatusCode>(code), "why");
    EXPECT_EQ(FromGrpc(ToGrpc(status)), status);
    EXPECT_EQ(static_cast<int>(ToGrpc(status).error_code()), code);
  }
  EXPECT_EQ(FromGrpc(grpc::Status(grpc::ABORTED, "fenced")),
            absl::AbortedError("fenced"));
}

// A server that answers every call of any method with the same bytes, or with
// nothing at all while `silent`.
class EchoServer {
 public:
  explicit EchoServer(bool silent, int port = 0) {
    grpc::ServerBuilder builder;
    ApplyServerArguments(&builder);
    builder.AddListeningPort(absl::StrCat("127.0.0.1:", port),
                             grpc::InsecureServerCredentials(), &port_);
    builder.RegisterCallbackGenericService(&service_);
    service_.silent = silent;
    server_ = builder.BuildAndStart();
  }
  ~EchoServer() {
    if (server_ != nullptr)
      server_->Shutdown(GrpcDeadline(absl::ZeroDuration()));
  }
  bool started() const { return server_ != nullptr && port_ != 0; }
  int port() const { return port_; }
  std::shared_ptr<grpc::Channel> Connect() const {
    return grpc::CreateCustomChannel(absl::StrCat("127.0.0.1:", port_),
                                     grpc::InsecureChannelCredentials(),
                                     MakeChannelArguments());
  }

 private:
  class Reactor : public grpc::ServerGenericBidiReactor {
   public:
    explicit Reactor(bool silent) : silent_(silent) { StartRead(&message_); }
    void OnReadDone(bool ok) override {
      if (!ok) return Finish(grpc::Status(grpc::CANCELLED, "no message"));
      if (!silent_) StartWriteAndFinish(&message_, {}, grpc::Status::OK);
    }
    void OnCancel() override {
      if (silent_) Finish(grpc::Status::CANCELLED);
    }
    void OnDone() override { delete this; }

   private:
    const bool silent_;
    grpc::ByteBuffer message_;
  };
  class Service : public grpc::CallbackGenericService {
   public:
    bool silent = false;
    grpc::ServerGenericBidiReactor* CreateReactor(
        grpc::GenericCallbackServerContext*) override {
      return new Reactor(silent);
    }
  };

  Service service_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

// One call with `size` bytes.
grpc::Status Call(const std::shared_ptr<grpc::Channel>& channel, size_t size,
                  absl::Duration deadline) {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  context.set_deadline(GrpcDeadline(deadline));
  context.set_wait_for_ready(true);
  grpc::CompletionQueue queue;
  const grpc::Slice slice(std::string(size, 'x'));
  const grpc::ByteBuffer request(&slice, 1);
  auto call = stub.PrepareUnaryCall(&context, "/test/Echo", request, &queue);
  call->StartCall();
  grpc::ByteBuffer response;
  grpc::Status status;
  call->Finish(&response, &status, nullptr);
  void* tag;
  bool ok;
  queue.Next(&tag, &ok);
  EXPECT_EQ(response.Length(), status.ok() ? size : 0);
  return status;
}

TEST(ChannelArgumentsTest, MessagesOfMegabytesArriveAndTheLimitHolds) {
  const EchoServer server(/*silent=*/false);
  ASSERT_TRUE(server.started());
  const auto channel = server.Connect();
  EXPECT_TRUE(Call(channel, 20 << 20, absl::Seconds(60)).ok());
  // gRPC's code is that of what may be tried again, slower; ours is not.
  EXPECT_EQ(
      FromGrpc(Call(channel, wire::kMaxMessageBytes + 1, absl::Seconds(60)))
          .code(),
      absl::StatusCode::kOutOfRange);
}

TEST(ChannelArgumentsTest, AServerRefusesWhatIsTooLarge) {
  const EchoServer server(/*silent=*/false);
  ASSERT_TRUE(server.started());
  // A client that keeps to no limit.
  const auto channel =
      grpc::CreateChannel(absl::StrCat("127.0.0.1:", server.port()),
                          grpc::InsecureChannelCredentials());
  EXPECT_FALSE(
      Call(channel, wire::kMaxMessageBytes + 1, absl::Seconds(60)).ok());
}

TEST(ChannelArgumentsTest, DeadlinesAreKeptWhenTheServerIsSilent) {
  const EchoServer server(/*silent=*/true);
  ASSERT_TRUE(server.started());
  std::future<grpc::Status> call = std::async(std::launch::async, [&] {
    return Call(server.Connect(), 1, absl::Milliseconds(50));
  });
  EXPECT_EQ(call.wait_for(std::chrono::minutes(1)), std::future_status::ready);
  EXPECT_EQ(call.get().error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
}

TEST(ChannelArgumentsTest, AProxyOfTheEnvironmentIsIgnored) {
  // A port where nobody listens: whoever asks this proxy fails.
  ASSERT_EQ(setenv("http_proxy", "http://127.0.0.1:1", 1), 0);
  ASSERT_EQ(setenv("no_proxy", "", 1), 0);
  const EchoServer server(/*silent=*/false);
  ASSERT_TRUE(server.started());
  EXPECT_TRUE(Call(server.Connect(), 10, absl::Seconds(20)).ok());
  unsetenv("http_proxy");
  unsetenv("no_proxy");
}

TEST(ChannelArgumentsTest, AChannelComesBackSoonAfterItsServerDoes) {
  auto server = std::make_unique<EchoServer>(/*silent=*/false);
  ASSERT_TRUE(server->started());
  const int port = server->port();
  const auto channel = server->Connect();
  ASSERT_TRUE(Call(channel, 1, absl::Seconds(20)).ok());
  server.reset();
  EXPECT_FALSE(Call(channel, 1, absl::Milliseconds(200)).ok());
  const EchoServer again(/*silent=*/false, port);
  ASSERT_TRUE(again.started());
  EXPECT_TRUE(Call(channel, 1, absl::Seconds(20)).ok());
}

TEST(ServerArgumentsTest, ASecondServerOnTheSamePortDoesNotStart) {
  const EchoServer first(/*silent=*/false);
  ASSERT_TRUE(first.started());
  const EchoServer second(/*silent=*/false, first.port());
  EXPECT_FALSE(second.started());
}

}  // namespace
}  // namespace oarlock::cluster
