#include "pserver/fencing/control_loop.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <memory>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "cluster/partition_map.h"
#include "cluster/retry.h"
#include "pserver/fencing/worker_fences.h"
#include "tests/base/eventually.h"
#include "tests/pserver/service/push_testing.h"

namespace oarlock::pserver {
namespace {

// A server whose coordinator never answers.
class ControlLoopTest : public ::testing::Test {
 protected:
  ControlLoopTest()
      : map_(cluster::PartitionMap::Even(1u << kTestPartitionBits, 2)),
        fences_(2),
        ledger_(&fences_),
        registry_(map_, ServerIndex(1), clock_),
        membership_(&fences_, &registry_),
        reporter_(&ledger_, &registry_, &membership_) {
    ControlLoopOptions options;
    options.server = ServerIndex(1);
    // A port that nobody listens on.
    options.coordinator_endpoint = "127.0.0.1:1";
    options.lease = absl::Seconds(6);
    options.start_timeout = absl::Seconds(30);
    options.heartbeat_interval = absl::Milliseconds(300);
    // Of the machine's clock.
    options.heartbeat_call_timeout = absl::Milliseconds(10);
    loop_ = std::make_unique<ControlLoop>(
        options, map_, /*coordinator=*/nullptr,
        grpc::CreateCustomChannel(options.coordinator_endpoint,
                                  grpc::InsecureChannelCredentials(),
                                  cluster::MakeChannelArguments()),
        &term_, &membership_, &registry_.clock(), &reporter_,
        [](uint64_t, uint64_t, bool) {}, [] { return false; }, clock_);
    loop_->Start();
  }

  bool HasEnded() { return loop_->WaitFor(absl::ZeroDuration()); }

  FakeClock clock_;
  const cluster::PartitionMap map_;
  WorkerFences fences_;
  PushLedger ledger_;
  TableRegistry registry_;
  RoundMembership membership_;
  LedgerReporter reporter_;
  CoordinatorTerm term_;
  std::unique_ptr<ControlLoop> loop_;
};

TEST_F(ControlLoopTest, AStandstillOfItsOwnIsNoOutageOfTheCoordinator) {
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(clock_.AwaitWaiters(1));
    clock_.Advance(absl::Hours(1));
  }
  ASSERT_TRUE(clock_.AwaitWaiters(1));
  EXPECT_FALSE(HasEnded());
}

TEST_F(ControlLoopTest, ACoordinatorThatStaysSilentIsGivenUp) {
  EXPECT_TRUE(Eventually([&] {
    clock_.Advance(absl::Milliseconds(310));
    return HasEnded();
  }));
  EXPECT_TRUE(absl::IsUnavailable(loop_->Wait())) << loop_->Wait();
}

}  // namespace
}  // namespace oarlock::pserver
