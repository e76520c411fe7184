#include "cluster/connect.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <memory>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "cluster/wire_version.h"
#include "proto/vendored/health.grpc.pb.h"

namespace oarlock::cluster {
namespace {

// Records what it is asked, and answers with what it is given.
class RecordingService : public v1::ServerAdminService::Service {
 public:
  grpc::Status Connect(grpc::ServerContext*, const v1::ConnectRequest* request,
                       v1::ConnectResponse* response) override {
    request_ = *request;
    if (status_.ok()) response->set_server_index(3);
    return status_;
  }

  v1::ConnectRequest request_;
  grpc::Status status_;
};

class ConnectTest : public ::testing::Test {
 protected:
  void Start(grpc::Service* service) {
    int port = 0;
    server_ = grpc::ServerBuilder()
                  .AddListeningPort("127.0.0.1:0",
                                    grpc::InsecureServerCredentials(), &port)
                  .RegisterService(service)
                  .BuildAndStart();
    ASSERT_NE(server_, nullptr);
    stub_ = v1::ServerAdminService::NewStub(grpc::CreateChannel(
        absl::StrCat("127.0.0.1:", port), grpc::InsecureChannelCredentials()));
  }
  absl::StatusOr<v1::ConnectResponse> ConnectTo(std::string_view job_id) {
    grpc::ClientContext context;
    return Connect(stub_.get(), job_id, "worker 7", &context);
  }

  RecordingService service_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<v1::ServerAdminService::Stub> stub_;
};

TEST_F(ConnectTest, NamesVersionJobAndClient) {
  Start(&service_);
  const auto response = ConnectTo("job a");
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->server_index(), 3u);
  EXPECT_EQ(service_.request_.protocol_version(), kProtocolVersion);
  EXPECT_EQ(service_.request_.job_id(), "job a");
  EXPECT_EQ(service_.request_.client(), "worker 7");
}

TEST_F(ConnectTest, ARefusalIsTheServersOwn) {
  service_.status_ =
      grpc::Status(grpc::StatusCode::FAILED_PRECONDITION, "another job");
  Start(&service_);
  const absl::Status status = ConnectTo("").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(status.message(), "another job");
  EXPECT_EQ(service_.request_.job_id(), "");
}

TEST_F(ConnectTest, AServerWithoutTheMethodIsRefusedInOneLine) {
  grpc::health::v1::Health::Service health;
  Start(&health);
  const absl::Status status = ConnectTo("job a").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(status.message(),
            "it has no oarlock.v1.ServerAdminService/Connect, so it speaks "
            "protocol version 1 or is no Oarlock server; this program speaks "
            "2; use servers and workers of one release");
}

}  // namespace
}  // namespace oarlock::cluster
