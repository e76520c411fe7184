// What every ParameterClient does: over gRPC with one server and with three,
// and in the process of a local run. The model is a map of rows.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "base/random.h"
#include "client/parameter_client.h"
#include "fleet/local_cluster.h"
#include "tests/client/blocking_calls.h"
#include "tests/client/parameter_client_testing.h"
#include "tests/integration/mini_cluster.h"

namespace oarlock::client {
namespace {

constexpr size_t kDim = 3;
constexpr float kRate = .5f;
constexpr float kInitial = 2;

// A client with what it needs around it.
class Subject {
 public:
  virtual ~Subject() = default;
  virtual ParameterClient& client() = 0;
  virtual size_t num_servers() const = 0;
};

class OfServers : public Subject {
 public:
  explicit OfServers(uint32_t num_servers) : num_servers_(num_servers) {
    MiniClusterOptions options;
    options.num_servers = num_servers;
    auto cluster = MiniCluster::Start(options);
    EXPECT_TRUE(cluster.ok()) << cluster.status();
    cluster_ = *std::move(cluster);
    auto worker = MiniWorker::Join(*cluster_, 0);
    EXPECT_TRUE(worker.ok()) << worker.status();
    worker_ = *std::move(worker);
  }
  ParameterClient& client() override { return worker_->parameters(); }
  size_t num_servers() const override { return num_servers_; }

 private:
  const size_t num_servers_;
  std::unique_ptr<MiniCluster> cluster_;
  std::unique_ptr<MiniWorker> worker_;
};

class OfALocalRun : public Subject {
 public:
  ParameterClient& client() override { return client_; }
  size_t num_servers() const override { return 1; }

 private:
  LocalParameterClient client_{kPartitions};
};

struct Implementation {
  std::string name;
  std::function<std::unique_ptr<Subject>()> make;
};

class ParameterClientConformanceTest
    : public ::testing::TestWithParam<Implementation> {
 protected:
  ParameterClient& client() { return subject_->client(); }

  static v1::TableConfig SgdTable() {
    v1::TableConfig table = SparseTableOf(kDim);
    table.mutable_optimizer()->mutable_sgd();
    table.mutable_optimizer()->set_learning_rate(kRate);
    table.mutable_sparse()->mutable_initializer()->set_constant(kInitial);
    return table;
  }
  RowBatch Gradients(const std::vector<Key>& keys, float value) {
    RowBatch rows;
    rows.keys.Build(keys, client().partition_bits());
    rows.values.assign(rows.keys.keys().size() * kDim, value);
    return rows;
  }

  std::unique_ptr<Subject> subject_ = GetParam().make();
};

TEST_P(ParameterClientConformanceTest, RowsAreThoseOfAMap) {
  constexpr uint64_t kSeed = 71;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  ASSERT_TRUE(client().CreateTable(SgdTable()).ok());
  std::map<Key, std::vector<float>> model;
  const auto row_of = [&](Key key) -> std::vector<float>& {
    return model.try_emplace(key, kDim, kInitial).first->second;
  };
  RandomSequence random(kSeed);
  for (int step = 0; step < 30; ++step) {
    const RowBatch gradients = RandomRows(random, RandomKeys(random, 200, 500),
                                          kDim, client().partition_bits());
    ASSERT_TRUE(PushRows(client(), kRows, gradients).ok());
    for (size_t i = 0; i < gradients.keys.keys().size(); ++i) {
      std::vector<float>& row = row_of(gradients.keys.keys()[i]);
      for (size_t d = 0; d < kDim; ++d) {
        row[d] -= kRate * gradients.values[i * kDim + d];
      }
    }
    RowBatch rows;
    ASSERT_TRUE(
        PullRows(client(), kRows, RandomKeys(random, 100, 600), kDim, &rows)
            .ok());
    for (size_t i = 0; i < rows.keys.keys().size(); ++i) {
      const std::vector<float> row(rows.values.begin() + i * kDim,
                                   rows.values.begin() + (i + 1) * kDim);
      ASSERT_EQ(row, row_of(rows.keys.keys()[i])) << "step " << step;
    }
  }
}

TEST_P(ParameterClientConformanceTest, DenseParametersComeBackWithAPush) {
  constexpr size_t kSize = 10'000;
  v1::TableConfig table = DenseTableOf(kSize, 512);
  table.mutable_optimizer()->mutable_sgd();
  table.mutable_optimizer()->set_learning_rate(kRate);
  ASSERT_TRUE(client().CreateTable(table).ok());
  DenseReplica replica;
  ASSERT_TRUE(PullAll(client(), kVector, &replica).ok());
  ASSERT_EQ(replica.values.size(), kSize);
  std::vector<float> expected = replica.values;
  struct Memory {
    std::vector<float> gradients;
    DenseReplica updated;
  };
  RandomSequence random(72);
  for (int step = 0; step < 5; ++step) {
    auto memory = std::make_shared<Memory>();
    for (float& value : expected) {
      memory->gradients.push_back(static_cast<float>(random.Uniform() - .5));
      value -= kRate * memory->gradients.back();
    }
    memory->updated = replica;
    PushRequest push;
    push.dense.push_back(
        {kVector, memory->gradients.data(), 1, &memory->updated});
    ASSERT_TRUE(PushAndWait(client(), push, memory).ok());
    ASSERT_EQ(memory->updated.values, expected) << "step " << step;
    ASSERT_TRUE(PullAll(client(), kVector, &replica).ok());
    ASSERT_EQ(replica.values, expected) << "step " << step;
    ASSERT_EQ(replica.block_versions, memory->updated.block_versions);
  }
}

// Before the first of its messages leaves.
TEST_P(ParameterClientConformanceTest, APushThatIsNotFiniteIsRefusedAsAWhole) {
  ASSERT_TRUE(client().CreateTable(SgdTable()).ok());
  std::vector<Key> keys;
  for (uint64_t key = 1; key <= 100; ++key) keys.push_back(Key{key});
  for (const float bad : {NAN, INFINITY, -INFINITY}) {
    RowBatch gradients = Gradients(keys, 1);
    gradients.values.back() = bad;
    const absl::Status status = PushRows(client(), kRows, gradients);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_TRUE(absl::StrContains(
        status.message(),
        absl::StrCat("key ",
                     static_cast<uint64_t>(gradients.keys.keys().back()))))
        << status;
  }
  RowBatch rows;
  ASSERT_TRUE(PullRows(client(), kRows, keys, kDim, &rows).ok());
  EXPECT_EQ(rows.values, std::vector<float>(keys.size() * kDim, kInitial));
  EXPECT_TRUE(PushRows(client(), kRows, Gradients(keys, 1)).ok());
}

TEST_P(ParameterClientConformanceTest, ATableMayAllowWhatIsNotFinite) {
  v1::TableConfig table = SgdTable();
  table.set_allow_nonfinite(true);
  ASSERT_TRUE(client().CreateTable(table).ok());
  ASSERT_TRUE(PushRows(client(), kRows, Gradients({Key{7}}, NAN)).ok());
  RowBatch rows;
  ASSERT_TRUE(PullRows(client(), kRows, {Key{7}}, kDim, &rows).ok());
  EXPECT_TRUE(std::isnan(rows.values[0]));
}

TEST_P(ParameterClientConformanceTest, AllImplementationsGiveTheSameBits) {
  constexpr uint64_t kSeed = 73;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  LocalParameterClient reference(kPartitions);
  const v1::TableConfig table = SparseTableOf(kDim);  // adagrad, random rows
  ASSERT_TRUE(client().CreateTable(table).ok());
  ASSERT_TRUE(reference.CreateTable(table).ok());
  RandomSequence random(kSeed);
  for (int step = 0; step < 10; ++step) {
    const std::vector<Key> keys = RandomKeys(random, 300, 1000);
    const RowBatch gradients =
        RandomRows(random, keys, kDim, client().partition_bits());
    ASSERT_TRUE(PushRows(client(), kRows, gradients).ok());
    ASSERT_TRUE(PushRows(reference, kRows, gradients).ok());
    RowBatch rows, expected;
    ASSERT_TRUE(PullRows(client(), kRows, keys, kDim, &rows).ok());
    ASSERT_TRUE(PullRows(reference, kRows, keys, kDim, &expected).ok());
    ASSERT_EQ(rows.values, expected.values) << "step " << step;
  }
}

TEST_P(ParameterClientConformanceTest, VersionsCountThePushesOfEachServer) {
  ASSERT_TRUE(client().CreateTable(SgdTable()).ok());
  RandomSequence random(74);
  // On every server.
  const std::vector<Key> keys = RandomKeys(random, 500, ~uint64_t{0});
  for (uint64_t pushes = 1; pushes <= 3; ++pushes) {
    const TableVersions expected(subject_->num_servers(), pushes);
    TableVersions pushed, pulled;
    RowBatch rows;
    ASSERT_TRUE(PushRows(client(), kRows, Gradients(keys, 1), &pushed).ok());
    ASSERT_TRUE(PullRows(client(), kRows, keys, kDim, &rows, &pulled).ok());
    EXPECT_EQ(pushed, expected);
    EXPECT_EQ(pulled, expected);
  }
}

TEST_P(ParameterClientConformanceTest, AnEnqueuedPullIsDoneAfterItsFlush) {
  ASSERT_TRUE(client().CreateTable(SgdTable()).ok());
  ASSERT_TRUE(PushRows(client(), kRows, Gradients({Key{1}}, 2)).ok());
  auto rows = std::make_shared<RowBatch>(Gradients({Key{1}}, 0));
  absl::Notification done;
  absl::Status status;
  client().EnqueuePullSparse(kRows, rows->keys, rows->values.data(), nullptr,
                             rows, [&](absl::Status result) {
                               status = std::move(result);
                               done.Notify();
                             });
  client().Flush(rows.get());
  done.WaitForNotification();
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(rows->values, (std::vector<float>(kDim, kInitial - kRate * 2)));
}

TEST_P(ParameterClientConformanceTest, ATableIsCreatedOnceAndNeverAnother) {
  ASSERT_TRUE(client().CreateTable(SgdTable()).ok());
  EXPECT_TRUE(client().CreateTable(SgdTable()).ok());
  EXPECT_EQ(client().CreateTable(SparseTableOf(kDim + 1)).code(),
            absl::StatusCode::kAlreadyExists);
}

TEST_P(ParameterClientConformanceTest, CallsWithoutAKeyAreDone) {
  ASSERT_TRUE(client().CreateTable(SgdTable()).ok());
  RowBatch rows;
  EXPECT_TRUE(PullRows(client(), kRows, {}, kDim, &rows).ok());
  EXPECT_TRUE(PushRows(client(), kRows, Gradients({}, 1)).ok());
  EXPECT_TRUE(PushAndWait(client(), PushRequest(), nullptr).ok());
}

INSTANTIATE_TEST_SUITE_P(
    Clients, ParameterClientConformanceTest,
    ::testing::Values(
        Implementation{"OneServer",
                       [] { return std::make_unique<OfServers>(1); }},
        Implementation{"ThreeServers",
                       [] { return std::make_unique<OfServers>(3); }},
        Implementation{"LocalRun",
                       [] { return std::make_unique<OfALocalRun>(); }}),
    [](const ::testing::TestParamInfo<Implementation>& info) {
      return info.param.name;
    });

}  // namespace
}  // namespace oarlock::client
