#include "pserver/service/parameter_service.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "base/push_window.h"
#include "tests/pserver/service/parameter_service_testing.h"
#include "tests/pserver/service/push_testing.h"
#include "wire/value_format.h"

namespace oarlock::pserver {
namespace {

TEST_F(ParameterServiceTest, GeneratedStubPushesAndPullsRows) {
  Start();
  ASSERT_TRUE(registry_->Create(SparseConfig(kDim, -1)).ok());
  const SparseGradients gradients = RandomGradients(1, 3000, 1u << 30, kDim);
  v1::PushResponse pushed;
  ASSERT_TRUE(Push(PushOf(HeaderOfPush(0, 1), gradients), &pushed).ok());
  EXPECT_EQ(pushed.header().server_generation(), kServerGeneration);
  EXPECT_EQ(pushed.header().routing_generation(), 1u);
  EXPECT_EQ(pushed.header().table_version(), 1u);
  EXPECT_EQ(pushed.duplicate_groups(), 0u);
  EXPECT_EQ(RowsOf(sparse()), gradients);

  std::vector<Key> keys;
  for (const auto& [key, gradient] : gradients) keys.push_back(key);
  keys.push_back(Key{~uint64_t{0}});  // Has no row.
  const v1::PullSparseRequest pull = PullOf(keys);
  v1::PullSparseResponse pulled;
  ASSERT_TRUE(Pull(pull, &pulled).ok());
  EXPECT_EQ(pulled.dim(), kDim);
  EXPECT_EQ(pulled.group_versions_size(), pull.partitions_size());
  EXPECT_EQ(pulled.header().table_version(), 1u);
  ASSERT_EQ(pulled.values_size(), pull.keys_size() * static_cast<int>(kDim));
  for (int i = 0; i < pull.keys_size(); ++i) {
    const auto found = gradients.find(Key{pull.keys(i)});
    for (uint32_t d = 0; d < kDim; ++d) {
      ASSERT_EQ(pulled.values(i * kDim + d),
                found == gradients.end() ? 0 : found->second[d]);
    }
  }
  EXPECT_EQ(RowsOf(sparse()).size(), gradients.size())
      << "a pull creates nothing";
}

TEST_F(ParameterServiceTest, StatisticsArePushedAndPulled) {
  Start();
  v1::TableConfig config = SparseConfig(kDim, -1);
  config.mutable_sparse()->set_accessor(v1::CTR);
  ASSERT_TRUE(registry_->Create(config).ok());
  const SparseGradients gradients = RandomGradients(1, 1000, 1u << 30, kDim);
  v1::PushSparseRequest push = PushOf(HeaderOfPush(0, 1), gradients);
  std::map<uint64_t, std::pair<float, float>> expected;
  for (int i = 0; i < push.keys_size(); ++i) {
    push.add_shows(static_cast<float>(i));
    push.add_clicks(static_cast<float>(i % 7));
    expected[push.keys(i)] = {2.0f * i, 2.0f * (i % 7)};
  }
  ASSERT_TRUE(Push(push).ok());
  push.mutable_header()->set_sequence(2);
  push.mutable_header()->set_oldest_unanswered(2);
  ASSERT_TRUE(Push(push).ok());
  ASSERT_TRUE(Push(push).ok()) << "repeated, and not counted again";
  // Without statistics a push adds none.
  push.mutable_header()->set_sequence(3);
  push.mutable_header()->set_oldest_unanswered(3);
  push.clear_shows();
  push.clear_clicks();
  ASSERT_TRUE(Push(push).ok());

  std::vector<Key> keys;
  for (const auto& [key, gradient] : gradients) keys.push_back(key);
  keys.push_back(Key{~uint64_t{0}});  // Has no row.
  v1::PullSparseRequest pull = PullOf(keys);
  v1::PullSparseResponse pulled;
  ASSERT_TRUE(Pull(pull, &pulled).ok());
  EXPECT_EQ(pulled.shows_size(), 0);
  EXPECT_EQ(pulled.clicks_size(), 0);
  for (const v1::ValueFormat format : {v1::FLOAT32, v1::BFLOAT16}) {
    pull.set_with_statistics(true);
    pull.set_format(format);
    ASSERT_TRUE(Pull(pull, &pulled).ok());
    ASSERT_EQ(pulled.shows_size(), pull.keys_size());
    ASSERT_EQ(pulled.clicks_size(), pull.keys_size());
    for (int i = 0; i < pull.keys_size(); ++i) {
      const auto [show, click] = expected[pull.keys(i)];
      ASSERT_EQ(pulled.shows(i), show);
      ASSERT_EQ(pulled.clicks(i), click);
      if (format != v1::FLOAT32) continue;
      const auto found = gradients.find(Key{pull.keys(i)});
      ASSERT_EQ(pulled.values(i * kDim),
                found == gradients.end() ? 0 : 3 * found->second[0]);
    }
  }

  push.mutable_header()->set_sequence(4);
  push.mutable_header()->set_oldest_unanswered(4);
  for (int i = 0; i < push.keys_size(); ++i) push.add_shows(i == 3 ? -1 : 1);
  ExpectError(Push(push), grpc::INVALID_ARGUMENT, {"show -1", "number 3"});
}

TEST_F(ParameterServiceTest, AGradientThatIsNotFiniteIsRefused) {
  Start();
  ASSERT_TRUE(registry_->Create(SparseConfig(kDim, -1)).ok());
  for (const float bad : {NAN, INFINITY}) {
    ExpectError(Push(PushOf(HeaderOfPush(0, 1), {{Key{3}, {1, bad, 1}}})),
                grpc::INVALID_ARGUMENT,
                {"gradient", "place 1", "allow_nonfinite"});
  }
  EXPECT_TRUE(Push(PushOf(HeaderOfPush(0, 1), {{Key{3}, {1, 1, 1}}})).ok());
  EXPECT_EQ(RowsOf(sparse()).at(Key{3}), (std::vector<float>{1, 1, 1}));
}

TEST_F(ParameterServiceTest, StatisticsStayFinite) {
  Start();
  v1::TableConfig config = SparseConfig(1, -1);
  config.mutable_sparse()->set_accessor(v1::CTR);
  ASSERT_TRUE(registry_->Create(config).ok());
  constexpr float kMax = std::numeric_limits<float>::max();
  for (const uint64_t sequence : {1, 2}) {
    v1::PushSparseRequest push =
        PushOf(HeaderOfPush(0, sequence), {{Key{3}, {1}}});
    push.add_shows(kMax);
    push.add_clicks(kMax);
    ASSERT_TRUE(Push(push).ok());
  }
  v1::PullSparseRequest pull = PullOf({Key{3}});
  pull.set_with_statistics(true);
  v1::PullSparseResponse pulled;
  ASSERT_TRUE(Pull(pull, &pulled).ok());
  EXPECT_EQ(pulled.shows(0), kMax);
  EXPECT_EQ(pulled.clicks(0), kMax);
}

TEST_F(ParameterServiceTest, SequencesHaveALimit) {
  Start();
  ASSERT_TRUE(registry_->Create(SparseConfig(1, -1)).ok());
  for (const uint64_t sequence :
       {kMaxSequence - 1, kMaxSequence, kMaxSequence + 1, ~uint64_t{0}}) {
    SCOPED_TRACE(sequence);
    const grpc::Status status =
        Push(PushOf(HeaderOfPush(0, sequence), {{Key{3}, {1}}}));
    EXPECT_EQ(status.error_code(),
              sequence > kMaxSequence ? grpc::INVALID_ARGUMENT : grpc::OK)
        << status.error_message();
  }
}

TEST_F(ParameterServiceTest, AKeyThatIsNotAdmittedHasItsInitialValue) {
  Start();
  v1::TableConfig config = SparseConfig(kDim, -1);
  config.mutable_sparse()->mutable_initializer()->set_constant(0.5f);
  config.mutable_sparse()->mutable_admission()->mutable_count()->set_pushes(3);
  ASSERT_TRUE(registry_->Create(config).ok());
  for (uint64_t sequence = 1; sequence <= 4; ++sequence) {
    const auto push = PushOf(HeaderOfPush(0, sequence), {{Key{3}, {1, 1, 1}}});
    ASSERT_TRUE(Push(push).ok());
    ASSERT_TRUE(Push(push).ok()) << "repeated, and not counted again";
    v1::PullSparseResponse pulled;
    ASSERT_TRUE(Pull(PullOf({Key{3}}), &pulled).ok());
    EXPECT_EQ(pulled.values(0), sequence < 3 ? 0.5f : 0.5f + (sequence - 2));
  }
  const v1::TableStatus status = registry_->Describe()[0];
  EXPECT_EQ(status.rows(), 1u);
  EXPECT_EQ(status.admitted_rows(), 1u);
  EXPECT_EQ(status.rejected_keys(), 2u);
}

TEST_F(ParameterServiceTest, PushesTouchRowsAtTheLogicalTime) {
  Start();
  ASSERT_TRUE(registry_->Create(SparseConfig(1, -1)).ok());
  registry_->clock().AdvanceTo(12);
  ASSERT_TRUE(Push(PushOf(HeaderOfPush(0, 1), {{Key{3}, {2}}})).ok());
  registry_->clock().AdvanceTo(9);  // Time does not go back.
  ASSERT_TRUE(Push(PushOf(HeaderOfPush(0, 2), {{Key{4}, {2}}})).ok());
  const absl::Status visited = sparse().ForEachRow(
      [](PartitionIndex, const sparse_table::SparseTable::RowView& row) {
        EXPECT_EQ(row.last_touch, 12u);
      });
  EXPECT_TRUE(visited.ok()) << visited;
}

TEST_F(ParameterServiceTest, RepeatedPushIsAnsweredAndNotAppliedAgain) {
  Start();
  ASSERT_TRUE(registry_->Create(SparseConfig(1, -1)).ok());
  const auto push = PushOf(HeaderOfPush(0, 1), {{Key{3}, {2}}});
  v1::PushResponse response;
  ASSERT_TRUE(Push(push, &response).ok());
  ASSERT_TRUE(Push(push, &response).ok());
  EXPECT_EQ(response.duplicate_groups(), 1u);
  EXPECT_EQ(response.header().table_version(), 1u);
  EXPECT_EQ(RowsOf(sparse()).at(Key{3}), (std::vector<float>{2}));
}

TEST_F(ParameterServiceTest, EmptyPullAndPushAreOk) {
  Start();
  ASSERT_TRUE(registry_->Create(SparseConfig(kDim, -1)).ok());
  v1::PullSparseResponse response;
  ASSERT_TRUE(Pull(PullOf({}), &response).ok());
  EXPECT_EQ(response.values_size(), 0);
  EXPECT_TRUE(Push(PushOf(HeaderOfPush(0, 1), {})).ok());
}

TEST_F(ParameterServiceTest, SixteenBitResponsesAreTheRoundedValues) {
  Start();
  ASSERT_TRUE(registry_->Create(SparseConfig(kDim, -1)).ok());
  ASSERT_TRUE(registry_->Create(DenseConfig(10, 4, -1)).ok());
  const SparseGradients gradients = RandomGradients(1, 50, 1000, kDim);
  ASSERT_TRUE(Push(PushOf(HeaderOfPush(0, 1), gradients)).ok());
  std::vector<Key> keys;
  for (const auto& [key, gradient] : gradients) keys.push_back(key);
  for (const v1::ValueFormat format : {v1::BFLOAT16, v1::FLOAT16}) {
    v1::PullSparseRequest pull = PullOf(keys);
    pull.set_format(format);
    v1::PullSparseResponse response;
    ASSERT_TRUE(Pull(pull, &response).ok());
    EXPECT_EQ(response.format(), format);
    EXPECT_EQ(response.values_size(), 0);
    ASSERT_EQ(response.values16().size(), keys.size() * kDim * 2);
    for (int i = 0; i < pull.keys_size(); ++i) {
      for (uint32_t d = 0; d < kDim; ++d) {
        const size_t at = 2 * (i * kDim + d);
        const uint16_t bits = static_cast<uint8_t>(response.values16()[at]) |
                              static_cast<uint8_t>(response.values16()[at + 1])
                                  << 8;
        const float exact = gradients.at(Key{pull.keys(i)})[d];
        ASSERT_EQ(bits, format == v1::BFLOAT16 ? wire::ToBfloat16(exact)
                                               : wire::ToFloat16(exact));
      }
    }
    v1::PullDenseRequest dense;
    *dense.mutable_header() = Header();
    dense.set_table(2);
    dense.set_format(format);
    dense.add_blocks(2);
    dense.add_known_versions(0);
    v1::DenseResponse dense_response;
    grpc::ClientContext context;
    ASSERT_TRUE(stub_->PullDense(&context, dense, &dense_response).ok());
    EXPECT_EQ(dense_response.values16(), std::string(4, '\0'));
  }
}

TEST_F(ParameterServiceTest, DensePushReturnsTheValuesItMadeWhenAsked) {
  Start();
  ASSERT_TRUE(registry_->Create(DenseConfig(10, 4, -1)).ok());
  v1::PushDenseRequest push;
  push.set_table(2);
  push.add_blocks(0);
  push.add_blocks(2);
  for (const float g : {1, 2, 3, 4, 9, 10}) push.add_values(g);
  push.set_num_steps(1);
  push.set_with_values(true);
  // The third is the second again: answered, not applied.
  for (const auto& [sequence, times] :
       std::vector<std::pair<uint64_t, float>>{{1, 1}, {2, 2}, {2, 2}}) {
    *push.mutable_header() = HeaderOfPush(0, sequence);
    v1::DenseResponse response;
    grpc::ClientContext context;
    ASSERT_TRUE(stub_->PushDense(&context, push, &response).ok());
    ASSERT_EQ(response.blocks_size(), 2);
    EXPECT_EQ(response.blocks(1), 2u);
    EXPECT_EQ(response.versions(0), sequence + 1);
    std::vector<float> expected;
    for (const float g : {1, 2, 3, 4, 9, 10}) expected.push_back(g * times);
    EXPECT_EQ(
        std::vector<float>(response.values().begin(), response.values().end()),
        expected);
  }
  push.set_response_format(v1::BFLOAT16);
  v1::DenseResponse narrow;
  grpc::ClientContext context;
  ASSERT_TRUE(stub_->PushDense(&context, push, &narrow).ok());
  EXPECT_EQ(narrow.duplicate_groups(), 2u);
  EXPECT_EQ(narrow.format(), v1::BFLOAT16);
  EXPECT_EQ(narrow.values16().size(), 12u);
}

TEST_F(ParameterServiceTest, CallsOfABatchAreDoneInTheirOrder) {
  Start();
  ASSERT_TRUE(registry_->Create(SparseConfig(kDim, -1)).ok());
  v1::BatchRequest batch;
  *batch.add_calls()->mutable_pull_sparse() = PullOf({Key{5}});
  *batch.add_calls()->mutable_push_sparse() =
      PushOf(HeaderOfPush(0, 1), {{Key{5}, {1, 2, 3}}});
  *batch.add_calls()->mutable_pull_sparse() = PullOf({Key{5}});
  // One that fails does not keep the others from being done.
  *batch.add_calls()->mutable_pull_sparse() = PullOf({Key{5}});
  batch.mutable_calls(3)->mutable_pull_sparse()->set_table(9);
  v1::BatchResponse response;
  grpc::ClientContext context;
  ASSERT_TRUE(stub_->Batch(&context, batch, &response).ok());
  ASSERT_EQ(response.results_size(), 4);
  v1::PullSparseResponse before, after;
  ASSERT_TRUE(before.ParseFromString(response.results(0).response()));
  ASSERT_TRUE(after.ParseFromString(response.results(2).response()));
  EXPECT_EQ(before.values(2), 0);
  EXPECT_EQ(after.values(2), 3);
  EXPECT_EQ(response.results(3).status_code(),
            static_cast<uint32_t>(grpc::NOT_FOUND));
  EXPECT_TRUE(absl::StrContains(response.results(3).status_message(), "9"));
}

// A request of 80 bytes a call must not make the server answer with gigabytes.
TEST_F(ParameterServiceTest, ResponsesOfABatchFitIntoAMessage) {
  constexpr uint32_t kBlock = 4 << 20;  // 16 MiB
  Start();
  ASSERT_TRUE(registry_->Create(DenseConfig(kBlock, kBlock, -1)).ok());
  v1::PullDenseRequest pull;
  *pull.mutable_header() = Header();
  pull.set_table(2);
  pull.add_blocks(0);
  pull.add_known_versions(0);
  v1::BatchRequest batch;
  for (int i = 0; i < 200; ++i) {
    *batch.add_calls()->mutable_pull_dense() = pull;
  }
  v1::BatchResponse response;
  grpc::ClientContext context;
  const grpc::Status status = stub_->Batch(&context, batch, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  ASSERT_EQ(response.results_size(), 200);
  for (int i = 0; i < 200; ++i) {
    SCOPED_TRACE(i);
    if (i < 3) {
      EXPECT_GT(response.results(i).response().size(), 4u * kBlock);
    } else {
      EXPECT_EQ(response.results(i).status_code(),
                static_cast<uint32_t>(grpc::RESOURCE_EXHAUSTED));
    }
  }
}

TEST_F(ParameterServiceTest, DensePullReturnsWhatChanged) {
  Start();
  ASSERT_TRUE(registry_->Create(DenseConfig(10, 4, -1)).ok());
  v1::PushDenseRequest push;
  *push.mutable_header() = HeaderOfPush(0, 1);
  push.set_table(2);
  push.add_blocks(0);
  push.add_blocks(2);
  for (const float g : {1, 2, 3, 4, 9, 10}) push.add_values(g);
  push.set_num_steps(1);
  v1::DenseResponse pushed;
  grpc::ClientContext push_context;
  ASSERT_TRUE(stub_->PushDense(&push_context, push, &pushed).ok());
  EXPECT_EQ(pushed.blocks_size(), 0);
  EXPECT_EQ(pushed.values_size(), 0);

  v1::PullDenseRequest pull;
  *pull.mutable_header() = Header();
  pull.set_table(2);
  for (const uint32_t block : {0, 1, 2}) {
    pull.add_blocks(block);
    pull.add_known_versions(1);
  }
  v1::DenseResponse pulled;
  grpc::ClientContext context;
  ASSERT_TRUE(stub_->PullDense(&context, pull, &pulled).ok());
  EXPECT_EQ(pulled.blocks_size(), 2);
  EXPECT_EQ(pulled.blocks(1), 2u);
  EXPECT_EQ(pulled.versions(0), 2u);
  EXPECT_EQ(std::vector<float>(pulled.values().begin(), pulled.values().end()),
            (std::vector<float>{1, 2, 3, 4, 9, 10}));
  const v1::TableStatus status = registry_->Describe()[0];
  EXPECT_EQ(status.pulled_rows(), 2u);
  EXPECT_EQ(status.pushed_rows(), 2u);
}

TEST_F(ParameterServiceTest, KeysOfPullsAndPushesAreSampledOnceChecked) {
  Start();
  ASSERT_TRUE(registry_->Create(SparseConfig(kDim, -1)).ok());
  const std::vector<Key> keys(512, Key{5});
  ASSERT_TRUE(Pull(PullOf(keys)).ok());
  ASSERT_TRUE(Push(PushOf(HeaderOfPush(0, 1), {{Key{6}, {1, 2, 3}}})).ok());
  v1::PullSparseRequest elsewhere = PullOf(keys);
  elsewhere.mutable_header()->set_job_hash(kJobHash + 1);
  EXPECT_FALSE(Pull(elsewhere).ok());
  v1::PushSparseRequest without_values =
      PushOf(HeaderOfPush(0, 2), {{Key{6}, {1, 2, 3}}});
  without_values.clear_values();
  EXPECT_FALSE(Push(without_values).ok());

  const auto tables = registry_->DescribeHotKeys("", 10);
  ASSERT_TRUE(tables.ok()) << tables.status();
  ASSERT_EQ(tables->size(), 1u);
  EXPECT_EQ((*tables)[0].pulled_rows(), 512u);
  EXPECT_EQ((*tables)[0].pull_samples(), 2u);
  EXPECT_EQ((*tables)[0].pushed_rows(), 1u);
  ASSERT_GE((*tables)[0].keys_size(), 1);
  EXPECT_EQ((*tables)[0].keys(0).key(), 5u);
  EXPECT_EQ((*tables)[0].keys(0).pulls().rows(), 512);
}

TEST_F(ParameterServiceTest, SyncPushIsAnsweredWhenTheRoundIsComplete) {
  Start();
  ASSERT_TRUE(registry_->Create(SparseConfig(1, -1, v1::SYNC, v1::MEAN)).ok());
  for (uint32_t worker : {0, 1}) {
    registry_->SetRoundMember(WorkerIndex(worker), Generation(1), true);
  }
  std::vector<std::thread> workers;
  for (uint32_t worker : {0, 1}) {
    workers.emplace_back([&, worker] {
      for (uint64_t round = 1; round <= 30; ++round) {
        v1::PushResponse response;
        const grpc::Status status =
            Push(PushOf(HeaderOfPush(worker, round, round),
                        {{Key{1}, {worker == 0 ? 1.0f : 3.0f}}}),
                 &response);
        ASSERT_TRUE(status.ok()) << status.error_message();
        EXPECT_EQ(response.header().table_version(), round);
      }
    });
  }
  for (std::thread& worker : workers) worker.join();
  EXPECT_EQ(RowsOf(sparse()).at(Key{1}), (std::vector<float>{60}));
}

TEST_F(ParameterServiceTest, ManyClientsOnManyThreadsAreAllServed) {
  constexpr uint64_t kPushes = 60;
  Start({}, 1, /*num_threads=*/3);
  ASSERT_TRUE(registry_->Create(SparseConfig(kDim, -1)).ok());
  SparseGradients ones;
  std::vector<Key> keys;
  for (uint64_t key = 0; key < 500; ++key) {
    ones[Key{key}] = std::vector<float>(kDim, 1);
    keys.push_back(Key{key});
  }
  std::vector<std::thread> clients;
  for (uint32_t worker = 0; worker < kNumWorkers; ++worker) {
    clients.emplace_back([&, worker] {
      for (uint64_t i = 1; i <= kPushes; ++i) {
        ASSERT_TRUE(Push(PushOf(HeaderOfPush(worker, i), ones)).ok());
        v1::PullSparseResponse response;
        ASSERT_TRUE(Pull(PullOf(keys), &response).ok());
        ASSERT_GE(response.values(0), i) << "its own pushes at least";
      }
    });
  }
  for (std::thread& client : clients) client.join();
  for (const auto& [key, row] : RowsOf(sparse())) {
    EXPECT_EQ(row, std::vector<float>(kDim, kNumWorkers * kPushes));
  }
}

}  // namespace
}  // namespace oarlock::pserver
