#include "pserver/table/eviction_loop.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "base/clock.h"
#include "cluster/partition_map.h"
#include "pserver/table/table_registry.h"
#include "sparse_table/sparse_table.h"
#include "tests/pserver/service/push_testing.h"
#include "tests/sparse_table/table_testing.h"

namespace oarlock::pserver {
namespace {

class EvictionLoopTest : public testing::Test {
 protected:
  EvictionLoopTest()
      : registry_(cluster::PartitionMap::Even(1u << kTestPartitionBits, 1),
                  ServerIndex(0), clock_) {}

  void Create(const v1::EvictionConfig& eviction) {
    v1::TableConfig config = SparseConfig(1, -1.0f);
    *config.mutable_sparse()->mutable_eviction() = eviction;
    ASSERT_TRUE(registry_.Create(config).ok());
  }
  // Pushes to keys [first, first + num_keys) at the present logical time.
  void Push(uint64_t first, uint64_t num_keys) {
    std::vector<Key> keys;
    for (uint64_t i = 0; i < num_keys; ++i) keys.push_back(Key{first + i});
    const sparse_table::GroupedKeys grouped =
        sparse_table::Grouped(keys, kTestPartitionBits);
    const std::vector<float> gradients(num_keys, 1.0f);
    sparse_table::SparsePush push;
    push.groups = grouped.groups;
    push.keys = grouped.keys.data();
    push.gradients = gradients.data();
    push.logical_time = registry_.clock().Now();
    ASSERT_TRUE(table().Push(push).ok());
  }
  sparse_table::SparseTable& table() {
    return *(*registry_.Find(TableId(1)))->sparse;
  }
  // Has the loop look at the logical time once, and waits until it has.
  void Turn() {
    ASSERT_TRUE(clock_.AwaitWaiters(1));
    clock_.Advance(EvictionLoop::kTurn);
    ASSERT_TRUE(clock_.AwaitWaiters(1));
  }
  absl::StatusOr<v1::EvictResponse> Evict(const v1::EvictRequest& request) {
    absl::Notification done;
    absl::StatusOr<v1::EvictResponse> result;
    loop_.Evict(request,
                [&](const absl::StatusOr<v1::EvictResponse>& response) {
                  result = response;
                  done.Notify();
                });
    done.WaitForNotification();
    return result;
  }

  FakeClock clock_;
  TableRegistry registry_;
  EvictionLoop loop_{&registry_, EvictionLoop::DoUnrecorded, clock_};
};

TEST_F(EvictionLoopTest, IdleRowsGoWhenTheClockSaysSo) {
  v1::EvictionConfig eviction;
  eviction.set_idle_ticks(10);
  eviction.set_period_ticks(5);
  Create(eviction);
  loop_.Start();
  Push(0, 100);
  registry_.clock().AdvanceTo(7);
  Push(1000, 20);
  registry_.clock().AdvanceTo(12);
  Turn();
  EXPECT_EQ(table().Stats().rows, 20u);
  EXPECT_EQ(table().Stats().evicted_rows, 100u);
  registry_.clock().AdvanceTo(30);
  Turn();
  EXPECT_EQ(table().Stats().rows, 0u);
}

TEST_F(EvictionLoopTest, AJobThatGoesOnEvictsWhenOneJobWould) {
  v1::EvictionConfig eviction;
  eviction.set_idle_ticks(1);
  eviction.set_period_ticks(5);
  Create(eviction);
  registry_.clock().AdvanceTo(11);
  loop_.Start();
  Push(0, 100);
  registry_.clock().AdvanceTo(14);
  Turn();
  EXPECT_EQ(table().Stats().rows, 100u) << "15 is due";
  EXPECT_EQ(registry_.clock().evicted(), 14u);
  registry_.clock().AdvanceTo(17);
  Turn();
  EXPECT_EQ(table().Stats().rows, 0u);
  Push(0, 100);
  registry_.clock().AdvanceTo(19);
  Turn();
  EXPECT_EQ(table().Stats().rows, 100u) << "20 is due, not 22";
  registry_.clock().AdvanceTo(20);
  loop_.Stop();
  loop_.AwaitEvicted(20);
}

TEST_F(EvictionLoopTest, WhoWaitsForATimeIsToldWhenItsRowsAreGone) {
  v1::EvictionConfig eviction;
  eviction.set_idle_ticks(1);
  eviction.set_period_ticks(1);
  Create(eviction);
  loop_.Start();
  Push(0, 100);
  ASSERT_TRUE(clock_.AwaitWaiters(1));
  registry_.clock().AdvanceTo(1);
  std::thread waiter([&] {
    loop_.AwaitEvicted(1);
    EXPECT_EQ(table().Stats().rows, 0u);
  });
  clock_.Advance(EvictionLoop::kTurn);
  waiter.join();
}

TEST_F(EvictionLoopTest, ACommandEvictsByItsOwnLimitsOrTheTables) {
  v1::EvictionConfig eviction;
  eviction.set_rows_max(160);
  eviction.set_low_mark(0.5f);
  eviction.set_period_ticks(1000);
  Create(eviction);
  loop_.Start();
  Push(0, 1000);
  registry_.clock().AdvanceTo(3);
  Push(1000, 40);
  v1::EvictRequest request;
  request.set_table("embedding");
  request.mutable_limits()->set_idle_ticks(4);
  absl::StatusOr<v1::EvictResponse> response = Evict(request);
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->idle_rows(), 0u);
  EXPECT_EQ(response->rows(), 1040u);
  EXPECT_EQ(response->examined_rows(), 1040u);
  request.clear_limits();
  response = Evict(request);
  ASSERT_TRUE(response.ok()) << response.status();
  // 16 partitions, each above 10 rows and brought down to 5.
  EXPECT_EQ(response->rows(), 80u);
  EXPECT_EQ(response->capacity_rows(), 960u);
}

TEST_F(EvictionLoopTest, WhatCannotBeEvictedIsRefusedInOneSentence) {
  Create({});
  ASSERT_TRUE(registry_.Create(DenseConfig(4, 2, 1)).ok());
  loop_.Start();
  v1::EvictRequest request;
  request.set_table("embedding");
  EXPECT_EQ(Evict(request).status().code(), absl::StatusCode::kInvalidArgument);
  request.mutable_limits()->set_rows_max(15);
  absl::Status status = Evict(request).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("rows_max is 15"), std::string::npos);
  request.set_table("net");
  EXPECT_EQ(Evict(request).status().code(), absl::StatusCode::kInvalidArgument);
  request.set_table("other");
  EXPECT_EQ(Evict(request).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(EvictionLoopTest, WhatWaitsWhenItEndsIsToldSo) {
  Create({});
  // Not started: everything waits.
  v1::EvictRequest request;
  request.set_table("embedding");
  std::vector<absl::StatusCode> codes;
  for (size_t i = 0; i <= EvictionLoop::kMaxWaiting; ++i) {
    loop_.Evict(request,
                [&](const absl::StatusOr<v1::EvictResponse>& response) {
                  codes.push_back(response.status().code());
                });
  }
  ASSERT_EQ(codes.size(), 1u);
  EXPECT_EQ(codes[0], absl::StatusCode::kResourceExhausted);
  loop_.Stop();
  ASSERT_EQ(codes.size(), 1 + EvictionLoop::kMaxWaiting);
  EXPECT_EQ(codes.back(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(Evict(request).status().code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace oarlock::pserver
