#include "pserver/roll_back.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "checkpoint/manifest.h"
#include "cluster/retry.h"
#include "cluster/security.h"
#include "coordinator/coordinator.h"
#include "proto/v1/checkpoint.grpc.pb.h"
#include "pserver/checkpoint/generation_file.h"
#include "storage/file_system.h"

namespace oarlock::pserver {
namespace {

constexpr absl::Duration kCallTimeout = absl::Seconds(2);
constexpr absl::Duration kBetweenCalls = absl::Milliseconds(10);
// A server that is away this long is worth a line in the log.
constexpr absl::Duration kNotice = absl::Seconds(5);

// Another server, and the generation under which it is to go on.
struct Ordered {
  uint32_t server = 0;
  uint64_t generation = 0;
  std::unique_ptr<v1::CheckpointService::Stub> stub;
};

// Whether it has gone back.
absl::StatusOr<bool> Order(const v1::RollBackRequest& roll_back,
                           const std::string& token, Ordered* server) {
  v1::RollBackRequest request = roll_back;
  request.set_generation(server->generation);
  v1::RollBackResponse response;
  grpc::ClientContext context;
  context.set_deadline(GrpcDeadline(kCallTimeout));
  if (!token.empty()) context.AddMetadata(cluster::kTokenMetadataKey, token);
  OARLOCK_RETURN_IF_ERROR(
      cluster::FromGrpc(server->stub->RollBack(&context, request, &response)));
  if (response.gone_back()) return true;
  // It was started anew and has a newer one than was known here, or this one.
  server->generation =
      response.server_generation() + GenerationFile::kGenerationStep;
  return false;
}

absl::Status OrderOthers(const ServerOptions& options,
                         const v1::RollBackRequest& roll_back,
                         absl::FunctionRef<bool()> stopped) {
  OARLOCK_ASSIGN_OR_RETURN(const std::string token,
                           cluster::ReadToken(options.security));
  OARLOCK_ASSIGN_OR_RETURN(
      const std::shared_ptr<grpc::ChannelCredentials> credentials,
      cluster::MakeChannelCredentials(options.security,
                                      options.server_endpoints));
  std::vector<Ordered> waiting;
  for (uint32_t i = 1; i < options.server_endpoints.size(); ++i) {
    Ordered& server = waiting.emplace_back();
    server.server = i;
    server.generation = roll_back.generation();
    server.stub = v1::CheckpointService::NewStub(
        grpc::CreateCustomChannel(options.server_endpoints[i], credentials,
                                  cluster::MakeChannelArguments()));
  }
  const Clock& clock = *options.clocks.monotonic;
  absl::Time next_notice = clock.Now() + kNotice;
  while (!waiting.empty() && !stopped()) {
    absl::Status last;
    std::vector<Ordered> left;
    for (Ordered& server : waiting) {
      const absl::StatusOr<bool> gone_back = Order(roll_back, token, &server);
      if (gone_back.ok() && *gone_back) continue;
      const absl::StatusCode code = gone_back.status().code();
      if (!gone_back.ok() && code != absl::StatusCode::kUnavailable &&
          code != absl::StatusCode::kDeadlineExceeded &&
          code != absl::StatusCode::kCancelled) {
        return Annotate(gone_back.status(),
                        absl::StrCat("server ", server.server, " at ",
                                     options.server_endpoints[server.server]));
      }
      last = gone_back.status();
      left.push_back(std::move(server));
    }
    waiting = std::move(left);
    if (!waiting.empty() && clock.Now() >= next_notice) {
      Log().warn("waits for server {} to go back to cut {} ({})",
                 waiting.front().server, roll_back.cut(),
                 std::string(last.message()));
      next_notice += kNotice;
    }
    if (!waiting.empty()) clock.Sleep(kBetweenCalls);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status OrderRollBack(ServerOptions* options,
                           absl::FunctionRef<bool()> stopped) {
  RollBackOptions& next = *options->roll_back;
  v1::RollBackRequest request;
  request.set_term(coordinator::Coordinator::kTerm);
  if (!options->checkpoint_dir.empty()) {
    const absl::StatusOr<checkpoint::LoadedCheckpoint> current =
        checkpoint::LoadCheckpoint(storage::FileSystem::Real(),
                                   options->checkpoint_dir);
    if (current.ok()) {
      request.set_cut(current->manifest.cut());
      request.set_directory(current->folder);
    } else if (!absl::IsNotFound(current.status())) {
      return current.status();
    }
  }
  uint64_t generation = next.generation.value();
  for (const uint64_t other : next.generations) {
    generation = std::max(generation, other);
  }
  generation =
      std::max<uint64_t>(generation + GenerationFile::kGenerationStep,
                         absl::ToUnixMillis(options->clocks.wall->Now()));
  request.set_generation(generation);
  OARLOCK_RETURN_IF_ERROR(OrderOthers(*options, request, stopped));
  next.directory = request.directory();
  next.generation = Generation(generation);
  Log().info("all servers have gone back to cut {}{}", request.cut(),
             request.directory().empty()
                 ? std::string(": tables are as they were created")
                 : absl::StrCat(", ", request.directory()));
  return absl::OkStatus();
}

}  // namespace oarlock::pserver
