#include "base/bounded_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"

namespace oarlock {
namespace {

TEST(BoundedQueueTest, ItemsComeOutInTheOrderInWhichTheyWentIn) {
  BoundedQueue<int> queue(3);
  EXPECT_TRUE(queue.Push(1));
  EXPECT_TRUE(queue.Push(2));
  EXPECT_EQ(queue.size(), 2u);
  EXPECT_EQ(queue.Pop(), 1);
  EXPECT_TRUE(queue.Push(3));
  EXPECT_EQ(queue.Pop(), 2);
  EXPECT_EQ(queue.Pop(), 3);
}

TEST(BoundedQueueTest, AProducerIsNeverMoreThanTheCapacityAhead) {
  constexpr int kItems = 2000;
  constexpr int kCapacity = 4;
  BoundedQueue<int> queue(kCapacity);
  std::atomic<int> pushed = 0;
  std::thread producer([&] {
    for (int i = 0; i < kItems; ++i) {
      EXPECT_TRUE(queue.Push(i));
      ++pushed;
    }
  });
  for (int i = 0; i < kItems; ++i) {
    // i items are out, so at most i + capacity went in.
    EXPECT_LE(pushed.load(), i + kCapacity);
    EXPECT_LE(queue.size(), static_cast<size_t>(kCapacity));
    EXPECT_EQ(queue.Pop(), i);
  }
  producer.join();
}

TEST(BoundedQueueTest, EachItemOfManyThreadsComesOutOnce) {
  constexpr int kThreads = 4;
  constexpr int kItemsEach = 1000;
  BoundedQueue<std::unique_ptr<int>> queue(7);
  std::vector<std::atomic<int>> seen(kThreads * kItemsEach);
  std::vector<std::thread> producers, consumers;
  for (int t = 0; t < kThreads; ++t) {
    producers.emplace_back([&queue, t] {
      for (int i = 0; i < kItemsEach; ++i) {
        EXPECT_TRUE(queue.Push(std::make_unique<int>(t * kItemsEach + i)));
      }
    });
    consumers.emplace_back([&queue, &seen] {
      while (auto item = queue.Pop()) ++seen[**item];
    });
  }
  for (std::thread& thread : producers) thread.join();
  queue.Close();
  for (std::thread& thread : consumers) thread.join();
  for (const auto& count : seen) EXPECT_EQ(count.load(), 1);
}

TEST(BoundedQueueTest, WhatIsInsideComesOutAfterClosing) {
  BoundedQueue<int> queue(3);
  EXPECT_TRUE(queue.Push(1));
  EXPECT_TRUE(queue.Push(2));
  queue.Close();
  EXPECT_FALSE(queue.Push(3));
  EXPECT_EQ(queue.Pop(), 1);
  EXPECT_EQ(queue.Pop(), 2);
  EXPECT_EQ(queue.Pop(), std::nullopt);
  queue.Close();
  EXPECT_EQ(queue.Pop(), std::nullopt);
}

TEST(BoundedQueueTest, ClosingLetsWaitingThreadsGo) {
  BoundedQueue<int> empty(1);
  BoundedQueue<int> full(1);
  ASSERT_TRUE(full.Push(1));
  absl::Notification consumer_runs, producer_runs;
  std::thread consumer([&] {
    consumer_runs.Notify();
    EXPECT_EQ(empty.Pop(), std::nullopt);
  });
  std::thread producer([&] {
    producer_runs.Notify();
    EXPECT_FALSE(full.Push(2));
  });
  consumer_runs.WaitForNotification();
  producer_runs.WaitForNotification();
  empty.Close();
  full.Close();
  consumer.join();
  producer.join();
  EXPECT_EQ(full.Pop(), 1);
  EXPECT_EQ(full.Pop(), std::nullopt);
}

TEST(BoundedQueueDeathTest, AQueueWithoutRoomCrashes) {
  EXPECT_DEATH(BoundedQueue<int>(0), "invariant broken: capacity >= 1");
}

}  // namespace
}  // namespace oarlock
