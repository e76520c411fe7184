#include "sparse_table/rows/arena.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <map>
#include <vector>

#include "base/random.h"

namespace oarlock::sparse_table {
namespace {

constexpr uint64_t kChunk = Arena::kChunkBytes;

std::unique_ptr<Arena> MakeArena(uint64_t bytes_max) {
  absl::StatusOr<std::unique_ptr<Arena>> arena = Arena::Create(bytes_max);
  EXPECT_TRUE(arena.ok()) << arena.status();
  return *std::move(arena);
}

TEST(ArenaTest, ChunksAreWritableAndFarEnoughApart) {
  const std::unique_ptr<Arena> arena = MakeArena(8 * kChunk);
  std::vector<std::byte*> chunks;
  for (int i = 0; i < 8; ++i) {
    absl::StatusOr<uint32_t> chunk = arena->Allocate();
    ASSERT_TRUE(chunk.ok()) << chunk.status();
    chunks.push_back(arena->ChunkAddress(*chunk));
    std::memset(chunks.back(), i, kChunk);
  }
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(chunks[i][0], std::byte(i));
    EXPECT_EQ(chunks[i][kChunk - 1], std::byte(i));
  }
  EXPECT_EQ(arena->bytes_used(), 8 * kChunk);
}

TEST(ArenaTest, AFullArenaSaysHowMuchIsUsed) {
  const std::unique_ptr<Arena> arena = MakeArena(2 * kChunk + 1);
  EXPECT_EQ(arena->bytes_max(), 2 * kChunk);
  ASSERT_TRUE(arena->Allocate().ok());
  const absl::Status too_long = arena->Allocate(1).status();
  EXPECT_EQ(too_long.code(), absl::StatusCode::kResourceExhausted);
  ASSERT_TRUE(arena->Allocate().ok());
  const absl::Status full = arena->Allocate().status();
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(full.message().find("131072 of 131072"), std::string::npos) << full;
  EXPECT_FALSE(arena->Allocate(Arena::kMaxOrder + 1).ok());
}

TEST(ArenaTest, AFreedRunIsCutUpForChunks) {
  const std::unique_ptr<Arena> arena = MakeArena(4 * kChunk);
  absl::StatusOr<uint32_t> run = arena->Allocate(2);
  ASSERT_TRUE(run.ok()) << run.status();
  arena->Free(*run, 2);
  EXPECT_EQ(arena->bytes_used(), 0u);
  std::vector<bool> seen(4);
  for (int i = 0; i < 4; ++i) {
    absl::StatusOr<uint32_t> chunk = arena->Allocate();
    ASSERT_TRUE(chunk.ok()) << chunk.status();
    ASSERT_LT(*chunk, 4u);
    EXPECT_FALSE(seen[*chunk]);
    seen[*chunk] = true;
  }
  EXPECT_FALSE(arena->Allocate().ok());
}

TEST(ArenaTest, RunsThatAreOutNeverOverlap) {
  constexpr uint64_t kSeed = 5;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  constexpr uint32_t kChunks = 256;
  RandomSequence random(kSeed);
  const std::unique_ptr<Arena> arena = MakeArena(kChunks * kChunk);
  std::map<uint32_t, int> out;
  std::vector<int> owners(kChunks);
  uint64_t num_used = 0;
  for (int step = 0; step < 20000; ++step) {
    if (random.Below(2) == 0) {
      const int order = static_cast<int>(random.Below(5));
      absl::StatusOr<uint32_t> run = arena->Allocate(order);
      if (!run.ok()) continue;
      out[*run] = order;
      num_used += uint64_t{1} << order;
      for (uint32_t i = 0; i < (1u << order); ++i) {
        ASSERT_LT(*run + i, kChunks);
        ASSERT_EQ(owners[*run + i]++, 0) << "step " << step;
      }
    } else if (!out.empty()) {
      auto run = out.lower_bound(static_cast<uint32_t>(random.Below(kChunks)));
      if (run == out.end()) run = out.begin();
      for (uint32_t i = 0; i < (1u << run->second); ++i) {
        --owners[run->first + i];
      }
      num_used -= uint64_t{1} << run->second;
      arena->Free(run->first, run->second);
      out.erase(run);
    }
    ASSERT_EQ(arena->bytes_used(), num_used * kChunk);
  }
}

// Sanitizers take terabytes of it.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

// With `spare_bytes` of address space left: 0 where an arena can be used and
// leaves more than half of that.
int CodeOfShortAddressSpace(uint64_t spare_bytes) {
  std::ifstream statm("/proc/self/statm");
  uint64_t pages = 0;
  statm >> pages;
  const rlim_t now = pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE));
  const rlimit limit = {now + spare_bytes, now + spare_bytes};
  if (setrlimit(RLIMIT_AS, &limit) != 0) return 2;
  const auto arena = Arena::Create(uint64_t{1} << 40);
  if (!arena.ok()) return 3;
  const auto chunk = (*arena)->Allocate();
  if (!chunk.ok()) return 4;
  std::memset((*arena)->ChunkAddress(*chunk), 1, kChunk);
  if ((*arena)->bytes_max() < spare_bytes / 16) return 5;
  if ((*arena)->bytes_max() > spare_bytes / 2) return 6;
  return 0;
}

TEST(ArenaDeathTest, TakesLessWhereAddressSpaceIsShort) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(_exit(CodeOfShortAddressSpace(uint64_t{4} << 30)),
              ::testing::ExitedWithCode(0), "");
}

#endif

}  // namespace
}  // namespace oarlock::sparse_table
