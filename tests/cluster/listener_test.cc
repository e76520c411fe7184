#include "cluster/listener.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "cluster/retry.h"
#include "proto/v1/launch.grpc.pb.h"

namespace oarlock::cluster {
namespace {

// A gRPC server, whose calls are all Unimplemented, behind a Listener.
class ListenerTest : public ::testing::Test {
 protected:
  void Serve(const std::string& endpoint) {
    auto listener = Listener::Listen(endpoint);
    ASSERT_TRUE(listener.ok()) << listener.status();
    listener_ = *std::move(listener);
    grpc::ServerBuilder builder;
    ApplyServerArguments(&builder);
    builder.RegisterService(&service_);
    listener_->AddTo(&builder, grpc::InsecureServerCredentials());
    server_ = builder.BuildAndStart();
    ASSERT_NE(server_, nullptr);
    listener_->Start();
  }

  void TearDown() override {
    if (listener_ != nullptr) listener_->Stop();
    if (server_ != nullptr) {
      server_->Shutdown(GrpcDeadline(absl::ZeroDuration()));
    }
  }

  // The code of a call over a connection of its own.
  grpc::StatusCode CallAnew(const std::string& host) {
    const auto stub = v1::LaunchService::NewStub(grpc::CreateCustomChannel(
        absl::StrCat(host, ":", listener_->port()),
        grpc::InsecureChannelCredentials(), MakeChannelArguments()));
    grpc::ClientContext context;
    context.set_deadline(GrpcDeadline(absl::Seconds(60)));
    context.set_wait_for_ready(true);
    v1::NodeReportResponse response;
    return stub->Report(&context, v1::NodeReport(), &response).error_code();
  }

  // A bare connection to 127.0.0.1, or -1.
  int Connect() const {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return -1;
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<uint16_t>(listener_->port()));
    if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) ==
        0) {
      return fd;
    }
    close(fd);
    return -1;
  }

  v1::LaunchService::Service service_;
  std::unique_ptr<Listener> listener_;
  std::unique_ptr<grpc::Server> server_;
};

TEST_F(ListenerTest, ServesOnAFreePort) {
  Serve("127.0.0.1:0");
  EXPECT_GT(listener_->port(), 0);
  EXPECT_EQ(CallAnew("127.0.0.1"), grpc::UNIMPLEMENTED);
}

TEST_F(ListenerTest, ANameStandsForAllItsAddresses) {
  Serve("localhost:0");
  EXPECT_EQ(CallAnew("127.0.0.1"), grpc::UNIMPLEMENTED);
  EXPECT_EQ(CallAnew("localhost"), grpc::UNIMPLEMENTED);
}

TEST_F(ListenerTest, APortInUseIsToldBeforeItServes) {
  Serve("127.0.0.1:0");
  const auto second =
      Listener::Listen(absl::StrCat("127.0.0.1:", listener_->port()));
  EXPECT_EQ(second.status().code(), absl::StatusCode::kAlreadyExists)
      << second.status();
  EXPECT_EQ(Listener::Listen("192.0.2.1:0").status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Listener::Listen("nothing").status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(ListenerTest, AStoppedOneHasFreedItsPort) {
  Serve("127.0.0.1:0");
  const std::string endpoint = absl::StrCat("127.0.0.1:", listener_->port());
  listener_->Stop();
  EXPECT_LT(Connect(), 0);
  EXPECT_TRUE(Listener::Listen(endpoint).ok());
}

TEST_F(ListenerTest, ThousandsOfConnectionsComeAndGo) {
  Serve("127.0.0.1:0");
  for (int i = 0; i < 2000; ++i) {
    const int connection = Connect();
    ASSERT_GE(connection, 0) << i;
    close(connection);
  }
  EXPECT_EQ(CallAnew("127.0.0.1"), grpc::UNIMPLEMENTED);
}

TEST_F(ListenerTest, GoesOnWhenDescriptorsAreFreeAgain) {
  Serve("127.0.0.1:0");
  ASSERT_EQ(CallAnew("127.0.0.1"), grpc::UNIMPLEMENTED);
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  // The connections of both sides are this process's.
  const int next = dup(STDERR_FILENO);
  close(next);
  rlimit few = before;
  few.rlim_cur = static_cast<rlim_t>(next) + 40;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  std::vector<int> connections;
  for (int connection = Connect(); connection >= 0; connection = Connect()) {
    connections.push_back(connection);
  }
  EXPECT_GE(connections.size(), 10u);
  for (const int connection : connections) close(connection);
  EXPECT_EQ(CallAnew("127.0.0.1"), grpc::UNIMPLEMENTED);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
}

}  // namespace
}  // namespace oarlock::cluster
