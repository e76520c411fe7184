// A row as it lies in a checkpoint: on disk, hence not to be changed without a
// new format_version (docs/checkpoint_format.md). Little endian, no padding,
// all rows of a table of one size, whatever memory makes of them
// (sparse_table/rows/row_layout.h).
//
//   offset  bytes
//        0      8  stamp: version (high 36 bits), last touch modulo 2^24 (24),
//                  flags (low 4): 2, the extended part has been created; the
//                  others are 0
//        8      8  key
//       16      4  show      } only with statistics (accessor CTR)
//       20      4  click     }
//      ...  4*dim  embedding: embedding part, extended part
//      ...    4*s  optimizer state
//
// The version is that of the row's last push and is at least 1. The last touch
// is to be widened (WidenTouch) against the partition's latest_touch. What
// training would notice begins at the key, so that one hash covers it.

#ifndef OARLOCK_SPARSE_TABLE_ROWS_PACKED_ROWS_H_
#define OARLOCK_SPARSE_TABLE_ROWS_PACKED_ROWS_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/types.h"
#include "sparse_table/rows/row_layout.h"

namespace oarlock::sparse_table {

static_assert(std::endian::native == std::endian::little);

// Immutable.
class PackedRows {
 public:
  // Where the digest's bytes begin.
  static constexpr size_t kKeyOffset = 8;
  static constexpr size_t kHeaderBytes = 16;
  // Flags that say something about the content.
  static constexpr uint64_t kFlags = RowHeader::kExtended;

  explicit PackedRows(const RowLayout& layout)
      : layout_(layout),
        row_bytes_(kHeaderBytes + (layout.has_statistics() ? 8 : 0) +
                   (layout.dim() + layout.state_size()) * sizeof(float)) {}

  // Of a packed row.
  size_t row_bytes() const { return row_bytes_; }

  void Pack(const std::byte* row, std::byte* packed) const {
    constexpr uint64_t kAllFlags = (1 << RowHeader::kFlagBits) - 1;
    const RowHeader& header = RowLayout::Header(row);
    const uint64_t stamp = header.packed & (~kAllFlags | kFlags);
    std::memcpy(packed, &stamp, sizeof(stamp));
    std::memcpy(packed + kKeyOffset, &header.key, sizeof(Key));
    packed += kHeaderBytes;
    if (layout_.has_statistics()) {
      std::memcpy(packed, layout_.Statistics(row), 2 * sizeof(float));
      packed += 2 * sizeof(float);
    }
    std::memcpy(packed, layout_.Embedding(row), layout_.dim() * sizeof(float));
    packed += layout_.dim() * sizeof(float);
    std::memcpy(packed, layout_.State(row),
                layout_.state_size() * sizeof(float));
  }

  void Unpack(const std::byte* packed, std::byte* row) const {
    RowLayout::Header(row) = HeaderOf(packed);
    packed += kHeaderBytes;
    if (layout_.has_statistics()) {
      std::memcpy(layout_.Statistics(row), packed, 2 * sizeof(float));
      packed += 2 * sizeof(float);
    }
    std::memcpy(layout_.Embedding(row), packed, layout_.dim() * sizeof(float));
    packed += layout_.dim() * sizeof(float);
    std::memcpy(layout_.State(row), packed,
                layout_.state_size() * sizeof(float));
  }

  static RowHeader HeaderOf(const std::byte* packed) {
    RowHeader header{.key = KeyOf(packed)};
    std::memcpy(&header.packed, packed, sizeof(header.packed));
    return header;
  }
  static Key KeyOf(const std::byte* packed) {
    Key key;
    std::memcpy(&key, packed + kKeyOffset, sizeof(key));
    return key;
  }

  // XXH3-64 of the bytes from the key on, with seed 1 when the extended part
  // has been created, else without one. A partition's digest is the sum modulo
  // 2^64 over its rows.
  uint64_t Digest(const std::byte* packed) const;

 private:
  RowLayout layout_;
  size_t row_bytes_;
};

}  // namespace oarlock::sparse_table

#endif  // OARLOCK_SPARSE_TABLE_ROWS_PACKED_ROWS_H_
