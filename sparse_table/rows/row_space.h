// Where the rows of a table lie: chunks of its arena cut into cells, one for a
// row.
//
// A row reference is 32 bits, chunk number << cell_bits | cell, so the index
// stays small and a row's address is two multiplications away from the arena's
// base: no table of chunks is read. Rows never move.

#ifndef OARLOCK_SPARSE_TABLE_ROWS_ROW_SPACE_H_
#define OARLOCK_SPARSE_TABLE_ROWS_ROW_SPACE_H_

#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "base/types.h"
#include "sparse_table/rows/arena.h"
#include "sparse_table/rows/row_layout.h"

namespace oarlock::sparse_table {

enum class RowRef : uint32_t {};
inline constexpr RowRef kNoRow{0xffffffff};

// Immutable, hence thread-safe; the rows themselves are guarded by their
// partition's lock.
class RowSpace {
 public:
  // REQUIRES: a row fits into a chunk; `arena` outlives this and has at most
  // MaxBytes(layout) bytes.
  RowSpace(Arena* arena, const RowLayout& layout)
      : arena_(arena),
        base_(arena->base()),
        layout_(layout),
        rows_per_chunk_(RowsPerChunk(layout)),
        cell_bits_(CellBits(layout)),
        cell_mask_((uint32_t{1} << cell_bits_) - 1),
        row_bytes_(static_cast<uint32_t>(layout.row_bytes())) {
    OARLOCK_CHECK(rows_per_chunk_ >= 1);
    OARLOCK_CHECK(arena->bytes_max() <= MaxBytes(layout));
  }

  // The largest arena that 32-bit references reach; one chunk less than their
  // range, so that kNoRow names no row.
  static uint64_t MaxBytes(const RowLayout& layout) {
    return ((uint64_t{1} << (32 - CellBits(layout))) - 1) * Arena::kChunkBytes;
  }

  static uint32_t RowsPerChunk(const RowLayout& layout) {
    return static_cast<uint32_t>(Arena::kChunkBytes / layout.row_bytes());
  }

  Arena& arena() const { return *arena_; }
  const RowLayout& layout() const { return layout_; }
  uint32_t rows_per_chunk() const { return rows_per_chunk_; }

  RowRef RefOf(uint32_t chunk, uint32_t cell) const {
    return RowRef{chunk << cell_bits_ | cell};
  }
  std::byte* At(RowRef ref) const {
    const uint32_t bits = static_cast<uint32_t>(ref);
    return base_ + size_t{bits >> cell_bits_} * Arena::kChunkBytes +
           size_t{bits & cell_mask_} * row_bytes_;
  }
  Key KeyAt(RowRef ref) const { return RowLayout::Header(At(ref)).key; }

 private:
  static int CellBits(const RowLayout& layout) {
    return static_cast<int>(std::bit_width(RowsPerChunk(layout) - 1));
  }

  Arena* const arena_;
  std::byte* const base_;
  const RowLayout layout_;
  const uint32_t rows_per_chunk_;
  const int cell_bits_;
  const uint32_t cell_mask_;
  const uint32_t row_bytes_;
};

}  // namespace oarlock::sparse_table

#endif  // OARLOCK_SPARSE_TABLE_ROWS_ROW_SPACE_H_
