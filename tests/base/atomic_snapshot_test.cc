#include "base/atomic_snapshot.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

namespace oarlock {
namespace {

TEST(AtomicSnapshotTest, ReadersOfTheOldValueMayGoOnWithIt) {
  AtomicSnapshot<std::string> value("the first one");
  const std::string& first = value.get();
  value.Replace("the second one");
  EXPECT_EQ(value.get(), "the second one");
  EXPECT_EQ(first, "the first one");
}

TEST(AtomicSnapshotTest, ReadersSeeWholeValuesAndNeverAnOlderOneAgain) {
  constexpr int kValues = 2'000;
  AtomicSnapshot<std::vector<int>> value(std::vector<int>(50, 0));
  std::vector<std::thread> readers;
  for (int i = 0; i < 3; ++i) {
    readers.emplace_back([&value] {
      int seen = 0;
      while (seen < kValues) {
        const std::vector<int>& now = value.get();
        ASSERT_GE(now[0], seen);
        seen = now[0];
        ASSERT_EQ(now, std::vector<int>(50, seen));
      }
    });
  }
  for (int i = 1; i <= kValues; ++i) value.Replace(std::vector<int>(50, i));
  for (std::thread& reader : readers) reader.join();
}

}  // namespace
}  // namespace oarlock
