#include "storage/cold_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"

namespace oarlock::storage {
namespace {

constexpr size_t kRowBytes = 100;
using Row = std::array<std::byte, kRowBytes>;
using Model = std::map<std::pair<PartitionIndex, Key>, Row>;

std::unique_ptr<ColdRows> NewStore() {
  static std::atomic<int> num_stores{0};
  absl::StatusOr<std::unique_ptr<ColdRows>> store =
      ColdRows::Create({.directory = testing::TempDir() + "/cold_rows_" +
                                     std::to_string(num_stores++),
                        .row_bytes = kRowBytes});
  EXPECT_TRUE(store.ok()) << store.status();
  return *std::move(store);
}

Row RandomRow(RandomSequence& random) {
  Row row;
  for (std::byte& byte : row) byte = static_cast<std::byte>(random.Below(256));
  return row;
}

// Few enough for repeats, at the borders of what there is.
ColdRows::RowName RandomName(RandomSequence& random) {
  constexpr std::array<uint32_t, 4> kPartitions = {0, 1, 255, 65535};
  const uint64_t key = random.Below(3000);
  return {PartitionIndex(kPartitions[random.Below(4)]),
          Key{random.Below(2) ? key : ~key}};
}

void ExpectSameRows(const ColdRowsReader& store, const Model& model) {
  Model seen;
  for (const uint32_t p : {0, 1, 2, 255, 65535}) {
    const PartitionIndex partition(p);
    std::optional<Key> next = Key{0};
    while (next.has_value()) {
      size_t num_visited = 0;
      absl::StatusOr<std::optional<Key>> after = store.Visit(
          partition, *next, 100, [&](Key key, const std::byte* row) {
            ++num_visited;
            EXPECT_GE(key, *next);
            std::copy_n(row, kRowBytes, seen[{partition, key}].begin());
          });
      ASSERT_TRUE(after.ok()) << after.status();
      ASSERT_LE(num_visited, 100u);
      next = *after;
    }
  }
  EXPECT_EQ(seen, model);
}

TEST(ColdRowsTest, RandomOperationsAgreeWithAMap) {
  constexpr uint64_t kSeed = 11;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  RandomSequence random(kSeed);
  const std::unique_ptr<ColdRows> store = NewStore();
  Model model;
  for (int step = 0; step < 1200; ++step) {
    const size_t n = random.Below(200);
    const PartitionIndex partition = RandomName(random).partition;
    std::vector<Key> keys;
    for (size_t i = 0; i < n; ++i) keys.push_back(RandomName(random).key);
    switch (random.Below(4)) {
      case 0: {
        std::vector<ColdRows::RowName> names;
        for (size_t i = 0; i < n; ++i) names.push_back(RandomName(random));
        std::vector<Row> rows(n);
        std::array<bool, 200> found;
        ASSERT_TRUE(store
                        ->Read(names, rows.empty() ? nullptr : rows[0].data(),
                               found.data())
                        .ok());
        for (size_t i = 0; i < n; ++i) {
          const auto expected = model.find({names[i].partition, names[i].key});
          ASSERT_EQ(found[i], expected != model.end());
          if (!found[i]) continue;
          ASSERT_EQ(rows[i], expected->second);
        }
        break;
      }
      case 1:
        ASSERT_TRUE(store->Delete(partition, keys).ok());
        for (const Key key : keys) model.erase({partition, key});
        break;
      default: {
        std::vector<Row> rows;
        for (size_t i = 0; i < n; ++i) rows.push_back(RandomRow(random));
        std::vector<const std::byte*> pointers;
        for (const Row& row : rows) pointers.push_back(row.data());
        ASSERT_TRUE(store->Write(partition, keys, pointers).ok());
        for (size_t i = 0; i < n; ++i) model[{partition, keys[i]}] = rows[i];
      }
    }
    if (step % 300 == 299) ExpectSameRows(*store, model);
  }
  EXPECT_GT(model.size(), 1000u);
}

TEST(ColdRowsTest, RowsBeyondTheBuffersAreInFiles) {
  const std::unique_ptr<ColdRows> store = NewStore();
  RandomSequence random(3);
  Model model;
  std::vector<Key> keys(1000);
  for (uint64_t first = 0; first < 200'000; first += keys.size()) {
    std::vector<Row> rows;
    std::vector<const std::byte*> pointers;
    for (size_t i = 0; i < keys.size(); ++i) {
      keys[i] = Key{random.Below(1'000'000)};
      rows.push_back({static_cast<std::byte>(i)});
    }
    for (const Row& row : rows) pointers.push_back(row.data());
    ASSERT_TRUE(store->Write(PartitionIndex(1), keys, pointers).ok());
    for (size_t i = 0; i < keys.size(); ++i) {
      model[{PartitionIndex(1), keys[i]}] = rows[i];
    }
  }
  EXPECT_GT(store->disk_bytes(), 4u << 20);
  EXPECT_GT(store->memory_bytes(), 0u);
  EXPECT_LT(store->memory_bytes(), 12u << 20);
  ExpectSameRows(*store, model);
}

TEST(ColdRowsTest, ASnapshotStaysAsItWasWhileRowsComeAndGo) {
  constexpr uint64_t kSeed = 29;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  RandomSequence random(kSeed);
  const std::unique_ptr<ColdRows> store = NewStore();
  Model model;
  std::vector<std::pair<std::unique_ptr<const ColdRowsReader>, Model>> taken;
  for (int step = 0; step < 400; ++step) {
    const PartitionIndex partition = RandomName(random).partition;
    std::vector<Key> keys(100);
    for (Key& key : keys) key = RandomName(random).key;
    if (random.Below(3) == 0) {
      ASSERT_TRUE(store->Delete(partition, keys).ok());
      for (const Key key : keys) model.erase({partition, key});
    } else {
      const Row row = RandomRow(random);
      const std::vector<const std::byte*> rows(keys.size(), row.data());
      ASSERT_TRUE(store->Write(partition, keys, rows).ok());
      for (const Key key : keys) model[{partition, key}] = row;
    }
    if (step % 100 == 50) taken.emplace_back(store->TakeSnapshot(), model);
  }
  for (const auto& [snapshot, then] : taken) {
    ASSERT_NE(then, model);
    ExpectSameRows(*snapshot, then);
    const Key key = then.begin()->first.second;
    const ColdRows::RowName names[] = {{then.begin()->first.first, key},
                                       {PartitionIndex(9), Key{1}}};
    std::array<Row, 2> rows;
    std::array<bool, 2> found;
    ASSERT_TRUE(snapshot->Read(names, rows[0].data(), found.data()).ok());
    EXPECT_TRUE(found[0]);
    EXPECT_EQ(rows[0], then.begin()->second);
    EXPECT_FALSE(found[1]);
  }
  ExpectSameRows(*store, model);
}

TEST(ColdRowsTest, FilesGoWithTheStore) {
  std::unique_ptr<ColdRows> store = NewStore();
  const std::string directory = store->directory();
  EXPECT_TRUE(std::filesystem::exists(directory));
  store.reset();
  EXPECT_FALSE(std::filesystem::exists(directory));
}

}  // namespace
}  // namespace oarlock::storage
