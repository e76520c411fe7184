#include "pserver/service/unknown_calls.h"

#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "pserver/rpc/call_queues.h"
#include "tests/pserver/mini_job.h"

namespace oarlock::pserver {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// The status of a unary call of any method, with an empty request.
grpc::Status CallMethod(const std::string& endpoint,
                        const std::string& method) {
  grpc::GenericStub stub(
      grpc::CreateChannel(endpoint, grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  context.set_deadline(GrpcDeadline(absl::Seconds(30)));
  const grpc::Slice nothing;
  const grpc::ByteBuffer request(&nothing, 1);
  grpc::ByteBuffer response;
  grpc::CompletionQueue queue;
  const auto call = stub.PrepareUnaryCall(&context, method, request, &queue);
  call->StartCall();
  grpc::Status status;
  call->Finish(&response, &status, nullptr);
  void* tag;
  bool ok;
  EXPECT_TRUE(queue.Next(&tag, &ok));
  return status;
}

TEST(UnknownCallsTest, AMethodThatTheServerLacksGetsALine) {
  MiniJob job(1, 1);
  // More than a queue is ready to take at once.
  for (int i = 0; i < 20; ++i) {
    const grpc::Status status = CallMethod(job.server(0).endpoint(),
                                           absl::StrCat("/oarlock.v1.X/Y", i));
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNIMPLEMENTED);
    EXPECT_EQ(status.error_message(),
              absl::StrCat("this server has no method /oarlock.v1.X/Y", i,
                           "; it speaks protocol version 2, so use servers and "
                           "clients of one release"));
  }
}

TEST(UnknownCallsTest, AMethodOfVersion1GetsTheLineOfConnect) {
  MiniJob job(1, 1);
  const grpc::Status status = CallMethod(job.server(0).endpoint(),
                                         "/oarlock.v1.AdminService/Heartbeat");
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(status.error_message(),
            "the client speaks protocol version 1, this server 2; use servers "
            "and workers of one release");
}

TEST(UnknownCallsTest, OnlyServer0IsTheCoordinator) {
  UnknownCallsOptions options;
  options.server = ServerIndex(1);
  options.coordinator_endpoint = "host:6170";
  const absl::Status status =
      UnknownMethod(options, "/oarlock.v1.CoordinatorService/Drain");
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(status.message(),
            "this is server 1, and only the coordinator answers that; ask "
            "server 0 at host:6170");
}

TEST(UnknownCallsTest, MethodsOfTheServerAreNotTaken) {
  MiniJob job(1, 1);
  EXPECT_TRUE(job.client(0).Connect("default").ok());
}

TEST(UnknownCallsTest, AMethodIsShownInAHundredPrintableBytes) {
  const absl::Status status =
      UnknownMethod({}, absl::StrCat("/a\nb", std::string(1000, 'x')));
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr(absl::StrCat("/a\\nb", std::string(96, 'x'), ";")));
  EXPECT_THAT(std::string(status.message()), Not(HasSubstr("\n")));
}

TEST(UnknownCallsTest, WithoutTheTokenNothingIsSaid) {
  UnknownCallsOptions options;
  options.token = "the token";
  UnknownCalls calls(options);
  CallQueues queues(1);
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                           &port);
  builder.RegisterAsyncGenericService(calls.service());
  queues.AddTo(&builder);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  ASSERT_NE(server, nullptr);
  queues.Start({calls.Acceptor(queues.gate())});
  const grpc::Status status =
      CallMethod(absl::StrCat("127.0.0.1:", port), "/oarlock.v1.X/Y");
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_THAT(status.error_message(), Not(HasSubstr("/oarlock.v1.X/Y")));
  server->Shutdown();
  queues.Shutdown();
}

}  // namespace
}  // namespace oarlock::pserver
