// What the parameter client sends, how often, and when it gives up.

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <future>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/mix.h"
#include "base/random.h"
#include "client/grpc_parameter_client.h"
#include "client/server_connections.h"
#include "cluster/wire_version.h"
#include "tests/client/blocking_calls.h"
#include "tests/client/parameter_client_testing.h"
#include "tests/client/recording_server.h"
#include "wire/value_format.h"

namespace oarlock::client {
namespace {

using ::testing::HasSubstr;

// One server that is not real, for what only the wire shows.
class WireTest : public ::testing::Test {
 protected:
  static constexpr uint32_t kDim = 64;

  void Connect(absl::Duration rpc_timeout = absl::Seconds(20),
               const ValueFormats& formats = {}) {
    ConnectionOptions options;
    options.endpoints = {server_.endpoint()};
    options.rpc_timeout = rpc_timeout;
    options.clocks.monotonic = &clock_;
    auto connections = ServerConnections::Connect(options);
    ASSERT_TRUE(connections.ok()) << connections.status();
    connections_ = *std::move(connections);
    client_ = std::make_unique<GrpcParameterClient>(
        connections_.get(), WorkerIndex(0), Generation(5), formats);
    ASSERT_TRUE(client_->CreateTable(SparseTableOf(kDim)).ok());
    ASSERT_TRUE(client_->CreateTable(DenseTableOf(600'000, 16384)).ok());
  }

  SkippingClock clock_;
  RecordingServer server_{kPartitions, kDim};
  std::unique_ptr<ServerConnections> connections_;
  std::unique_ptr<GrpcParameterClient> client_;
};

TEST_F(WireTest, PullIsSplitBetweenGroupsAtAboutTheTarget) {
  Connect();
  RandomSequence random(6);
  const std::vector<Key> keys = RandomKeys(random, 20'000, ~uint64_t{0});
  KeyBatch batch;
  batch.Build(keys, 6);
  RowBatch rows;
  ASSERT_TRUE(PullRows(*client_, kRows, keys, kDim, &rows).ok());
  const std::vector<v1::PullSparseRequest> pulls = server_.pulls();
  const size_t bytes_per_key = sizeof(Key) + kDim * sizeof(float);
  EXPECT_GE(pulls.size(),
            batch.keys().size() * bytes_per_key / kMessageBytesTarget);
  std::map<uint32_t, uint32_t> group_sizes;
  size_t num_keys = 0;
  for (const v1::PullSparseRequest& pull : pulls) {
    EXPECT_LE(pull.keys_size() * bytes_per_key, kMessageBytesTarget);
    num_keys += pull.keys_size();
    for (int g = 0; g < pull.partitions_size(); ++g) {
      // A group that was split would come twice.
      EXPECT_TRUE(
          group_sizes.emplace(pull.partitions(g), pull.group_sizes(g)).second);
    }
  }
  EXPECT_EQ(num_keys, batch.keys().size());
  ASSERT_EQ(group_sizes.size(), batch.groups().size());
  for (const KeyGroup& group : batch.groups()) {
    EXPECT_EQ(group_sizes.at(group.partition.value()), group.num_keys);
  }
}

TEST_F(WireTest, GroupBeyondTheTargetTravelsWhole) {
  Connect();
  // All in partition 0.
  std::vector<Key> keys;
  for (uint64_t i = 0; keys.size() < 5000; ++i) {
    if (PartitionOfMix(Mix(Key{i}), 6) == PartitionIndex(0)) {
      keys.push_back(Key{i});
    }
  }
  RowBatch rows;
  ASSERT_TRUE(PullRows(*client_, kRows, keys, kDim, &rows).ok());
  const std::vector<v1::PullSparseRequest> pulls = server_.pulls();
  ASSERT_EQ(pulls.size(), 1u);
  EXPECT_EQ(pulls[0].keys_size(), 5000);
}

TEST_F(WireTest, DensePushesTellTheVersionsThatATableGoesBy) {
  Connect();
  for (const uint32_t id : {3, 4}) {
    v1::TableConfig table = DenseTableOf(8, 2);
    table.set_id(id);
    table.mutable_dense()->set_staleness_power(id == 3 ? .5f : 0);
    ASSERT_TRUE(client_->CreateTable(table).ok());
    const auto replica = std::make_shared<DenseReplica>(
        DenseReplica{std::vector<float>(8, .25f), {5, 0, 6, 7}});
    PushRequest push;
    push.dense.push_back({TableId(id), replica->values.data(), 1,
                          /*updated=*/nullptr, replica->block_versions});
    ASSERT_TRUE(PushAndWait(*client_, push, replica).ok());
    push.dense[0].known_versions = {};
    ASSERT_TRUE(PushAndWait(*client_, push, replica).ok());
  }
  std::vector<std::vector<uint64_t>> reported;
  for (const v1::PushDenseRequest& push : server_.dense_pushes()) {
    reported.emplace_back(push.known_versions().begin(),
                          push.known_versions().end());
  }
  EXPECT_THAT(
      reported,
      testing::ElementsAre(testing::ElementsAre(5, 0, 6, 7), testing::IsEmpty(),
                           testing::IsEmpty(), testing::IsEmpty()));
}

TEST_F(WireTest, MessagesOfAPushShareItsSequenceAndTellTheirNumber) {
  Connect();
  RandomSequence random(7);
  auto rows = std::make_shared<RowBatch>(
      RandomRows(random, RandomKeys(random, 20'000, ~uint64_t{0}), kDim, 6));
  auto vector = std::make_shared<std::vector<float>>(600'000, .25f);
  const auto memory =
      std::make_shared<std::pair<decltype(rows), decltype(vector)>>(rows,
                                                                    vector);
  PushRequest push;
  push.sparse.push_back({kRows, &rows->keys, rows->values.data()});
  push.dense.push_back({kVector, vector->data(), 9});
  push.examples = {{2, 100, 200}, {3, 0, 7}};
  push.dense_examples = {{1, 5, 500}};
  push.epoch = 4;
  for (uint64_t sequence = 1; sequence <= 2; ++sequence) {
    ASSERT_TRUE(PushAndWait(*client_, push, memory).ok());
  }
  const auto sparse = server_.sparse_pushes();
  const auto dense = server_.dense_pushes();
  ASSERT_GT(sparse.size(), 4u);
  ASSERT_GT(dense.size(), 4u);
  // By sequence, the messages that have come.
  std::map<uint64_t, std::set<uint32_t>> messages;
  const auto check = [&](const v1::RequestHeader& header, size_t of_table) {
    EXPECT_EQ(header.worker_generation(), 5u);
    EXPECT_EQ(header.server_generation(), 77u);
    EXPECT_EQ(header.job_hash(), cluster::JobHash("default"));
    EXPECT_EQ(header.message_count(), (sparse.size() + dense.size()) / 2);
    EXPECT_EQ(header.table_message_count(), of_table / 2);
    EXPECT_TRUE(
        messages[header.sequence()].insert(header.message_index()).second);
    ASSERT_EQ(header.examples_size(), 2);
    EXPECT_EQ(header.examples(0).source(), 2u);
    EXPECT_EQ(header.examples(0).end(), 200u);
    EXPECT_EQ(header.examples(1).end(), 7u);
    EXPECT_EQ(header.examples(1).epoch(), 4u);
    ASSERT_EQ(header.dense_examples_size(), 1);
    EXPECT_EQ(header.dense_examples(0).source(), 1u);
    EXPECT_EQ(header.dense_examples(0).begin(), 5u);
    EXPECT_EQ(header.dense_examples(0).end(), 500u);
    EXPECT_EQ(header.dense_examples(0).epoch(), 4u);
    EXPECT_EQ(header.completing_generation(), 0u);
  };
  for (const auto& message : sparse) check(message.header(), sparse.size());
  std::map<uint64_t, std::multiset<uint32_t>> blocks;
  for (const auto& message : dense) {
    check(message.header(), dense.size());
    EXPECT_EQ(message.num_steps(), 9u);
    EXPECT_LE(message.values_size() * sizeof(float), kMessageBytesTarget);
    blocks[message.header().sequence()].insert(message.blocks().begin(),
                                               message.blocks().end());
  }
  ASSERT_EQ(messages.size(), 2u);
  for (uint64_t sequence = 1; sequence <= 2; ++sequence) {
    EXPECT_EQ(messages[sequence].size(), (sparse.size() + dense.size()) / 2);
    EXPECT_EQ(*messages[sequence].rbegin() + 1, messages[sequence].size());
    // 600,000 floats in blocks of 16,384, each once.
    std::multiset<uint32_t> all;
    for (uint32_t block = 0; block < 37; ++block) all.insert(block);
    EXPECT_EQ(blocks[sequence], all);
  }
}

TEST_F(WireTest, CompletedPushHasTheNameOfTheDeadAndTakesNoneOfItsOwn) {
  Connect();
  RandomSequence random(9);
  const auto rows = std::make_shared<RowBatch>(
      RandomRows(random, RandomKeys(random, 50, 1000), kDim, 6));
  PushRequest push;
  push.sparse.push_back({kRows, &rows->keys, rows->values.data()});
  ASSERT_TRUE(PushAndWait(*client_, push, rows).ok());
  // Far beyond this client's own sequences, and sent twice.
  push.completes = PushStamp{WorkerIndex(3), Generation(2), Sequence(1000)};
  server_.FailNext(1, grpc::StatusCode::UNAVAILABLE);
  ASSERT_TRUE(PushAndWait(*client_, push, rows).ok());
  push.completes = std::nullopt;
  ASSERT_TRUE(PushAndWait(*client_, push, rows).ok());
  const auto pushes = server_.sparse_pushes();
  ASSERT_EQ(pushes.size(), 4u);
  EXPECT_EQ(pushes[0].header().sequence(), 1u);
  EXPECT_EQ(pushes[1].SerializeAsString(), pushes[2].SerializeAsString());
  const v1::RequestHeader& header = pushes[1].header();
  EXPECT_EQ(header.worker_index(), 3u);
  EXPECT_EQ(header.worker_generation(), 2u);
  EXPECT_EQ(header.sequence(), 1000u);
  EXPECT_EQ(header.completing_worker(), 0u);
  EXPECT_EQ(header.completing_generation(), 5u);
  EXPECT_EQ(pushes[3].header().worker_generation(), 5u);
  EXPECT_EQ(pushes[3].header().sequence(), 2u);
}

TEST_F(WireTest, FullWindowOfOwnPushesDoesNotHoldUpACompletion) {
  Connect();
  server_.Hold();
  RandomSequence random(10);
  const auto rows = std::make_shared<RowBatch>(
      RandomRows(random, RandomKeys(random, 5, 1000), kDim, 6));
  PushRequest push;
  push.sparse.push_back({kRows, &rows->keys, rows->values.data()});
  constexpr int kOwnPushes = 100;
  absl::BlockingCounter answered(kOwnPushes + 1);
  for (int i = 0; i < kOwnPushes; ++i) {
    client_->Push(push, nullptr, rows,
                  [&](const absl::Status&) { answered.DecrementCount(); });
  }
  push.completes = PushStamp{WorkerIndex(3), Generation(2), Sequence(7)};
  client_->Push(push, nullptr, rows,
                [&](const absl::Status&) { answered.DecrementCount(); });
  ASSERT_TRUE(server_.AwaitCalls(
      static_cast<int>(GrpcParameterClient::kMaxSequencesAhead) + 2));
  uint64_t completions = 0;
  for (const v1::PushSparseRequest& sent : server_.sparse_pushes()) {
    completions += sent.header().completing_generation() != 0;
  }
  EXPECT_EQ(completions, 1u);
  server_.Answer(grpc::Status::OK);
  answered.Wait();
  EXPECT_EQ(server_.sparse_pushes().size(), kOwnPushes + 1u);
}

TEST_F(WireTest, RetriedPushIsTheSameMessageAgain) {
  Connect();
  RandomSequence random(8);
  const RowBatch rows =
      RandomRows(random, RandomKeys(random, 50, 1000), kDim, 6);
  for (const grpc::StatusCode code :
       {grpc::StatusCode::UNAVAILABLE, grpc::StatusCode::RESOURCE_EXHAUSTED}) {
    const size_t before = server_.sparse_pushes().size();
    server_.FailNext(2, code);
    const absl::Status status = PushRows(*client_, kRows, rows);
    EXPECT_TRUE(status.ok()) << status;
    const auto pushes = server_.sparse_pushes();
    ASSERT_EQ(pushes.size(), before + 3);
    for (size_t i = before; i < pushes.size(); ++i) {
      EXPECT_EQ(pushes[i].SerializeAsString(),
                pushes[before].SerializeAsString());
    }
  }
}

TEST_F(WireTest, SixteenBitPushHasHalfTheBytesAndARetryTheSame) {
  Connect(absl::Seconds(20), {.pull = v1::FLOAT16, .push = v1::BFLOAT16});
  RandomSequence random(12);
  const RowBatch rows =
      RandomRows(random, RandomKeys(random, 50, 1000), kDim, 6);
  server_.FailNext(1, grpc::StatusCode::UNAVAILABLE);
  ASSERT_TRUE(PushRows(*client_, kRows, rows).ok());
  const auto pushes = server_.sparse_pushes();
  ASSERT_EQ(pushes.size(), 2u);
  EXPECT_EQ(pushes[0].SerializeAsString(), pushes[1].SerializeAsString());
  EXPECT_EQ(pushes[0].format(), v1::BFLOAT16);
  EXPECT_EQ(pushes[0].values_size(), 0);
  EXPECT_EQ(pushes[0].values16().size(), rows.values.size() * 2);

  auto memory = std::make_shared<std::pair<std::vector<float>, DenseReplica>>();
  memory->first.assign(600'000, .25f);
  PushRequest push;
  push.dense.push_back({kVector, memory->first.data(), 1, &memory->second});
  // The responses are empty: nothing changed, which is legal.
  ASSERT_TRUE(PushAndWait(*client_, push, memory).ok());
  size_t bytes = 0;
  for (const v1::PushDenseRequest& message : server_.dense_pushes()) {
    EXPECT_EQ(message.format(), v1::BFLOAT16);
    EXPECT_EQ(message.response_format(), v1::FLOAT16);
    EXPECT_LE(message.values16().size(), kMessageBytesTarget);
    bytes += message.values16().size();
  }
  EXPECT_EQ(bytes, 1'200'000u);
  // Half as many messages as floats would need.
  EXPECT_EQ(server_.dense_pushes().size(), 2u);

  RowBatch pulled;
  ASSERT_TRUE(PullRows(*client_, kRows, {Key{1}}, kDim, &pulled).ok());
  ASSERT_EQ(server_.pulls().size(), 1u);
  EXPECT_EQ(server_.pulls()[0].format(), v1::FLOAT16);
}

TEST_F(WireTest, RefusalIsNotRetriedAndNamesTheServer) {
  Connect();
  server_.FailNext(100, grpc::StatusCode::ABORTED);
  RowBatch rows;
  const absl::Status status = PullRows(*client_, kRows, {Key{1}}, kDim, &rows);
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("as the test says"));
  EXPECT_THAT(std::string(status.message()), HasSubstr(server_.endpoint()));
  EXPECT_EQ(server_.pulls().size(), 1u);
}

TEST_F(WireTest, ResponseOfAnotherSizeIsAnError) {
  Connect();
  v1::TableConfig table = SparseTableOf(kDim * 2);
  table.set_id(7);
  ASSERT_TRUE(client_->CreateTable(table).ok());
  RowBatch rows;
  EXPECT_EQ(PullRows(*client_, TableId(7), {Key{1}}, kDim * 2, &rows).code(),
            absl::StatusCode::kInternal);
}

TEST_F(WireTest, SilentServerIsGivenUpAfterTheRpcTimeout) {
  const absl::Duration timeout = absl::Milliseconds(500);
  Connect(timeout);
  server_.Hold();
  RowBatch rows;
  std::future<absl::Status> pull = std::async(std::launch::async, [&] {
    return PullRows(*client_, kRows, {Key{1}}, kDim, &rows);
  });
  // While no time goes by it tries again, whatever the attempts take.
  EXPECT_TRUE(server_.AwaitCalls(3));
  clock_.Advance(timeout);
  const absl::Status status = pull.get();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(status.message()), HasSubstr("server 0 at"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("gave up after 500ms"));
}

TEST_F(WireTest, ClosingTheClientCancelsWhatIsUnderWay) {
  Connect();
  server_.Hold();
  auto memory = std::make_shared<RowBatch>();
  memory->keys.Build(std::vector<Key>{Key{1}}, 6);
  memory->values.resize(kDim);
  absl::Notification done;
  absl::Status status;
  client_->PullSparse(kRows, memory->keys, memory->values.data(), nullptr,
                      memory, [&](absl::Status result) {
                        status = std::move(result);
                        done.Notify();
                      });
  ASSERT_TRUE(server_.AwaitCalls(1));
  client_.reset();
  ASSERT_TRUE(done.HasBeenNotified());
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled);
}

TEST_F(WireTest, ClosingTheClientEndsABackoff) {
  Connect();
  server_.FailNext(1'000'000, grpc::StatusCode::UNAVAILABLE);
  absl::Notification done;
  auto memory = std::make_shared<RowBatch>();
  memory->keys.Build(std::vector<Key>{Key{1}}, 6);
  memory->values.resize(kDim);
  client_->PullSparse(kRows, memory->keys, memory->values.data(), nullptr,
                      memory, [&](absl::Status result) {
                        EXPECT_FALSE(result.ok());
                        done.Notify();
                      });
  ASSERT_TRUE(server_.AwaitCalls(3));
  client_.reset();
  EXPECT_TRUE(done.HasBeenNotified());
}

}  // namespace
}  // namespace oarlock::client
