#include "sparse_table/rows/row_layout.h"

#include <gtest/gtest.h>

#include "sparse_table/rows/row_space.h"

namespace oarlock::sparse_table {
namespace {

TEST(RowLayoutTest, RowsHaveTheDocumentedSizes) {
  EXPECT_EQ(RowLayout(16, 16, false).row_bytes(), 144u);
  EXPECT_EQ(RowLayout(16, 16, true).row_bytes(), 152u);
  EXPECT_EQ(RowLayout(1, 0, false).row_bytes(), 24u);
  EXPECT_EQ(RowLayout(10, 0, false).row_bytes(), 56u);
  EXPECT_EQ(RowLayout(10, 22, true).row_bytes(), 152u);
}

TEST(RowHeaderTest, VersionTouchAndFlagsShareAWordWithoutTouchingEachOther) {
  constexpr uint64_t kFlags = RowHeader::kExtended | RowHeader::kRecent;
  RowHeader header{.key = Key{7},
                   .packed = RowHeader::kExtended | RowHeader::kClean};
  header.Stamp((uint64_t{1} << 36) - 1, 0);
  EXPECT_EQ(header.version(), (uint64_t{1} << 36) - 1);
  EXPECT_EQ(header.low_touch(), 0u);
  EXPECT_EQ(header.packed & 0xf, kFlags);
  header.Stamp(0, 0xffffffffu);
  EXPECT_EQ(header.version(), 0u);
  EXPECT_EQ(header.low_touch(), (1u << 24) - 1);
  EXPECT_EQ(header.packed & 0xf, kFlags);
  EXPECT_EQ(header.key, Key{7});
}

TEST(RowHeaderTest, ATouchIsWidenedToTheLatestTimeThatAgrees) {
  constexpr uint32_t kPeriod = 1u << 24;
  for (const uint32_t latest :
       {0u, 5u, kPeriod - 1, kPeriod, 3 * kPeriod + 17, 0xffffffffu}) {
    for (const uint32_t age : {0u, 1u, 17u, kPeriod - 1}) {
      if (age > latest) continue;
      const uint32_t touch = latest - age;
      EXPECT_EQ(WidenTouch(touch % kPeriod, latest), touch)
          << "latest " << latest << ", age " << age;
    }
  }
}

TEST(RowSpaceTest, RowsOfAllSizesKeepToTheirChunksAndApart) {
  for (const size_t dim : {1, 3, 10, 16, 64, 1000, 8000, 16000}) {
    SCOPED_TRACE(testing::Message() << "dim " << dim);
    const RowLayout layout(dim, 0, true);
    absl::StatusOr<std::unique_ptr<Arena>> arena =
        Arena::Create(3 * Arena::kChunkBytes);
    ASSERT_TRUE(arena.ok()) << arena.status();
    const RowSpace rows(arena->get(), layout);
    for (uint32_t chunk = 0; chunk < 3; ++chunk) {
      std::byte* expected = (*arena)->ChunkAddress(chunk);
      for (uint32_t cell = 0; cell < rows.rows_per_chunk(); ++cell) {
        ASSERT_EQ(rows.At(rows.RefOf(chunk, cell)), expected);
        expected += layout.row_bytes();
      }
      EXPECT_LE(expected, (*arena)->ChunkAddress(chunk + 1));
      EXPECT_GT(expected + layout.row_bytes(),
                (*arena)->ChunkAddress(chunk + 1));
    }
  }
}

}  // namespace
}  // namespace oarlock::sparse_table
