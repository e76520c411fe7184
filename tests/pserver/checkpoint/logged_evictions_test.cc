#include "pserver/checkpoint/logged_evictions.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "base/types.h"
#include "pserver/table/eviction_loop.h"
#include "sparse_table/rules/eviction.h"
#include "tests/pserver/checkpoint/server_log_testing.h"
#include "tests/pserver/service/push_testing.h"

namespace oarlock::pserver {
namespace {

sparse_table::EvictionLimits Idle(uint32_t ticks) {
  sparse_table::EvictionLimits limits;
  limits.idle_ticks = ticks;
  return limits;
}

// How many rows of all partitions were idle for so many ticks, and are gone.
uint64_t EvictIdle(Life& life, uint32_t ticks) {
  const EvictionLoop::DoStep do_step =
      LogEvictions(&life.registry(), &life.log(), &life.gate());
  uint64_t evicted = 0;
  for (uint32_t p = 0; p < 1u << kTestPartitionBits; ++p) {
    const PartitionEviction what = {TableId(1), PartitionIndex(p),
                                    life.registry().clock().Now()};
    const absl::StatusOr<sparse_table::EvictionResult> result =
        life.entry().sparse->Evict(what.partition, Idle(ticks), what.time,
                                   [&](sparse_table::EvictionStep& step) {
                                     return do_step(what, step);
                                   });
    EXPECT_TRUE(result.ok()) << result.status();
    if (result.ok()) evicted += result->evicted_rows();
  }
  return evicted;
}

// A row and what a replay has to bring back with it.
struct WholeRow {
  std::vector<float> values;
  uint32_t last_touch = 0;

  bool operator==(const WholeRow&) const = default;
};
std::map<Key, WholeRow> WholeRows(Life& life) {
  std::map<Key, WholeRow> rows;
  const absl::Status visited = life.entry().sparse->ForEachRow(
      [&](PartitionIndex, const sparse_table::SparseTable::RowView& row) {
        rows[row.key] = {{row.embedding.begin(), row.embedding.end()},
                         row.last_touch};
      });
  EXPECT_TRUE(visited.ok()) << visited;
  return rows;
}

class LoggedEvictionsTest : public ServerLogTest {};

TEST_F(LoggedEvictionsTest, AReplayEvictsTheSameRows) {
  std::map<Key, WholeRow> rows;
  {
    Life life(directory(), Life::From());
    ASSERT_TRUE(life.registry().Create(SparseConfig(kDim, kRate)).ok());
    uint64_t evicted = 0;
    for (uint64_t sequence = 1; sequence <= 40; ++sequence) {
      life.registry().clock().AdvanceTo(sequence);
      ASSERT_TRUE(
          life.Push(PushHeader(0, 1, sequence), Gradients(sequence)).ok());
      if (sequence % 10 == 0) evicted += EvictIdle(life, 3);
    }
    EXPECT_GT(evicted, 100u);
    rows = WholeRows(life);
  }
  Life again(directory(), Life::From());
  EXPECT_EQ(WholeRows(again), rows);
}

// The last message of round 2 is in the log before an eviction that is done
// before round 2.
TEST_F(LoggedEvictionsTest, ARoundThatWasLoggedFirstAndAppliedLaterComesLater) {
  std::map<Key, WholeRow> rows;
  {
    Life life(directory(), Life::From());
    ASSERT_TRUE(
        life.registry().Create(SparseConfig(kDim, kRate, v1::SYNC)).ok());
    life.Join(0);
    ASSERT_TRUE(life.Push(PushHeader(0, 1, 1, 1), Gradients(1)).ok());
    life.registry().clock().AdvanceTo(9);
    const absl::StatusOr<uint32_t> time =
        life.Write(PushHeader(0, 1, 2, 2), Gradients(1));
    ASSERT_TRUE(time.ok()) << time.status();
    EXPECT_EQ(EvictIdle(life, 5), Gradients(1).size());
    // A tick between the log and the table is not in the row.
    life.registry().clock().AdvanceTo(10);
    life.Apply(PushHeader(0, 1, 2, 2), Gradients(1), *time);
    ASSERT_EQ(life.rounds(), 2u);
    rows = WholeRows(life);
  }
  SgdModel once(kRate);
  once.Apply(Gradients(1));
  Life again(directory(), Life::From());
  EXPECT_EQ(again.rounds(), 2u);
  EXPECT_EQ(again.rows(), once.rows());
  EXPECT_EQ(WholeRows(again), rows);
  EXPECT_EQ(rows.begin()->second.last_touch, 9u);
}

TEST_F(LoggedEvictionsTest, WhatACutHasIsNotEvictedAgain) {
  std::map<Key, WholeRow> rows;
  Life::From from = {
      .cut = 3, .rounds = 1, .table = SparseConfig(kDim, kRate, v1::SYNC)};
  {
    Life life(directory(), Life::From());
    ASSERT_TRUE(life.registry().Create(*from.table).ok());
    life.Join(0);
    ASSERT_TRUE(life.Push(PushHeader(0, 1, 1, 1), Gradients(1)).ok());
    life.registry().clock().AdvanceTo(5);
    EvictIdle(life, 1);
    life.OpenCut(3);
    life.FreezeCut(3);
    ASSERT_TRUE(life.Push(PushHeader(0, 1, 2, 2), Gradients(2)).ok());
    life.registry().clock().AdvanceTo(9);
    ASSERT_TRUE(life.Push(PushHeader(0, 1, 3, 3), Gradients(3)).ok());
    EvictIdle(life, 4);
    rows = WholeRows(life);
  }
  Life again(directory(), from);
  EXPECT_EQ(again.rounds(), 3u);
  EXPECT_EQ(WholeRows(again), rows);
}

// Pushes of two workers and evictions at once, then a replay. All values are
// small integers times a power of two, so no order of sums changes a bit.
void RunAtOnce(const std::string& directory, v1::UpdateMode mode) {
  constexpr uint64_t kPushes = 300;
  SparseGradients rows;
  std::map<Key, WholeRow> whole_rows;
  uint64_t evicted = 0;
  const Life::From from = {.bytes_max = 64 << 20};
  {
    Life life(directory, from);
    ASSERT_TRUE(life.registry().Create(SparseConfig(kDim, kRate, mode)).ok());
    for (uint32_t worker : {0, 1}) life.Join(worker);
    std::atomic<bool> done{false};
    std::atomic<uint64_t> rounds_of_evictions{0};
    std::thread evictor([&] {
      for (; !done; ++rounds_of_evictions) evicted += EvictIdle(life, 2);
    });
    std::vector<std::thread> workers;
    for (uint32_t worker : {0, 1}) {
      workers.emplace_back([&, worker] {
        for (uint64_t i = 1; i <= kPushes; ++i) {
          SparseGradients gradients;
          for (uint64_t k = 0; k < 20; ++k) {
            gradients[Key{(i * 3 + k * (worker + 1)) % 400}] =
                std::vector<float>(kDim, static_cast<float>(k));
          }
          if (i % 10 == 0) {
            life.registry().clock().AdvanceTo(i / 10);
            // One that begins at this time is over.
            const uint64_t before = rounds_of_evictions;
            while (rounds_of_evictions < before + 2) std::this_thread::yield();
          }
          const v1::RequestHeader header =
              PushHeader(worker, 1, i, mode == v1::SYNC ? i : 0);
          ASSERT_TRUE(life.Push(header, gradients).ok());
          // A worker is at most one round ahead.
          while (mode == v1::SYNC && life.rounds() + 1 < i) {
            std::this_thread::yield();
          }
        }
      });
    }
    for (std::thread& worker : workers) worker.join();
    done = true;
    evictor.join();
    rows = life.rows();
    whole_rows = WholeRows(life);
  }
  EXPECT_GT(evicted, 0u);
  Life again(directory, from);
  EXPECT_EQ(again.rows(), rows);
  // In async mode pushes at once have the time of the one or the other.
  if (mode == v1::SYNC) {
    EXPECT_EQ(WholeRows(again), whole_rows);
  }
}

TEST_F(LoggedEvictionsTest, PushesAndEvictionsAtOnceAreReplayedInSyncMode) {
  RunAtOnce(directory(), v1::SYNC);
}

TEST_F(LoggedEvictionsTest, PushesAndEvictionsAtOnceAreReplayedInAsyncMode) {
  RunAtOnce(directory(), v1::ASYNC);
}

}  // namespace
}  // namespace oarlock::pserver
