#include "pserver/server.h"

#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "proto/vendored/reflection.grpc.pb.h"
#include "pserver/service/reflection_service.h"
#include "tests/base/eventually.h"
#include "tests/pserver/mini_job.h"

namespace oarlock::pserver {
namespace {

using ::testing::HasSubstr;

std::string Text(const absl::Status& status) {
  return std::string(status.message());
}

// Nobody is lost but by what a test skips.
void LongLease(ServerOptions* options) {
  options->lease = absl::Seconds(30);
  options->restart_grace = absl::Minutes(10);
}

bool IsReady(const std::future<absl::Status>& result) {
  return result.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

TEST(ServerTest, ClientOfAnotherJobOrVersionIsRefused) {
  MiniJob job(1, 1);
  EXPECT_TRUE(job.client(0).Connect("default").ok());
  // Any job.
  EXPECT_TRUE(job.client(0).Connect("").ok());
  const absl::Status other = job.client(0).Connect("b");
  EXPECT_EQ(other.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(Text(other), HasSubstr("belongs to job 'default', the client to "
                                     "job 'b'"));
  EXPECT_EQ(
      job.client(0).Connect("default", cluster::kProtocolVersion + 1).code(),
      absl::StatusCode::kFailedPrecondition);
}

TEST(ServerTest, ConnectTellsThePartitionMap) {
  MiniJob job(2, 3);
  v1::ConnectRequest request;
  request.set_job_id("default");
  request.set_protocol_version(cluster::kProtocolVersion);
  v1::ConnectResponse response;
  ASSERT_TRUE(
      job.client(1)
          .Admin(&v1::ServerAdminService::Stub::Connect, request, &response)
          .ok());
  EXPECT_EQ(response.server_index(), 1u);
  EXPECT_EQ(response.server_generation(), job.server(1).generation().value());
  EXPECT_EQ(response.num_workers(), 3u);
  EXPECT_EQ(response.partition_map().owners_size(), 16);
  EXPECT_EQ(response.partition_map().num_servers(), 2u);
}

TEST(ServerTest, CoordinatorsMethodsElsewhereNameServerZero) {
  MiniJob job(2, 1);
  const absl::Status status = job.client(1).Heartbeat(0, 1);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(Text(status), HasSubstr(job.options(0).server_endpoints[0]));
}

TEST(ServerTest, FencedGenerationMayNotPushOnAnyServer) {
  MiniJob job(2, 1);
  for (uint32_t s = 0; s < 2; ++s) {
    ASSERT_TRUE(job.client(s).CreateTable(v1::ASYNC).ok());
  }
  const uint64_t old_generation = job.client(0).Register(0);
  for (uint32_t s = 0; s < 2; ++s) {
    // A server that has just come up may still be unavailable.
    ASSERT_TRUE(Eventually(
        [&] { return job.client(s).Push(0, old_generation, 1).ok(); }));
  }
  const uint64_t generation = job.client(0).Register(0);
  EXPECT_EQ(job.client(0).Heartbeat(0, old_generation).code(),
            absl::StatusCode::kAborted);
  for (uint32_t s = 0; s < 2; ++s) {
    EXPECT_TRUE(Eventually([&] {
      return absl::IsAborted(job.client(s).Push(0, old_generation, 2));
    }));
    EXPECT_TRUE(job.client(s).Push(0, generation, 1).ok());
  }
}

TEST(ServerTest, LostWorkerMayNotPushOnAnyServer) {
  MiniJob job(2, 1, LongLease);
  ASSERT_TRUE(job.client(1).CreateTable(v1::ASYNC).ok());
  const uint64_t generation = job.client(0).Register(0);
  uint64_t sequence = 0;
  ASSERT_TRUE(Eventually(
      [&] { return job.client(1).Push(0, generation, ++sequence).ok(); }));
  EXPECT_TRUE(job.SkipLeasesUntil([&] {
    return absl::IsAborted(job.client(1).Push(0, generation, ++sequence));
  }));
  EXPECT_EQ(job.client(0).Heartbeat(0, generation).code(),
            absl::StatusCode::kAborted);
}

TEST(ServerTest, BarrierOfThreePassesWhenOneIsLost) {
  MiniJob job(1, 3, LongLease);
  const uint64_t a = job.client(0).Register(0);
  const uint64_t b = job.client(0).Register(1);
  job.client(0).Register(2);
  EXPECT_EQ(job.client(0).Barrier("start", 0, a, 50).code(),
            absl::StatusCode::kUnavailable);
  auto first = std::async(std::launch::async, [&] {
    return job.client(0).Barrier("start", 0, a, 60'000);
  });
  auto second = std::async(std::launch::async, [&] {
    return job.client(0).Barrier("start", 1, b, 60'000);
  });
  EXPECT_TRUE(
      job.SkipLeasesUntil([&] { return IsReady(first) && IsReady(second); },
                          [&] {
                            EXPECT_TRUE(job.client(0).Heartbeat(0, a).ok());
                            EXPECT_TRUE(job.client(0).Heartbeat(1, b).ok());
                          }));
  EXPECT_TRUE(first.get().ok());
  EXPECT_TRUE(second.get().ok());
}

TEST(ServerTest, LostWorkerNoLongerHoldsUpARound) {
  MiniJob job(1, 2, LongLease);
  ASSERT_TRUE(job.client(0).CreateTable(v1::SYNC).ok());
  const uint64_t a = job.client(0).Register(0);
  const uint64_t b = job.client(0).Register(1);
  ASSERT_TRUE(job.client(0).SetRoundMembership(0, a, true).ok());
  ASSERT_TRUE(job.client(0).SetRoundMembership(1, b, true).ok());
  // Waits for worker 1, which is silent.
  auto pushed = std::async(std::launch::async,
                           [&] { return job.client(0).Push(0, a, 1); });
  EXPECT_TRUE(job.SkipLeasesUntil(
      [&] { return IsReady(pushed); },
      [&] { EXPECT_TRUE(job.client(0).Heartbeat(0, a).ok()); }));
  EXPECT_TRUE(pushed.get().ok());
  EXPECT_EQ(job.client(0).SetRoundMembership(1, b, true).code(),
            absl::StatusCode::kAborted);
}

TEST(ServerTest, LateCallDoesNotPutAWorkerBackIntoTheRounds) {
  MiniJob job(1, 2);
  Client& client = job.client(0);
  ASSERT_TRUE(client.CreateTable(v1::SYNC).ok());
  const uint64_t a = client.Register(0);
  const uint64_t b = client.Register(1);
  ASSERT_TRUE(client.SetRoundMembership(0, a, /*joins=*/true, 1).ok());
  ASSERT_TRUE(client.SetRoundMembership(1, b, /*joins=*/true, 1).ok());
  ASSERT_TRUE(client.SetRoundMembership(1, b, /*joins=*/false, 2).ok());
  EXPECT_TRUE(client.SetRoundMembership(1, b, /*joins=*/true, 1).ok());
  EXPECT_TRUE(client.Push(0, a, 1).ok());
  // The round did not wait until worker 1 was taken for dead.
  EXPECT_TRUE(client.Heartbeat(1, b).ok());
}

TEST(ServerTest, TablesAreCreatedOnceAndListed) {
  MiniJob job(1, 1);
  ASSERT_TRUE(job.client(0).CreateTable(v1::ASYNC, 2).ok());
  ASSERT_TRUE(job.client(0).CreateTable(v1::ASYNC, 2).ok());
  EXPECT_EQ(job.client(0).CreateTable(v1::ASYNC, 3).code(),
            absl::StatusCode::kAlreadyExists);
  v1::ServerStatusResponse status;
  ASSERT_TRUE(job.client(0)
                  .Admin(&v1::ServerAdminService::Stub::GetServerStatus,
                         v1::ServerStatusRequest(), &status)
                  .ok());
  ASSERT_EQ(status.tables_size(), 1);
  EXPECT_EQ(status.tables(0).config().sparse().dim(), 2u);
}

TEST(ServerTest, AllServersLeaveWhenAllWorkersHaveFinished) {
  MiniJob job(3, 2);
  const uint64_t a = job.client(0).Register(0);
  const uint64_t b = job.client(0).Register(1);
  ASSERT_TRUE(job.client(0).Finish(0, a).ok());
  ASSERT_TRUE(job.client(0).Finish(1, b).ok());
  for (uint32_t s = 0; s < 3; ++s) {
    EXPECT_TRUE(job.server(s).Wait().ok()) << s;
  }
}

TEST(ServerTest, AllServersTellWhyTheJobFailed) {
  MiniJob job(2, 2);
  const uint64_t a = job.client(0).Register(0);
  const uint64_t b = job.client(0).Register(1);
  ASSERT_TRUE(Eventually([&] {
    v1::JobStatusResponse status;
    return job.client(0)
               .Admin(&v1::CoordinatorService::Stub::GetJobStatus,
                      v1::JobStatusRequest(), &status)
               .ok() &&
           status.num_servers_alive() == 2;
  }));
  ASSERT_TRUE(job.client(0).Finish(0, a, false, "a bad file").ok());
  v1::HeartbeatResponse beat;
  ASSERT_TRUE(job.client(0).Heartbeat(1, b, &beat).ok());
  EXPECT_TRUE(beat.draining());
  for (uint32_t s = 0; s < 2; ++s) {
    const absl::Status status = job.server(s).Wait();
    EXPECT_EQ(status.code(), absl::StatusCode::kAborted) << s;
    EXPECT_THAT(Text(status), HasSubstr("a bad file"));
  }
}

TEST(ServerTest, DrainEndsAllServersWithoutAnError) {
  MiniJob job(2, 1);
  job.client(0).Register(0);
  v1::DrainRequest request;
  request.set_reason("enough");
  v1::DrainResponse response;
  EXPECT_EQ(job.client(1)
                .Admin(&v1::CoordinatorService::Stub::Drain, request, &response)
                .code(),
            absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(
      job.client(0)
          .Admin(&v1::CoordinatorService::Stub::Drain, request, &response)
          .ok());
  for (uint32_t s = 0; s < 2; ++s) {
    EXPECT_TRUE(job.server(s).Wait().ok()) << s;
  }
}

TEST(ServerTest, ShutdownAnswersWhatWaitsAndIsIdempotent) {
  MiniJob job(1, 2);
  const uint64_t a = job.client(0).Register(0);
  auto barrier = std::async(std::launch::async, [&] {
    return job.client(0).Barrier("start", 0, a, 50'000);
  });
  job.server(0).Shutdown();
  job.server(0).Shutdown();
  EXPECT_FALSE(barrier.get().ok());
  EXPECT_TRUE(job.server(0).Wait().ok());
}

TEST(ServerTest, JobFailsWhenOneOfItsServersIsStopped) {
  MiniJob job(2, 1);
  const uint64_t a = job.client(0).Register(0);
  ASSERT_TRUE(Eventually([&] {
    v1::JobStatusResponse status;
    return job.client(0)
               .Admin(&v1::CoordinatorService::Stub::GetJobStatus,
                      v1::JobStatusRequest(), &status)
               .ok() &&
           status.num_servers_alive() == 2;
  }));
  job.server(1).Shutdown();
  v1::HeartbeatResponse beat;
  ASSERT_TRUE(job.client(0).Heartbeat(0, a, &beat).ok());
  EXPECT_TRUE(beat.failed());
  EXPECT_THAT(Text(job.server(0).Wait()), HasSubstr("server 1"));
}

TEST(ServerTest, PortInUseIsAlreadyExistsAndNamesThePort) {
  const Listener listener;
  ServerOptions options;
  options.server_endpoints = {absl::StrCat("127.0.0.1:", listener.port())};
  const auto server = Server::Start(options);
  ASSERT_EQ(server.status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(Text(server.status()),
              HasSubstr(absl::StrCat("port ", listener.port(),
                                     " on 127.0.0.1 is in use")));
  // A name with several addresses is refused when one of them is taken.
  options.server_endpoints = {absl::StrCat("localhost:", listener.port())};
  EXPECT_EQ(Server::Start(options).status().code(),
            absl::StatusCode::kAlreadyExists);
}

TEST(ServerTest, TwoServersDoNotShareAPort) {
  MiniJob job(1, 1);
  EXPECT_EQ(Server::Start(job.options(0)).status().code(),
            absl::StatusCode::kAlreadyExists);
}

TEST(ServerTest, AddressesItMayNotServeAreRefused) {
  ServerOptions options;
  options.server_endpoints = {"0.0.0.0:0"};
  EXPECT_EQ(Server::Start(options).status().code(),
            absl::StatusCode::kFailedPrecondition);
  options.security.insecure = true;
  options.server_endpoints = {"192.0.2.1:0"};
  EXPECT_EQ(Server::Start(options).status().code(),
            absl::StatusCode::kFailedPrecondition);
  options.server_endpoints = {"127.0.0.1"};
  EXPECT_EQ(Server::Start(options).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(ServerTest, OptionsOutOfRangeAreNamed) {
  ServerOptions good;
  good.server_endpoints = {"127.0.0.1:0"};
  EXPECT_TRUE(good.Validate().ok());
  const auto refuses = [&](const std::string& name, auto change) {
    ServerOptions options = good;
    change(&options);
    const absl::Status status = options.Validate();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << name;
    EXPECT_THAT(Text(status), HasSubstr(name));
  };
  refuses("servers", [](ServerOptions* o) { o->server_endpoints.clear(); });
  refuses("server_index", [](ServerOptions* o) { o->server_index = 1; });
  refuses("num_workers", [](ServerOptions* o) { o->num_workers = 0; });
  refuses("num_partitions", [](ServerOptions* o) { o->num_partitions = 48; });
  refuses("num_partitions", [](ServerOptions* o) { o->num_partitions = 0; });
  refuses("job_id", [](ServerOptions* o) { o->job_id.clear(); });
  refuses("lease", [](ServerOptions* o) { o->lease = absl::Milliseconds(1); });
  refuses("deadline_interval", [](ServerOptions* o) {
    o->deadline_interval = absl::ZeroDuration();
  });
  refuses("heartbeat_interval",
          [](ServerOptions* o) { o->heartbeat_interval = absl::Minutes(1); });
  refuses("heartbeat_call_timeout", [](ServerOptions* o) {
    o->heartbeat_call_timeout = absl::ZeroDuration();
  });
  refuses("num_threads", [](ServerOptions* o) { o->num_threads = 257; });
  refuses("max_held_bytes", [](ServerOptions* o) { o->max_held_bytes = 0; });
  refuses("max_response_bytes",
          [](ServerOptions* o) { o->max_response_bytes = 64 << 10; });
}

TEST(ServerTest, TokenIsDemandedOnBothPlanes) {
  const std::string file = ::testing::TempDir() + "/server_test_token";
  std::ofstream(file) << "secret\n";
  MiniJob job(2, 1, [&](ServerOptions* options) {
    options->security.token_file = file;
  });
  const std::string endpoint = job.options(0).server_endpoints[0];
  Client right(endpoint, "secret");
  Client wrong(endpoint, "other");
  EXPECT_TRUE(right.Connect("default").ok());
  for (Client* client : {&job.client(0), &wrong}) {
    EXPECT_EQ(client->Connect("default").code(),
              absl::StatusCode::kUnauthenticated);
    EXPECT_EQ(client->Heartbeat(0, 1).code(),
              absl::StatusCode::kUnauthenticated);
    EXPECT_EQ(client->Barrier("b", 0, 1, 0).code(),
              absl::StatusCode::kUnauthenticated);
    EXPECT_EQ(client->SetRoundMembership(0, 1, false).code(),
              absl::StatusCode::kUnauthenticated);
    EXPECT_EQ(client->CreateTable(v1::ASYNC).code(),
              absl::StatusCode::kUnauthenticated);
    EXPECT_EQ(client->Push(0, 1, 1).code(), absl::StatusCode::kUnauthenticated);
  }
  // The servers know it among themselves.
  EXPECT_TRUE(Eventually([&] {
    v1::JobStatusResponse status;
    return right
               .Admin(&v1::CoordinatorService::Stub::GetJobStatus,
                      v1::JobStatusRequest(), &status)
               .ok() &&
           status.num_servers_alive() == 2;
  }));
  std::remove(file.c_str());
}

TEST(ServerTest, ServerOfAnotherJobIsRefusedByTheCoordinator) {
  MiniJob job(2, 1, [](ServerOptions* options) {
    if (options->server_index == 1) options->job_id = "other";
  });
  const absl::Status status = job.server(1).Wait();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(Text(status), HasSubstr("job 'other'"));
}

TEST(ServerTest, ServerWithAnotherIdeaOfTheJobSaysSo) {
  MiniJob job(2, 1, [](ServerOptions* options) {
    if (options->server_index == 1) options->num_workers = 2;
  });
  const absl::Status status = job.server(1).Wait();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(Text(status), HasSubstr("1 workers"));
}

TEST(ServerTest, NothingIsAcceptedBeforeTheCoordinatorWasHeard) {
  const Listener nobody;
  ServerOptions options;
  options.server_endpoints = {absl::StrCat("127.0.0.1:", nobody.port()),
                              "127.0.0.1:0"};
  options.server_index = 1;
  options.num_partitions = 16;
  options.heartbeat_call_timeout = absl::Milliseconds(50);
  const auto server = Server::Start(options);
  ASSERT_TRUE(server.ok()) << server.status();
  Client client((*server)->endpoint());
  ASSERT_TRUE(client.CreateTable(v1::ASYNC).ok());
  EXPECT_EQ(client.Push(0, 1, 1).code(), absl::StatusCode::kUnavailable);
}

TEST(ServerTest, ServerGivesUpACoordinatorThatNeverComes) {
  int free_port = 0;
  {
    const Listener listener;
    free_port = listener.port();
  }
  ServerOptions options;
  options.server_endpoints = {absl::StrCat("127.0.0.1:", free_port),
                              "127.0.0.1:0"};
  options.server_index = 1;
  options.heartbeat_call_timeout = absl::Milliseconds(50);
  options.heartbeat_interval = absl::Milliseconds(10);
  options.start_timeout = absl::Milliseconds(200);
  const auto server = Server::Start(options);
  ASSERT_TRUE(server.ok()) << server.status();
  const absl::Status status = (*server)->Wait();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(Text(status), HasSubstr("is server 0 running?"));
}

// Calls a method of a service without its generated code.
grpc::ByteBuffer Bytes(const std::string& text) {
  const grpc::Slice slice(text);
  return grpc::ByteBuffer(&slice, 1);
}
std::string Flattened(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  std::string text;
  if (!buffer.Dump(&slices).ok()) return text;
  for (const grpc::Slice& slice : slices) {
    text.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return text;
}

TEST(ServerTest, HealthServiceSaysServing) {
  MiniJob job(1, 1);
  grpc::GenericStub stub(job.client(0).channel());
  grpc::ClientContext context;
  const grpc::ByteBuffer request = Bytes("");
  grpc::ByteBuffer response;
  std::promise<grpc::Status> status;
  stub.UnaryCall(&context, "/grpc.health.v1.Health/Check", {}, &request,
                 &response,
                 [&](grpc::Status s) { status.set_value(std::move(s)); });
  EXPECT_TRUE(status.get_future().get().ok());
  EXPECT_EQ(Flattened(response), std::string("\x08\x01", 2));
}

TEST(ServerTest, ReflectionHasFewStreams) {
  MiniJob job(1, 1);
  const auto stub = grpc::reflection::v1alpha::ServerReflection::NewStub(
      job.client(0).channel());
  struct Stream {
    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientReaderWriter<
        grpc::reflection::v1alpha::ServerReflectionRequest,
        grpc::reflection::v1alpha::ServerReflectionResponse>>
        calls;
  };
  grpc::reflection::v1alpha::ServerReflectionRequest request;
  request.set_list_services("*");
  grpc::reflection::v1alpha::ServerReflectionResponse response;
  std::vector<std::unique_ptr<Stream>> streams;
  for (int i = 0; i < ReflectionService::kMaxStreams; ++i) {
    auto& stream = *streams.emplace_back(std::make_unique<Stream>());
    stream.calls = stub->ServerReflectionInfo(&stream.context);
    ASSERT_TRUE(stream.calls->Write(request));
    ASSERT_TRUE(stream.calls->Read(&response)) << i;
  }
  Stream one_more;
  one_more.calls = stub->ServerReflectionInfo(&one_more.context);
  EXPECT_FALSE(one_more.calls->Read(&response));
  EXPECT_EQ(one_more.calls->Finish().error_code(), grpc::RESOURCE_EXHAUSTED);
}

TEST(ServerTest, ReflectionListsBothPlanes) {
  MiniJob job(1, 1);
  grpc::GenericStub stub(job.client(0).channel());
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  void* tag = nullptr;
  bool ok = false;
  auto call = stub.PrepareCall(
      &context,
      "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", &queue);
  call->StartCall(nullptr);
  ASSERT_TRUE(queue.Next(&tag, &ok) && ok);
  // ServerReflectionRequest{list_services: "*"}.
  call->Write(Bytes("\x3a\x01*"), nullptr);
  ASSERT_TRUE(queue.Next(&tag, &ok) && ok);
  grpc::ByteBuffer response;
  call->Read(&response, nullptr);
  ASSERT_TRUE(queue.Next(&tag, &ok) && ok);
  EXPECT_THAT(Flattened(response), HasSubstr("oarlock.v1.ServerAdminService"));
  EXPECT_THAT(Flattened(response), HasSubstr("oarlock.v1.CoordinatorService"));
  EXPECT_THAT(Flattened(response), HasSubstr("oarlock.v1.ParameterService"));
  context.TryCancel();
  grpc::Status status;
  call->Finish(&status, nullptr);
  ASSERT_TRUE(queue.Next(&tag, &ok));
  queue.Shutdown();
  while (queue.Next(&tag, &ok)) {
  }
}

}  // namespace
}  // namespace oarlock::pserver
