// Pushes that a round holds, when the server, or a part of it, goes.

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "pserver/service/parameter_service.h"
#include "tests/base/eventually.h"
#include "tests/pserver/service/parameter_service_testing.h"
#include "tests/pserver/service/push_testing.h"

namespace oarlock::pserver {
namespace {

// Starts a push that a round holds, and waits until it is held.
class HeldPush {
 public:
  HeldPush(v1::ParameterService::Stub* stub, TableRegistry* registry,
           const v1::PushSparseRequest& request, uint64_t num_held = 1)
      : thread_([this, stub, request] {
          context_.set_deadline(GrpcDeadline(absl::Minutes(1)));
          v1::PushResponse response;
          status_ = stub->PushSparse(&context_, request, &response);
        }) {
    EXPECT_TRUE(Eventually([&] { return registry->HeldPushes() == num_held; }));
  }
  grpc::Status Await() {
    thread_.join();
    return status_;
  }

 private:
  grpc::ClientContext context_;
  grpc::Status status_;
  std::thread thread_;
};

class HeldPushTest : public ParameterServiceTest {
 protected:
  void StartHolding(ParameterServiceOptions options = {}) {
    Start(options);
    ASSERT_TRUE(registry_->Create(SparseConfig(1, -1, v1::SYNC)).ok());
    for (uint32_t worker : {0, 1}) {
      registry_->SetRoundMember(WorkerIndex(worker), Generation(1), true);
    }
    held_ = std::make_unique<HeldPush>(
        stub_.get(), registry_.get(),
        PushOf(HeaderOfPush(0, 1, 1), {{Key{1}, {1}}}));
  }
  std::unique_ptr<HeldPush> held_;
};

TEST_F(HeldPushTest, IsUnavailableWhenTheServerEnds) {
  StartHolding();
  TearDown();
  server_.reset();
  ExpectError(held_->Await(), grpc::UNAVAILABLE);
}

TEST_F(HeldPushTest, MayBeAnsweredAfterTheServiceIsGone) {
  StartHolding();
  server_->Shutdown(GrpcDeadline(absl::ZeroDuration()));
  queues_.reset();
  service_.reset();
  EXPECT_FALSE(held_->Await().ok());
  server_.reset();
  registry_->SetRoundMember(WorkerIndex(1), Generation(1), false);
  EXPECT_EQ(registry_->HeldPushes(), 0u);
  EXPECT_EQ(RowsOf(sparse()).at(Key{1}), (std::vector<float>{1}));
}

TEST_F(HeldPushTest, MayBeDroppedUnanswered) {
  StartHolding();
  server_->Shutdown(GrpcDeadline(absl::ZeroDuration()));
  queues_->Shutdown();
  EXPECT_FALSE(held_->Await().ok());
  server_.reset();
  registry_.reset();
}

// What the open round needs has room, whatever is ahead of it.
TEST_F(HeldPushTest, IsRefusedWhereItIsAheadAndTooMuchIsHeld) {
  const v1::PushSparseRequest ahead =
      PushOf(HeaderOfPush(0, 2, 2), {{Key{1}, {1}}});
  max_held_bytes_ = HoldBudget::kCallBytes + ahead.ByteSizeLong();
  StartHolding();
  HeldPush second(stub_.get(), registry_.get(), ahead, /*num_held=*/2);
  ExpectError(Push(PushOf(HeaderOfPush(1, 2, 2), {{Key{1}, {1}}})),
              grpc::RESOURCE_EXHAUSTED,
              {absl::StrCat("up to ", max_held_bytes_)});
  EXPECT_TRUE(Pull(PullOf({Key{1}})).ok());
  registry_->SetRoundMember(WorkerIndex(1), Generation(1), false);
  EXPECT_TRUE(held_->Await().ok());
  EXPECT_TRUE(second.Await().ok());
  EXPECT_TRUE(Eventually([&] { return holds_->held_bytes() == 0; }));
}

TEST_F(HeldPushTest, OfARoundThatAloneIsTooMuchIsOutOfRange) {
  const v1::PushSparseRequest first =
      PushOf(HeaderOfPush(0, 1, 1), {{Key{1}, {1}}});
  const v1::PushSparseRequest last =
      PushOf(HeaderOfPush(1, 1, 1), {{Key{1}, {1}}});
  const uint64_t both =
      2 * HoldBudget::kCallBytes + first.ByteSizeLong() + last.ByteSizeLong();
  for (const uint64_t max_held_bytes : {both - 1, both, both + 1}) {
    SCOPED_TRACE(max_held_bytes);
    max_held_bytes_ = max_held_bytes;
    StartHolding();
    if (max_held_bytes < both) {
      ExpectError(Push(last), grpc::OUT_OF_RANGE,
                  {"round 1 alone", absl::StrCat(both), "--max_held_mb"});
      registry_->SetRoundMember(WorkerIndex(1), Generation(1), false);
    } else {
      EXPECT_TRUE(Push(last).ok());
    }
    EXPECT_TRUE(held_->Await().ok());
    TearDown();
    server_.reset();
  }
}

TEST_F(HeldPushTest, ThatComesAgainTakesNoRoomForItsMessage) {
  StartHolding();
  const uint64_t once = holds_->held_bytes();
  const v1::PushSparseRequest same =
      PushOf(HeaderOfPush(0, 1, 1), {{Key{1}, {1}}});
  grpc::Status status;
  std::thread again([&] { status = Push(same); });
  EXPECT_TRUE(Eventually([&] {
    return holds_->held_bytes() == once + HoldBudget::kCallBytes;
  })) << holds_->held_bytes();
  registry_->SetRoundMember(WorkerIndex(1), Generation(1), false);
  again.join();
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_TRUE(held_->Await().ok());
}

}  // namespace
}  // namespace oarlock::pserver
