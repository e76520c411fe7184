#include "pserver/checkpoint/checkpoint_loop.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/metrics.h"
#include "checkpoint/manifest.h"
#include "pserver/server.h"
#include "storage/file_system.h"
#include "tests/base/eventually.h"
#include "tests/base/skippable_clock.h"
#include "tests/pserver/mini_job.h"
#include "tests/stress/faulty_proxy.h"

namespace oarlock::pserver {
namespace {

constexpr int kCheckpoints = 10;

// A proxy before a server at "127.0.0.1:port".
std::unique_ptr<FaultyProxy> ProxyOf(const std::string& endpoint,
                                     const char* rates, const Clock& clock) {
  FaultyProxyOptions options;
  uint32_t port = 0;
  EXPECT_TRUE(
      absl::SimpleAtoi(endpoint.substr(endpoint.rfind(':') + 1), &port));
  options.route.target_port = static_cast<uint16_t>(port);
  options.seed = 3;
  options.control = *ParseFaultRates(rates);
  return *FaultyProxy::Start(options, clock);
}

// One call in ten is lost, or its response: of ten checkpoints of four calls
// one in sixty times none would fail, if a lost one were not made again.
TEST(CheckpointLoopTest, LostCallsAreMadeAgainAndRepeatedOnesDoNoHarm) {
  const SkippableClock clock;
  std::unique_ptr<FaultyProxy> proxy;
  const std::string folder =
      absl::StrCat(::testing::TempDir(), "/checkpoint_loop_test");
  MiniJob job(2, 1, [&](ServerOptions* options) {
    options->checkpoint_dir = folder;
    if (options->server_index != 0) return;
    proxy = ProxyOf(options->server_endpoints[1],
                    "drop=.05,delay=.05,duplicate=.2", clock);
    options->server_endpoints[1] = absl::StrCat("127.0.0.1:", proxy->port());
  });
  ASSERT_TRUE(job.client(0).CreateTable(v1::ASYNC).ok());
  ASSERT_TRUE(job.client(1).CreateTable(v1::ASYNC).ok());
  for (int i = 1; i <= kCheckpoints; ++i) {
    v1::CheckpointResponse response;
    const absl::Status made =
        job.client(0).Admin(&v1::CoordinatorService::Stub::Checkpoint,
                            v1::CheckpointRequest(), &response);
    ASSERT_TRUE(made.ok()) << "checkpoint " << i << ": " << made;
    EXPECT_EQ(response.cut(), static_cast<uint64_t>(i));
  }
  const FaultCounts counts = proxy->counts();
  EXPECT_GT(counts.dropped_requests + counts.dropped_responses, 0u)
      << counts.ToJson(3);
  EXPECT_GT(counts.duplicates_now, 0u) << counts.ToJson(3);
}

double CutsGivenUp(const Server& server) {
  MetricsSnapshot snapshot;
  server.CollectMetrics(&snapshot);
  double given_up = 0;
  for (const MetricsSnapshot::Sample& sample :
       snapshot.families().at("oarlock_server_cuts_total").samples) {
    if (sample.labels[0].second == "given_up") given_up += sample.value;
  }
  return given_up;
}

// Workers create a table on one server after the other; a cut may fall between.
TEST(CheckpointLoopTest, WaitsForATableThatIsBeingCreated) {
  const std::string folder =
      absl::StrCat(::testing::TempDir(), "/checkpoint_loop_tables_test");
  MiniJob job(
      2, 1, [&](ServerOptions* options) { options->checkpoint_dir = folder; });
  ASSERT_TRUE(job.client(0).CreateTable(v1::ASYNC).ok());
  v1::CheckpointResponse response;
  std::future<absl::Status> made = std::async(std::launch::async, [&] {
    return job.client(0).Admin(&v1::CoordinatorService::Stub::Checkpoint,
                               v1::CheckpointRequest(), &response);
  });
  // It is tried again and again.
  EXPECT_TRUE(Eventually([&] { return CutsGivenUp(job.server(0)) >= 2; }));
  EXPECT_EQ(made.wait_for(std::chrono::seconds(0)),
            std::future_status::timeout);
  ASSERT_TRUE(job.client(1).CreateTable(v1::ASYNC).ok());
  const absl::Status status = made.get();
  ASSERT_TRUE(status.ok()) << status;
  const absl::StatusOr<checkpoint::LoadedCheckpoint> loaded =
      checkpoint::LoadCheckpoint(storage::FileSystem::Real(),
                                 response.directory());
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const absl::StatusOr<checkpoint::OpenCheckpoint> open =
      checkpoint::VerifyAndOpen(storage::FileSystem::Real(), *loaded, 1);
  ASSERT_TRUE(open.ok()) << open.status();
  EXPECT_EQ(open->loaded.manifest.tables_size(), 1);
}

}  // namespace
}  // namespace oarlock::pserver
