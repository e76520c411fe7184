// What the data plane refuses, and with which words.

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "base/random.h"
#include "cluster/security.h"
#include "cluster/wire_version.h"
#include "pserver/service/parameter_service.h"
#include "tests/pserver/service/parameter_service_testing.h"
#include "tests/pserver/service/push_testing.h"

namespace oarlock::pserver {
namespace {

using ParameterServiceRefusalTest = ParameterServiceTest;

TEST_F(ParameterServiceRefusalTest, HeadersOfOthersAreRefused) {
  Start();
  ASSERT_TRUE(registry_->Create(SparseConfig(kDim, -1)).ok());
  const auto expect =
      [&](grpc::StatusCode code, const std::string& fragment,
          const std::function<void(v1::RequestHeader*)>& spoil) {
        v1::PushSparseRequest push =
            PushOf(HeaderOfPush(0, 1), {{Key{1}, {1, 1, 1}}});
        spoil(push.mutable_header());
        ExpectError(Push(push), code, {fragment});
      };
  for (uint32_t version : {0, 1, 3}) {
    expect(grpc::FAILED_PRECONDITION,
           absl::StrCat("protocol version ", version),
           [&](v1::RequestHeader* h) { h->set_protocol_version(version); });
  }
  expect(grpc::FAILED_PRECONDITION, "job",
         [](v1::RequestHeader* h) { h->set_job_hash(1); });
  expect(grpc::FAILED_PRECONDITION, cluster::kOtherGeneration,
         [](v1::RequestHeader* h) { h->set_server_generation(1); });
  expect(grpc::FAILED_PRECONDITION, "generation 1234",
         [](v1::RequestHeader* h) { h->set_server_generation(1); });
  expect(grpc::INVALID_ARGUMENT, "sequence 0",
         [](v1::RequestHeader* h) { h->set_sequence(0); });
  expect(grpc::INVALID_ARGUMENT, "",
         [](v1::RequestHeader* h) { h->set_worker_generation(0); });
  expect(grpc::INVALID_ARGUMENT, "",
         [](v1::RequestHeader* h) { h->set_worker_index(kNumWorkers); });
  expect(grpc::INVALID_ARGUMENT, "routing generation 0",
         [](v1::RequestHeader* h) { h->clear_routing_generation(); });
  expect(grpc::UNAVAILABLE, "routing generation 2, and this server has 1",
         [](v1::RequestHeader* h) { h->set_routing_generation(2); });
  EXPECT_TRUE(RowsOf(sparse()).empty());

  v1::PullSparseRequest any_generation = PullOf({Key{1}});
  any_generation.mutable_header()->set_server_generation(0);
  EXPECT_TRUE(Pull(any_generation).ok()) << "a reader, any incarnation";
}

TEST_F(ParameterServiceRefusalTest, OldestUnansweredIsInTheWindow) {
  Start();
  ASSERT_TRUE(registry_->Create(SparseConfig(1, -1)).ok());
  const auto push = [&](uint64_t sequence, uint64_t oldest) {
    v1::RequestHeader header = HeaderOfPush(0, sequence);
    header.set_oldest_unanswered(oldest);
    return Push(PushOf(header, {{Key{1}, {1}}}));
  };
  EXPECT_TRUE(push(1, 1).ok());
  EXPECT_TRUE(push(100, 37).ok());
  EXPECT_TRUE(push(100, 100).ok()) << "a repetition";
  ExpectError(push(100, 36), grpc::INVALID_ARGUMENT,
              {"push 100 has oldest_unanswered 36", "legal is 37 to 100"});
  ExpectError(push(100, 101), grpc::INVALID_ARGUMENT, {"legal is 37 to 100"});
  ExpectError(push(2, 0), grpc::INVALID_ARGUMENT, {"legal is 1 to 2"});
  v1::RequestHeader completion = HeaderOfPush(0, 5);
  completion.set_completing_worker(1);
  completion.set_completing_generation(1);
  ExpectError(Push(PushOf(completion, {{Key{1}, {1}}})), grpc::INVALID_ARGUMENT,
              {"completes another worker's", "oldest_unanswered 5"});
}

TEST_F(ParameterServiceRefusalTest, FencedWorkerIsAborted) {
  Start();
  ASSERT_TRUE(registry_->Create(SparseConfig(1, -1)).ok());
  v1::RequestHeader newer = HeaderOfPush(0, 1);
  newer.set_worker_generation(2);
  ASSERT_TRUE(Push(PushOf(newer, {{Key{1}, {1}}})).ok());
  ExpectError(Push(PushOf(HeaderOfPush(0, 1), {{Key{1}, {1}}})), grpc::ABORTED);
  EXPECT_EQ(RowsOf(sparse()).at(Key{1}), (std::vector<float>{1}));
}

TEST_F(ParameterServiceRefusalTest, PartitionOfAnotherServerHasMoved) {
  Start({}, /*num_servers=*/2);
  ASSERT_TRUE(registry_->Create(SparseConfig(1, -1)).ok());
  ASSERT_TRUE(registry_->Create(DenseConfig(16, 1, -1)).ok());
  std::vector<Key> keys;
  for (uint64_t key = 0; key < 100; ++key) keys.push_back(Key{key});
  ExpectError(Pull(PullOf(keys)), grpc::FAILED_PRECONDITION, {"moved"});
  v1::PullDenseRequest dense;
  *dense.mutable_header() = Header();
  dense.set_table(2);
  dense.add_blocks(15);
  dense.add_known_versions(0);
  v1::DenseResponse response;
  grpc::ClientContext context;
  ExpectError(stub_->PullDense(&context, dense, &response),
              grpc::FAILED_PRECONDITION, {"moved"});
}

TEST_F(ParameterServiceRefusalTest, WhatDoesNotFitTheTableIsInvalid) {
  Start();
  ASSERT_TRUE(registry_->Create(SparseConfig(kDim, -1)).ok());
  ASSERT_TRUE(registry_->Create(DenseConfig(10, 4, -1)).ok());
  const auto good = PushOf(HeaderOfPush(0, 1), {{Key{1}, {1, 1, 1}}});

  auto push = good;
  push.add_values(1);
  ExpectError(Push(push), grpc::INVALID_ARGUMENT,
              {"4 gradients", "legal is 3"});
  push = good;
  push.set_partitions(0, 1u << kTestPartitionBits);
  ExpectError(Push(push), grpc::INVALID_ARGUMENT, {"partition 16"});
  push = good;
  push.set_partitions(0, (good.partitions(0) + 1) % 16);
  ExpectError(Push(push), grpc::INVALID_ARGUMENT);
  push = good;
  push.set_table(2);
  ExpectError(Push(push), grpc::INVALID_ARGUMENT, {"'net' is dense"});
  push = good;
  push.set_table(3);
  ExpectError(Push(push), grpc::NOT_FOUND);

  v1::PullSparseRequest pull = PullOf({Key{1}});
  pull.set_partitions(0, (pull.partitions(0) + 1) % 16);
  ExpectError(Pull(pull), grpc::INVALID_ARGUMENT);
  pull = PullOf({Key{1}});
  pull.set_with_statistics(true);
  ExpectError(Pull(pull), grpc::INVALID_ARGUMENT, {"accessor keeps none"});
  pull = PullOf({Key{1}});
  pull.mutable_header()->set_min_version(1);
  ExpectError(Pull(pull), grpc::UNAVAILABLE, {"version 0"});

  v1::PushDenseRequest dense;
  *dense.mutable_header() = HeaderOfPush(0, 1);
  dense.set_table(2);
  dense.add_blocks(2);
  for (int i = 0; i < 4; ++i) dense.add_values(1);  // The last block has 2.
  v1::DenseResponse response;
  grpc::ClientContext context;
  ExpectError(stub_->PushDense(&context, dense, &response),
              grpc::INVALID_ARGUMENT, {"4 gradients", "legal is 2"});
  dense.set_blocks(0, 3);
  grpc::ClientContext context2;
  ExpectError(stub_->PushDense(&context2, dense, &response),
              grpc::INVALID_ARGUMENT, {"block 3"});
  EXPECT_TRUE(RowsOf(sparse()).empty());
  EXPECT_TRUE(Push(good).ok());
}

TEST_F(ParameterServiceRefusalTest,
       ResponseBeyondAMessageIsRefusedBeforeItIsMade) {
  Start();
  ASSERT_TRUE(registry_->Create(SparseConfig(1000, -1)).ok());
  std::vector<Key> keys;
  for (uint64_t key = 0; key < 20000; ++key) keys.push_back(Key{key});
  ExpectError(Pull(PullOf(keys)), grpc::OUT_OF_RANGE, {"20000000 floats"});
}

TEST_F(ParameterServiceRefusalTest, TokenIsDemandedOnEveryCall) {
  ParameterServiceOptions options;
  options.token = "secret";
  Start(options);
  ASSERT_TRUE(registry_->Create(SparseConfig(kDim, -1)).ok());
  ExpectError(Pull(PullOf({Key{1}})), grpc::UNAUTHENTICATED, {"no token"});
  ExpectError(Push(PushOf(HeaderOfPush(0, 1), {})), grpc::UNAUTHENTICATED);
  for (const bool right : {false, true}) {
    grpc::ClientContext context;
    context.AddMetadata(cluster::kTokenMetadataKey, right ? "secret" : "guess");
    v1::PullSparseResponse response;
    const grpc::Status status =
        stub_->PullSparse(&context, PullOf({Key{1}}), &response);
    EXPECT_EQ(status.error_code(), right ? grpc::OK : grpc::UNAUTHENTICATED);
  }
}

TEST_F(ParameterServiceRefusalTest, RandomBytesAreInvalidNotFatal) {
  Start();
  ASSERT_TRUE(registry_->Create(SparseConfig(kDim, -1)).ok());
  grpc::GenericStub generic(channel_);
  const std::string good =
      PushOf(HeaderOfPush(0, 1), RandomGradients(1, 9, 100, kDim))
          .SerializeAsString();
  RandomSequence random(5);
  int num_refused = 0;
  for (int i = 0; i < 400; ++i) {
    std::string bytes = good;
    for (int flips = 1 + random.Below(8); flips > 0; --flips) {
      bytes[random.Below(bytes.size())] = static_cast<char>(random());
    }
    bytes.resize(random.Below(2) == 0 ? bytes.size()
                                      : random.Below(bytes.size()));
    const char* const methods[] = {"PullSparse", "PushSparse", "PullDense",
                                   "PushDense"};
    const grpc::Slice slice(bytes);
    grpc::ByteBuffer request(&slice, 1);
    grpc::ByteBuffer response;
    grpc::ClientContext context;
    SetDeadline(&context);
    absl::Notification done;
    grpc::Status status;
    generic.UnaryCall(
        &context,
        absl::StrCat("/oarlock.v1.ParameterService/", methods[random.Below(4)]),
        grpc::StubOptions(), &request, &response, [&](grpc::Status s) {
          status = s;
          done.Notify();
        });
    done.WaitForNotification();
    num_refused += !status.ok();
    EXPECT_NE(status.error_code(), grpc::DEADLINE_EXCEEDED);
  }
  EXPECT_GT(num_refused, 200);
  EXPECT_TRUE(Pull(PullOf({Key{1}})).ok()) << "the server lives";
}

TEST(ParameterServiceOptionsTest, LimitsAreChecked) {
  ParameterServiceOptions options;
  EXPECT_TRUE(options.Validate().ok());
  options.max_response_bytes = 0;
  EXPECT_EQ(options.Validate().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace oarlock::pserver
