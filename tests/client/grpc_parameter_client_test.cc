#include "client/grpc_parameter_client.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "base/random.h"
#include "cluster/wire_version.h"
#include "fleet/local_cluster.h"
#include "tests/base/eventually.h"
#include "tests/base/skippable_clock.h"
#include "tests/client/blocking_calls.h"
#include "tests/client/parameter_client_testing.h"
#include "tests/integration/mini_cluster.h"
#include "wire/value_format.h"
#include "wire/wire_codec.h"

namespace oarlock::client {
namespace {

using ::testing::HasSubstr;

// Servers with one worker, and a table in this process that gets the same
// calls: what it holds is what the servers must hold.
class GrpcParameterClientTest : public ::testing::TestWithParam<uint32_t> {
 protected:
  void SetUp() override {
    MiniClusterOptions options;
    options.num_servers = GetParam();
    options.num_partitions = kPartitions;
    auto cluster = MiniCluster::Start(options);
    ASSERT_TRUE(cluster.ok()) << cluster.status();
    cluster_ = *std::move(cluster);
    auto worker = MiniWorker::Join(*cluster_, 0);
    ASSERT_TRUE(worker.ok()) << worker.status();
    worker_ = *std::move(worker);
  }

  void CreateTables(const std::vector<v1::TableConfig>& tables) {
    for (const v1::TableConfig& table : tables) {
      const absl::Status status = client().CreateTable(table);
      ASSERT_TRUE(status.ok()) << status;
      ASSERT_TRUE(local_.CreateTable(table).ok());
    }
  }

  void ExpectSameRows(const std::vector<Key>& keys, size_t dim) {
    RowBatch rows;
    RowBatch expected;
    const absl::Status status = PullRows(client(), kRows, keys, dim, &rows);
    ASSERT_TRUE(status.ok()) << status;
    ASSERT_TRUE(PullRows(local_, kRows, keys, dim, &expected).ok());
    ASSERT_EQ(rows.values, expected.values);
  }

  void ExpectSameVector() {
    DenseReplica expected;
    ASSERT_TRUE(PullAll(local_, kVector, &expected).ok());
    const absl::Status status = PullAll(client(), kVector, &replica_);
    ASSERT_TRUE(status.ok()) << status;
    ASSERT_EQ(replica_.values, expected.values);
  }

  GrpcParameterClient& client() { return worker_->parameters(); }

  std::unique_ptr<MiniCluster> cluster_;
  std::unique_ptr<MiniWorker> worker_;
  LocalParameterClient local_{kPartitions};
  // Kept from pull to pull, so that blocks are left out when unchanged.
  DenseReplica replica_;
};

TEST_P(GrpcParameterClientTest, InitialValuesAreThoseOfALocalTable) {
  CreateTables({SparseTableOf(7), DenseTableOf(1000, 64)});
  RandomSequence random(1);
  ExpectSameRows(RandomKeys(random, 2000, ~uint64_t{0}), 7);
  ExpectSameVector();
}

TEST_P(GrpcParameterClientTest, PushesChangeWhatALocalTableWouldChange) {
  const uint64_t seed = 2;
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  CreateTables({SparseTableOf(3), DenseTableOf(1000, 64)});
  RandomSequence random(seed);
  for (int step = 0; step < 12; ++step) {
    auto rows = std::make_shared<RowBatch>(
        RandomRows(random, RandomKeys(random, random.Below(300), 500), 3, 6));
    auto vector = std::make_shared<std::vector<float>>(1000);
    for (float& value : *vector) value = static_cast<float>(random.Uniform());
    PushRequest push;
    if (step % 3 != 1) {
      push.sparse.push_back({kRows, &rows->keys, rows->values.data()});
    }
    if (step % 3 != 2) push.dense.push_back({kVector, vector->data(), 1});
    const absl::Status status = PushAndWait(
        client(), push,
        std::make_shared<std::pair<decltype(rows), decltype(vector)>>(rows,
                                                                      vector));
    ASSERT_TRUE(status.ok()) << status;
    ASSERT_TRUE(PushAndWait(local_, push, nullptr).ok());
    ExpectSameRows(RandomKeys(random, 300, 600), 3);
    ExpectSameVector();
  }
}

TEST_P(GrpcParameterClientTest, BatchesOfManyMessagesEqualALocalTable) {
  constexpr size_t kDim = 64;
  CreateTables({SparseTableOf(kDim), DenseTableOf(600'000, 16384)});
  RandomSequence random(3);
  const std::vector<Key> keys = RandomKeys(random, 12'000, ~uint64_t{0});
  const RowBatch rows = RandomRows(random, keys, kDim, 6);
  ASSERT_GT(rows.values.size() * sizeof(float), 2 * kMessageBytesTarget);
  ExpectSameRows(keys, kDim);
  const absl::Status pushed = PushRows(client(), kRows, rows);
  ASSERT_TRUE(pushed.ok()) << pushed;
  ASSERT_TRUE(PushRows(local_, kRows, rows).ok());
  ExpectSameRows(keys, kDim);

  auto vector = std::make_shared<std::vector<float>>(600'000, .25f);
  PushRequest push;
  push.dense.push_back({kVector, vector->data(), 1});
  const absl::Status status = PushAndWait(client(), push, vector);
  ASSERT_TRUE(status.ok()) << status;
  ASSERT_TRUE(PushAndWait(local_, push, vector).ok());
  ExpectSameVector();
}

TEST_P(GrpcParameterClientTest, DensePushReturnsTheParametersItMade) {
  CreateTables({DenseTableOf(600'000, 16384)});
  struct Memory {
    std::vector<float> gradients;
    DenseReplica updated;
  };
  for (int step = 1; step <= 3; ++step) {
    auto remote = std::make_shared<Memory>();
    auto local = std::make_shared<Memory>();
    remote->gradients.assign(600'000, .25f * static_cast<float>(step));
    PushRequest push;
    push.dense.push_back(
        {kVector, remote->gradients.data(), 1, &remote->updated});
    const absl::Status status = PushAndWait(client(), push, remote);
    ASSERT_TRUE(status.ok()) << status;
    push.dense[0].updated = &local->updated;
    ASSERT_TRUE(PushAndWait(local_, push, local).ok());
    ASSERT_EQ(remote->updated.values, local->updated.values);
    // With their versions: a pull finds nothing newer.
    DenseReplica pulled;
    ASSERT_TRUE(PullAll(client(), kVector, &pulled).ok());
    ASSERT_EQ(remote->updated.block_versions, pulled.block_versions);
  }
  ExpectSameVector();
}

TEST_P(GrpcParameterClientTest, StaleDenseGradientsMoveParametersByLess) {
  v1::TableConfig table = DenseTableOf(1000, 64);
  table.mutable_dense()->set_staleness_power(1);
  table.mutable_optimizer()->Clear();
  table.mutable_optimizer()->mutable_sgd();
  table.mutable_optimizer()->set_learning_rate(-1);
  CreateTables({table});
  DenseReplica begin;
  ASSERT_TRUE(PullAll(client(), kVector, &begin).ok());
  std::vector<float> expected = begin.values;
  // All computed at the beginning: the second misses one update, the third two.
  for (const float move : {1.0f, 1.0f / 2, 1.0f / 3}) {
    const auto memory = std::make_shared<std::vector<float>>(1000, 1);
    PushRequest push;
    push.dense.push_back({kVector, memory->data(), 1, /*updated=*/nullptr,
                          begin.block_versions});
    ASSERT_TRUE(PushAndWait(client(), push, memory).ok());
    DenseReplica now;
    ASSERT_TRUE(PullAll(client(), kVector, &now).ok());
    for (size_t i = 0; i < expected.size(); ++i) {
      ASSERT_FLOAT_EQ(now.values[i], expected[i] += move) << i;
    }
  }
}

// A pull that is queued for a batch.
struct QueuedPull {
  absl::Notification done;
  absl::Status status;
};
std::shared_ptr<QueuedPull> EnqueuePull(GrpcParameterClient& client,
                                        const std::shared_ptr<RowBatch>& rows,
                                        size_t dim) {
  rows->values.resize(rows->keys.keys().size() * dim);
  auto pull = std::make_shared<QueuedPull>();
  client.EnqueuePullSparse(kRows, rows->keys, rows->values.data(), nullptr,
                           rows, [pull](absl::Status status) {
                             pull->status = std::move(status);
                             pull->done.Notify();
                           });
  return pull;
}

TEST_P(GrpcParameterClientTest, QueuedPullTravelsBehindTheNextPush) {
  CreateTables({SparseTableOf(3)});
  RandomSequence random(8);
  // On every server, so that the push goes to each of them.
  const std::vector<Key> keys = RandomKeys(random, 500, ~uint64_t{0});
  const RowBatch gradients = RandomRows(random, keys, 3, 6);
  // A server that has not heard of the worker yet asks for the push once more,
  // and the pull behind it would not see it.
  ASSERT_TRUE(PushRows(client(), kRows, gradients).ok());
  ASSERT_TRUE(PushRows(local_, kRows, gradients).ok());
  auto rows = std::make_shared<RowBatch>();
  rows->keys.Build(keys, 6);
  const std::shared_ptr<QueuedPull> pull = EnqueuePull(client(), rows, 3);
  EXPECT_FALSE(pull->done.HasBeenNotified());
  ASSERT_TRUE(PushRows(client(), kRows, gradients).ok());
  ASSERT_TRUE(pull->done.WaitForNotificationWithTimeout(absl::Minutes(1)));
  ASSERT_TRUE(pull->status.ok()) << pull->status;
  // It sees that push.
  ASSERT_TRUE(PushRows(local_, kRows, gradients).ok());
  RowBatch expected;
  ASSERT_TRUE(PullRows(local_, kRows, keys, 3, &expected).ok());
  EXPECT_EQ(rows->values, expected.values);
}

TEST_P(GrpcParameterClientTest, QueuedPullIsSentByFlush) {
  CreateTables({SparseTableOf(3)});
  RandomSequence random(9);
  auto first = std::make_shared<RowBatch>();
  auto second = std::make_shared<RowBatch>();
  first->keys.Build(RandomKeys(random, 200, ~uint64_t{0}), 6);
  second->keys.Build(RandomKeys(random, 200, ~uint64_t{0}), 6);
  const std::shared_ptr<QueuedPull> one = EnqueuePull(client(), first, 3);
  const std::shared_ptr<QueuedPull> two = EnqueuePull(client(), second, 3);
  client().Flush(&random);
  EXPECT_FALSE(one->done.HasBeenNotified());
  client().Flush(second.get());
  for (const std::shared_ptr<QueuedPull>& pull : {one, two}) {
    ASSERT_TRUE(pull->done.WaitForNotificationWithTimeout(absl::Minutes(1)));
    EXPECT_TRUE(pull->status.ok()) << pull->status;
  }
}

TEST_P(GrpcParameterClientTest, QueuedPullIsCancelledWithTheClient) {
  CreateTables({SparseTableOf(3)});
  auto rows = std::make_shared<RowBatch>();
  rows->keys.Build(std::vector<Key>{Key{1}}, 6);
  std::shared_ptr<QueuedPull> pull;
  {
    GrpcParameterClient other(&worker_->connections(), WorkerIndex(0),
                              worker_->job().generation());
    ASSERT_TRUE(other.CreateTable(SparseTableOf(3)).ok());
    pull = EnqueuePull(other, rows, 3);
  }
  ASSERT_TRUE(pull->done.HasBeenNotified());
  EXPECT_EQ(pull->status.code(), absl::StatusCode::kCancelled);
}

// Every pair of formats: the tables get the rounded gradients and the caller
// the rounded values of tables that hold floats.
TEST_P(GrpcParameterClientTest, SixteenBitValuesAreRoundedOnTheWayAndNoMore) {
  constexpr uint64_t kSeed = 11;
  SCOPED_TRACE(absl::StrCat("seed ", kSeed));
  constexpr size_t kDim = 5, kSize = 40'000;
  constexpr v1::ValueFormat kFormats[] = {v1::FLOAT32, v1::BFLOAT16,
                                          v1::FLOAT16};
  struct Memory {
    RowBatch rows;
    std::vector<float> vector;
    DenseReplica updated;
  };
  CreateTables({SparseTableOf(kDim), DenseTableOf(kSize, 1024)});
  RandomSequence random(kSeed);
  for (int pair = 0; pair < 9; ++pair) {
    const ValueFormats formats = {kFormats[pair % 3], kFormats[pair / 3]};
    SCOPED_TRACE(absl::StrCat("pull ", v1::ValueFormat_Name(formats.pull),
                              " push ", v1::ValueFormat_Name(formats.push)));
    // A generation of its own, as it numbers its pushes from 1.
    worker_ = nullptr;
    auto worker = MiniWorker::Join(*cluster_, 0);
    ASSERT_TRUE(worker.ok()) << worker.status();
    worker_ = *std::move(worker);
    GrpcParameterClient client(&worker_->connections(), WorkerIndex(0),
                               worker_->job().generation(), formats);
    ASSERT_TRUE(client.CreateTable(SparseTableOf(kDim)).ok());
    ASSERT_TRUE(client.CreateTable(DenseTableOf(kSize, 1024)).ok());

    auto remote = std::make_shared<Memory>();
    remote->rows = RandomRows(random, RandomKeys(random, 700, 1000), kDim, 6);
    // Beyond float16's range: arrives as its largest value.
    remote->rows.values[0] = 1e6f;
    for (size_t i = 0; i < kSize; ++i) {
      remote->vector.push_back(static_cast<float>(random.Uniform() - .5));
    }
    auto local = std::make_shared<Memory>(*remote);
    local->rows.values = Rounded(formats.push, local->rows.values);
    local->vector = Rounded(formats.push, local->vector);
    const auto push = [](ParameterClient& to, std::shared_ptr<Memory> memory) {
      PushRequest request;
      request.sparse.push_back(
          {kRows, &memory->rows.keys, memory->rows.values.data()});
      request.dense.push_back(
          {kVector, memory->vector.data(), 1, &memory->updated});
      return PushAndWait(to, request, memory);
    };
    const absl::Status status = push(client, remote);
    ASSERT_TRUE(status.ok()) << status;
    ASSERT_TRUE(push(local_, local).ok());
    ASSERT_EQ(remote->updated.values,
              Rounded(formats.pull, local->updated.values));

    RowBatch rows;
    RowBatch expected;
    const std::vector<Key> keys = RandomKeys(random, 700, 1100);
    ASSERT_TRUE(PullRows(client, kRows, keys, kDim, &rows).ok());
    ASSERT_TRUE(PullRows(local_, kRows, keys, kDim, &expected).ok());
    ASSERT_EQ(rows.values, Rounded(formats.pull, expected.values));
    DenseReplica vector;
    ASSERT_TRUE(PullAll(client, kVector, &vector).ok());
    ASSERT_EQ(vector.values, remote->updated.values);
  }
}

TEST_P(GrpcParameterClientTest, EmptyPullAndPushAreDone) {
  CreateTables({SparseTableOf(3)});
  RowBatch rows;
  EXPECT_TRUE(PullRows(client(), kRows, {}, 3, &rows).ok());
  EXPECT_TRUE(PushAndWait(client(), PushRequest(), nullptr).ok());
  EXPECT_TRUE(PushRows(client(), kRows, RowBatch()).ok());
}

TEST_P(GrpcParameterClientTest, VersionsCountTheServersPushes) {
  CreateTables({SparseTableOf(3)});
  RandomSequence random(4);
  const std::vector<Key> keys = RandomKeys(random, 1000, ~uint64_t{0});
  for (uint64_t pushes = 1; pushes <= 3; ++pushes) {
    TableVersions pushed;
    ASSERT_TRUE(
        PushRows(client(), kRows, RandomRows(random, keys, 3, 6), &pushed)
            .ok());
    RowBatch rows;
    TableVersions pulled;
    ASSERT_TRUE(PullRows(client(), kRows, keys, 3, &rows, &pulled).ok());
    EXPECT_EQ(pushed, TableVersions(GetParam(), pushes));
    EXPECT_EQ(pulled, TableVersions(GetParam(), pushes));
  }
}

TEST_P(GrpcParameterClientTest, OtherTableOfTheSameNameIsRefused) {
  CreateTables({SparseTableOf(3)});
  EXPECT_TRUE(client().CreateTable(SparseTableOf(3)).ok());
  const absl::Status status = client().CreateTable(SparseTableOf(4));
  EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(status.message()), HasSubstr("embedding"));
}

TEST_P(GrpcParameterClientTest, ReaderPullsAndMayNotPush) {
  CreateTables({SparseTableOf(3)});
  GrpcParameterClient reader(&worker_->connections(), WorkerIndex(0),
                             Generation(0));
  ASSERT_TRUE(reader.CreateTable(SparseTableOf(3)).ok());
  RandomSequence random(5);
  const std::vector<Key> keys = RandomKeys(random, 50, 1000);
  RowBatch rows;
  EXPECT_TRUE(PullRows(reader, kRows, keys, 3, &rows).ok());
  EXPECT_FALSE(PushRows(reader, kRows, RandomRows(random, keys, 3, 6)).ok());
  ExpectSameRows(keys, 3);
}

// A push of one key through the data plane alone, under `sequence`.
absl::Status PushOnce(const MiniWorker& worker, Generation generation,
                      DataPlane& data_plane, Key key, float gradient,
                      uint64_t sequence) {
  const PartitionIndex partition =
      worker.connections().partition_map().PartitionOf(key);
  const ServerIndex server =
      worker.connections().partition_map().Owner(partition);
  v1::RequestHeader header;
  header.set_protocol_version(cluster::kProtocolVersion);
  header.set_job_hash(worker.connections().job_hash());
  header.set_routing_generation(
      worker.connections().partition_map().generation());
  header.set_server_generation(worker.connections().generation(server).value());
  header.set_worker_generation(generation.value());
  header.set_sequence(sequence);
  header.set_oldest_unanswered(sequence);
  header.set_message_count(1);
  header.set_table_message_count(1);
  const KeyGroup group{partition, 1};
  absl::Notification done;
  absl::Status status;
  DataPlane::Call call = {wire::BatchMethod::kPushSparse,
                          [&](Generation) {
                            return wire::EncodePushSparseRequest(
                                header, kRows, absl::MakeConstSpan(&group, 1),
                                grpc::Slice(&key, sizeof key),
                                grpc::Slice(&gradient, sizeof gradient));
                          },
                          [&](absl::StatusOr<grpc::ByteBuffer> response) {
                            status = response.status();
                            done.Notify();
                          }};
  data_plane.Send(server, std::move(call), absl::Seconds(10));
  done.WaitForNotification();
  return status;
}

TEST_P(GrpcParameterClientTest, PushThatComesTwiceIsAppliedOnce) {
  CreateTables({SparseTableOf(1)});
  CompletionThread completions(&worker_->connections());
  DataPlane data_plane(&worker_->connections(), &completions);
  RowBatch gradient;
  gradient.keys.Build(std::vector<Key>{Key{42}}, 6);
  gradient.values = {.5f};
  ASSERT_TRUE(PushRows(local_, kRows, gradient).ok());
  const Generation generation = worker_->job().generation();
  for (int time = 0; time < 3; ++time) {
    const absl::Status status =
        PushOnce(*worker_, generation, data_plane, Key{42}, .5f, 1);
    ASSERT_TRUE(status.ok()) << status;
    ExpectSameRows({Key{42}}, 1);
  }
  // Another sequence is another push.
  ASSERT_TRUE(PushOnce(*worker_, generation, data_plane, Key{42}, .5f, 2).ok());
  ASSERT_TRUE(PushRows(local_, kRows, gradient).ok());
  ExpectSameRows({Key{42}}, 1);
}

INSTANTIATE_TEST_SUITE_P(Servers, GrpcParameterClientTest,
                         ::testing::Values(1u, 3u));

// Moves the clock on until `condition` holds, which may wait for a moment, and
// tells whether it does. In small steps: an attempt that seems to have taken
// longer than the retry timeout counts as one that was served.
bool SkipUntil(SkippableClock* clock, const std::function<bool()>& condition) {
  return Eventually([&] {
    clock->Skip(absl::Seconds(1));
    return condition();
  });
}

TEST(GrpcParameterClientShutdownTest, ServerThatGoesIsAnErrorAndNoHang) {
  SkippableClock clock;
  MiniClusterOptions options;
  options.num_servers = 2;
  options.client_clocks = {.wall = &clock, .monotonic = &clock};
  auto cluster = MiniCluster::Start(options);
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  auto worker = MiniWorker::Join(**cluster, 0);
  ASSERT_TRUE(worker.ok()) << worker.status();
  GrpcParameterClient& client = (*worker)->parameters();
  ASSERT_TRUE(client.CreateTable(SparseTableOf(8)).ok());
  RandomSequence random(9);
  const std::vector<Key> keys = RandomKeys(random, 1000, ~uint64_t{0});
  RowBatch rows;
  ASSERT_TRUE(PullRows(client, kRows, keys, 8, &rows).ok());
  (*cluster)->StopServer(1);
  const std::function<absl::Status()> calls[] = {
      [&] { return PullRows(client, kRows, keys, 8, &rows); },
      [&] { return PushRows(client, kRows, rows); }};
  for (const std::function<absl::Status()>& call : calls) {
    std::future<absl::Status> result = std::async(std::launch::async, call);
    EXPECT_TRUE(SkipUntil(&clock, [&] {
      return result.wait_for(std::chrono::milliseconds(10)) ==
             std::future_status::ready;
    }));
    const absl::Status status = result.get();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("server 1 at " + (*cluster)->endpoints()[1]));
    EXPECT_THAT(std::string(status.message()), HasSubstr("gave up after 20s"));
  }
}

// A round of sync mode is answered when all have pushed: one that waits when
// its server goes must not wait on.
TEST(GrpcParameterClientShutdownTest, WaitingRoundEndsWithItsServer) {
  SkippableClock clock;
  MiniClusterOptions options;
  options.num_workers = 2;
  // The round is asked for again after so long.
  options.rpc_timeout = absl::Seconds(2);
  options.client_clocks = {.wall = &clock, .monotonic = &clock};
  auto cluster = MiniCluster::Start(options);
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  auto worker = MiniWorker::Join(**cluster, 0);
  auto other = MiniWorker::Join(**cluster, 1);
  ASSERT_TRUE(worker.ok() && other.ok());
  v1::TableConfig table = SparseTableOf(8);
  table.set_mode(v1::SYNC);
  ASSERT_TRUE((*worker)->parameters().CreateTable(table).ok());
  ASSERT_TRUE((*worker)->job().JoinRounds().ok());
  ASSERT_TRUE((*other)->job().JoinRounds().ok());
  RandomSequence random(10);
  auto rows = std::make_shared<RowBatch>(
      RandomRows(random, RandomKeys(random, 10, 1000), 8, 6));
  PushRequest push;
  push.sparse.push_back({kRows, &rows->keys, rows->values.data()});
  push.round = 1;
  absl::Notification done;
  absl::Status status;
  (*worker)->parameters().Push(push, nullptr, rows, [&](absl::Status result) {
    status = std::move(result);
    done.Notify();
  });
  EXPECT_FALSE(done.HasBeenNotified());
  (*cluster)->StopServer(0);
  ASSERT_TRUE(SkipUntil(&clock, [&] {
    return done.WaitForNotificationWithTimeout(absl::Milliseconds(10));
  }));
  EXPECT_FALSE(status.ok());
}

}  // namespace
}  // namespace oarlock::client
