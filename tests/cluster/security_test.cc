#include "cluster/security.h"

#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "cluster/retry.h"
#include "proto/vendored/health.grpc.pb.h"
#include "tests/cluster/test_certificates.h"

namespace oarlock::cluster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string NewFolder(const std::string& name) {
  const auto* test = testing::UnitTest::GetInstance()->current_test_info();
  const std::string dir =
      absl::StrCat(testing::TempDir(), "/", test->name(), "_", name);
  mkdir(dir.c_str(), 0700);
  return dir;
}

std::string WriteText(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

TEST(CheckServableTest, LoopbackNeedsNothing) {
  EXPECT_TRUE(CheckServable("127.0.0.1:0", {}).ok());
}

TEST(CheckServableTest, BeyondLoopbackNeedsTlsAndTokenOrInsecure) {
  const std::string endpoint = "0.0.0.0:6174";
  const absl::Status status = CheckServable(endpoint, {});
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr(endpoint), HasSubstr("--tls_cert_file"),
                    HasSubstr("--token_file"), HasSubstr("--insecure")));

  SecurityOptions insecure;
  insecure.insecure = true;
  EXPECT_TRUE(CheckServable(endpoint, insecure).ok());

  const SecurityOptions both = WriteTestCertificates(NewFolder("tls"));
  EXPECT_TRUE(CheckServable(endpoint, both).ok());

  SecurityOptions only_tls = both;
  only_tls.token_file.clear();
  EXPECT_EQ(CheckServable(endpoint, only_tls).code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(CheckServable("127.0.0.1:1", only_tls).ok());

  SecurityOptions only_token;
  only_token.token_file = both.token_file;
  EXPECT_EQ(CheckServable(endpoint, only_token).code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST(CheckServableTest, SomeOfTheTlsFilesAreRefused) {
  const SecurityOptions all = WriteTestCertificates(NewFolder("tls"));
  for (std::string SecurityOptions::*missing :
       {&SecurityOptions::tls_cert_file, &SecurityOptions::tls_key_file,
        &SecurityOptions::tls_ca_file}) {
    SecurityOptions options = all;
    (options.*missing).clear();
    EXPECT_EQ(CheckServable("127.0.0.1:1", options).code(),
              absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(MakeServerCredentials(options).status().code(),
              absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(MakeChannelCredentials(options, {}).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
}

TEST(CheckServableTest, AFileThatCannotBeReadIsNotFoundByItsFlag) {
  const SecurityOptions all = WriteTestCertificates(NewFolder("tls"));
  struct Case {
    std::string SecurityOptions::*file;
    const char* flag;
  };
  for (const Case& c :
       {Case{&SecurityOptions::tls_cert_file, "--tls_cert_file"},
        Case{&SecurityOptions::tls_key_file, "--tls_key_file"},
        Case{&SecurityOptions::tls_ca_file, "--tls_ca_file"},
        Case{&SecurityOptions::token_file, "--token_file"}}) {
    for (const std::string& path :
         {std::string("/no/such/file"), testing::TempDir()}) {
      SecurityOptions options = all;
      options.*c.file = path;
      const absl::Status status = CheckServable("127.0.0.1:1", options);
      EXPECT_EQ(status.code(), absl::StatusCode::kNotFound) << status;
      EXPECT_THAT(std::string(status.message()),
                  AllOf(HasSubstr(c.flag), HasSubstr(path)));
    }
  }
}

TEST(CheckServableTest, AFileThatIsNoPemIsRefused) {
  const std::string dir = NewFolder("tls");
  SecurityOptions options = WriteTestCertificates(dir);
  options.tls_key_file = WriteText(dir + "/not_pem", "hello\n");
  EXPECT_EQ(CheckServable("127.0.0.1:1", options).code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(ReadTokenTest, TheTokenIsTrimmedAndMustBeOnePrintableLine) {
  const std::string dir = NewFolder("token");
  SecurityOptions options;
  EXPECT_EQ(*ReadToken(options), "");
  options.token_file = WriteText(dir + "/good", " \n abc def \r\n");
  EXPECT_EQ(*ReadToken(options), "abc def");
  options.token_file = WriteText(dir + "/blank", " \n");
  EXPECT_EQ(ReadToken(options).status().code(),
            absl::StatusCode::kInvalidArgument);
  options.token_file = WriteText(dir + "/lines", "abc\ndef\n");
  EXPECT_EQ(ReadToken(options).status().code(),
            absl::StatusCode::kInvalidArgument);
  options.token_file = WriteText(dir + "/large", std::string(2 << 20, 'x'));
  EXPECT_EQ(ReadToken(options).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(TokensEqualTest, OnlyEqualTokensAreEqual) {
  EXPECT_TRUE(TokensEqual("", ""));
  EXPECT_TRUE(TokensEqual("secret", "secret"));
  EXPECT_FALSE(TokensEqual("secret", "Secret"));
  EXPECT_FALSE(TokensEqual("secret", "secreT"));
  EXPECT_FALSE(TokensEqual("secret", "secre"));
  EXPECT_FALSE(TokensEqual("", "s"));
  EXPECT_FALSE(TokensEqual(std::string("s\0", 2), "s"));
  EXPECT_FALSE(TokensEqual("s", std::string("s\0", 2)));
}

class TlsTest : public testing::Test {
 protected:
  void StartServer(const SecurityOptions& options) {
    const auto credentials = MakeServerCredentials(options);
    ASSERT_TRUE(credentials.ok()) << credentials.status();
    grpc::ServerBuilder builder;
    ApplyServerArguments(&builder);
    builder.AddListeningPort("127.0.0.1:0", *credentials, &port_);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    ASSERT_NE(server_, nullptr);
    ASSERT_NE(port_, 0);
  }

  // Whether a client with `options` gets through the handshake.
  bool Connects(const SecurityOptions& options) {
    const auto credentials = MakeChannelCredentials(options, {});
    EXPECT_TRUE(credentials.ok()) << credentials.status();
    const auto channel =
        grpc::CreateCustomChannel(absl::StrCat("127.0.0.1:", port_),
                                  *credentials, MakeChannelArguments());
    // The state after the first attempt decides.
    const auto deadline = GrpcDeadline(absl::Minutes(1));
    grpc_connectivity_state state = channel->GetState(/*try_to_connect=*/true);
    while (state == GRPC_CHANNEL_IDLE || state == GRPC_CHANNEL_CONNECTING) {
      if (!channel->WaitForStateChange(state, deadline)) return false;
      state = channel->GetState(/*try_to_connect=*/true);
    }
    if (state != GRPC_CHANNEL_READY) return false;
    // With TLS 1.3 the server's refusal of a client's certificate comes after
    // the client thinks itself connected: ask it something.
    return !CallIsUnavailable(channel);
  }

 private:
  // Nobody has this method, so a response is Unimplemented.
  static bool CallIsUnavailable(const std::shared_ptr<grpc::Channel>& channel) {
    grpc::GenericStub stub(channel);
    grpc::ClientContext context;
    context.set_deadline(GrpcDeadline(absl::Minutes(1)));
    grpc::CompletionQueue queue;
    auto call = stub.PrepareUnaryCall(&context, "/none/None",
                                      grpc::ByteBuffer(nullptr, 0), &queue);
    call->StartCall();
    grpc::ByteBuffer response;
    grpc::Status status;
    call->Finish(&response, &status, nullptr);
    void* tag;
    bool ok;
    queue.Next(&tag, &ok);
    return status.error_code() != grpc::StatusCode::UNIMPLEMENTED;
  }

  int port_ = 0;
  // gRPC wants some service.
  grpc::health::v1::Health::Service service_;
  std::unique_ptr<grpc::Server> server_;
};

TEST_F(TlsTest, ClientsOfTheSameAuthorityConnectAndNobodyElse) {
  const SecurityOptions ours = WriteTestCertificates(NewFolder("ours"));
  const SecurityOptions strangers = WriteTestCertificates(NewFolder("theirs"));
  StartServer(ours);
  EXPECT_TRUE(Connects(ours));
  EXPECT_FALSE(Connects(SecurityOptions()));
  EXPECT_FALSE(Connects(strangers));
  // A stranger who trusts our authority is still a stranger to it.
  SecurityOptions trusting = strangers;
  trusting.tls_ca_file = ours.tls_ca_file;
  EXPECT_FALSE(Connects(trusting));
}

TEST_F(TlsTest, WithoutFilesTheConnectionIsPlain) {
  StartServer(SecurityOptions());
  EXPECT_TRUE(Connects(SecurityOptions()));
}

TEST(SecurityTest, ATokenGoesNowhereInPlainText) {
  SecurityOptions options;
  options.token_file = "token";
  EXPECT_TRUE(MakeChannelCredentials(options, {"127.0.0.1:1"}).ok());
  const absl::Status status =
      MakeChannelCredentials(options, {"127.0.0.1:1", "192.0.2.2:9"}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(status.message().find("192.0.2.2:9"), std::string::npos) << status;
  options.insecure = true;
  EXPECT_TRUE(MakeChannelCredentials(options, {"192.0.2.2:9"}).ok());
  options = SecurityOptions();
  EXPECT_TRUE(MakeChannelCredentials(options, {"192.0.2.2:9"}).ok());
}

}  // namespace
}  // namespace oarlock::cluster
