// Pushes that a round holds, when the server, or a part of it, goes.

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

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
           const v1::PushSparseRequest& request)
      : thread_([this, stub, request] {
          context_.set_deadline(GrpcDeadline(absl::Minutes(1)));
          v1::PushResponse response;
          status_ = stub->PushSparse(&context_, request, &response);
        }) {
    EXPECT_TRUE(Eventually([&] { return registry->HeldPushes() == 1; }));
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

TEST_F(HeldPushTest, CountsAsAnOpenCall) {
  ParameterServiceOptions options;
  options.max_open_calls = 1;
  StartHolding(options);
  ExpectError(Pull(PullOf({Key{1}})), grpc::RESOURCE_EXHAUSTED, {"up to 1"});
  registry_->SetRoundMember(WorkerIndex(1), Generation(1), false);
  EXPECT_TRUE(held_->Await().ok());
  // The held call is gone a moment after its caller knows.
  grpc::Status status;
  EXPECT_TRUE(Eventually([&] {
    status = Pull(PullOf({Key{1}}));
    return status.ok();
  })) << status.error_message();
}

}  // namespace
}  // namespace oarlock::pserver
