// Tables go on under another configuration while others use them: calls of the
// data plane, status, metrics and cuts. Built with tsan it tells of races, see
// tests/tsan_targets.txt.

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "base/clock.h"
#include "base/metrics.h"
#include "cluster/partition_map.h"
#include "pserver/checkpoint/cut_gate.h"
#include "pserver/checkpoint/server_cut.h"
#include "pserver/table/table_metrics.h"
#include "pserver/table/table_registry.h"
#include "storage/checkpoint_dir.h"
#include "tests/pserver/service/push_testing.h"

namespace oarlock::pserver {
namespace {

constexpr uint32_t kDim = 4;
constexpr uint32_t kBlockFloats = 5;
constexpr uint32_t kBlocks = 3;
constexpr int kChanges = 150;
constexpr uint32_t kPushers = 2;

class TableChangeRaceTest : public ::testing::Test {
 protected:
  TableChangeRaceTest()
      : map_(cluster::PartitionMap::Even(1u << kTestPartitionBits, 1)),
        registry_(map_, ServerIndex(0), clock_),
        folder_(absl::StrCat(testing::TempDir(), "/table_change_race")) {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    EXPECT_TRUE(registry_.Create(Sparse(0)).ok());
    EXPECT_TRUE(registry_.Create(Dense(0)).ok());
  }

  // Configurations that differ in nothing that a push does.
  static v1::TableConfig Sparse(int change) {
    v1::TableConfig config = SparseConfig(kDim, -1);
    config.mutable_sparse()->mutable_eviction()->set_idle_ticks(1 + change);
    return config;
  }
  static v1::TableConfig Dense(int change) {
    v1::TableConfig config =
        DenseConfig(kBlocks * kBlockFloats, kBlockFloats, -1);
    config.set_reduction(change % 2 == 0 ? v1::SUM : v1::MEAN);
    return config;
  }

  // As if each had just been filled from a checkpoint.
  void ChangeTables() {
    for (int change = 0; change < kChanges; ++change) {
      ASSERT_TRUE(registry_.CreateRestored(Sparse(change)).ok());
      ASSERT_TRUE(registry_.CreateRestored(Dense(change)).ok());
      ASSERT_TRUE(registry_.Create(Sparse(change + 1)).ok());
      ASSERT_TRUE(registry_.Create(Dense(change + 1)).ok());
    }
  }

  // Sends it to the table, again while that is Unavailable.
  template <typename Send>
  void PushTo(TableId table, const Send& send) {
    absl::Status status = absl::UnavailableError("");
    while (absl::IsUnavailable(status)) {
      const absl::StatusOr<TableEntry*> entry = registry_.Find(table);
      ASSERT_TRUE(entry.ok());
      // Async mode answers before it returns.
      send((*entry)->aggregator.get(),
           [&status](absl::StatusOr<PushOutcome> outcome) {
             status = outcome.status();
           });
    }
    ASSERT_TRUE(status.ok()) << status;
  }
  void Push(uint32_t worker, uint64_t sequence,
            const SparseGradients& gradients, const DenseGradients& blocks) {
    const v1::RequestHeader header = PushHeader(worker, 1, sequence);
    PushTo(TableId(1), [&](Aggregator* aggregator, PushDone done) {
      aggregator->PushSparse(SparsePushOf(header, gradients), std::move(done));
    });
    PushTo(TableId(2), [&](Aggregator* aggregator, PushDone done) {
      aggregator->PushDense(DensePushOf(header, blocks), std::move(done));
    });
  }

  // Keys with rows and keys without.
  void Pull() {
    TableEntry* const sparse = *registry_.Find(TableId(1));
    EXPECT_EQ(sparse->config.sparse().dim(), kDim);
    const wire::PushSparseRequestView asked =
        SparsePushOf(PushHeader(0, 1, 1), RandomGradients(5, 50, 400, kDim));
    std::vector<Key> scratch;
    const Key* const keys =
        asked.keys.Elements<Key>(0, asked.num_keys, &scratch);
    std::vector<float> values(asked.num_keys * kDim);
    EXPECT_TRUE(
        sparse->sparse->Pull(asked.groups, keys, values.data(), nullptr).ok());
    TableEntry* const dense = *registry_.Find(TableId(2));
    EXPECT_EQ(BlockOf(*dense->dense, BlockIndex(1)).size(), kBlockFloats);
  }

  void AskForStatus() {
    EXPECT_EQ(registry_.Describe(/*max_partitions=*/1000).size(), 2u);
    EXPECT_TRUE(registry_.DescribeHotKeys("embedding", 3).ok());
    EXPECT_EQ(registry_.HeldPushes(), 0u);
    MetricsSnapshot snapshot;
    CollectTableMetrics(registry_, &snapshot);
  }

  // A checkpoint; returns how many tables it has.
  int MakeCut(ServerCut* cuts, uint64_t cut) {
    const auto call = [cuts, cut](auto method, auto request, auto* response) {
      absl::Notification done;
      request.set_cut(cut);
      (cuts->*method)(request, [&](const auto& result) {
        EXPECT_TRUE(result.ok()) << result.status();
        if (result.ok()) *response = *result;
        done.Notify();
      });
      done.WaitForNotification();
    };
    v1::OpenCutResponse opened;
    call(&ServerCut::Open, v1::OpenCutRequest(), &opened);
    v1::FreezeCutResponse frozen;
    call(&ServerCut::Freeze, v1::FreezeCutRequest(), &frozen);
    v1::SaveCutRequest save;
    save.set_directory(
        absl::StrCat(folder_, "/", storage::CheckpointName(cut)));
    std::filesystem::create_directories(save.directory());
    v1::SaveCutResponse saved;
    call(&ServerCut::Save, save, &saved);
    v1::CloseCutRequest close;
    close.set_published(true);
    v1::CloseCutResponse closed;
    call(&ServerCut::Close, close, &closed);
    std::filesystem::remove_all(save.directory());
    return saved.part().tables_size();
  }

  const cluster::PartitionMap map_;
  // The writer's rests are skipped.
  const SkippingClock clock_;
  TableRegistry registry_;
  const std::string folder_;
};

TEST_F(TableChangeRaceTest,
       WhoeverUsesATableGoesOnWhileItsConfigurationChanges) {
  HoldBudget budget(1 << 30);
  CutGate gate(&budget);
  absl::StatusOr<std::unique_ptr<ServerCut>> cuts = ServerCut::Create(
      {.server = ServerIndex(0), .directory = folder_}, &map_, &registry_,
      &gate, {.wall = &clock_, .monotonic = &clock_});
  ASSERT_TRUE(cuts.ok()) << cuts.status();
  std::atomic<bool> changing = true;
  std::vector<std::thread> threads;
  const auto repeat = [&](std::function<void()> call) {
    threads.emplace_back([&changing, call = std::move(call)] {
      do {
        call();
      } while (changing);
    });
  };
  repeat([this] { AskForStatus(); });
  repeat([this] { Pull(); });
  uint64_t cut = 0;
  repeat([&] { EXPECT_EQ(MakeCut(cuts->get(), ++cut), 2); });
  // Workers come and go.
  repeat([this] {
    registry_.SetRoundMember(WorkerIndex(7), Generation(1), /*joins=*/true);
    registry_.SetRoundMember(WorkerIndex(7), Generation(1), /*joins=*/false);
    registry_.ForgetWorker(WorkerIndex(7), Generation(1));
  });
  const SparseGradients gradients = RandomGradients(5, 20, 200, kDim);
  const DenseGradients blocks = {
      {BlockIndex(1), std::vector<float>(kBlockFloats, 1)}};
  uint64_t num_pushes[kPushers] = {};
  for (uint32_t worker = 0; worker < kPushers; ++worker) {
    repeat(
        [&, worker] { Push(worker, ++num_pushes[worker], gradients, blocks); });
  }
  ChangeTables();
  changing = false;
  for (std::thread& thread : threads) thread.join();

  // What was acknowledged was applied, and once.
  SgdModel model(-1);
  for (uint64_t i = 0; i < num_pushes[0] + num_pushes[1]; ++i) {
    model.Apply(gradients);
  }
  const TableEntry& sparse = **registry_.Find(TableId(1));
  const TableEntry& dense = **registry_.Find(TableId(2));
  EXPECT_EQ(RowsOf(*sparse.sparse), model.rows());
  EXPECT_EQ(
      BlockOf(*dense.dense, BlockIndex(1)),
      std::vector<float>(kBlockFloats,
                         static_cast<float>(num_pushes[0] + num_pushes[1])));
  EXPECT_EQ(sparse.config.sparse().eviction().idle_ticks(), 1 + kChanges);
  EXPECT_EQ(sparse.sparse->eviction().idle_ticks, 1 + kChanges);
}

}  // namespace
}  // namespace oarlock::pserver
