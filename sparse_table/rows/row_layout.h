// How a row lies in memory. All rows of a table have the same size.
//
//   offset  bytes
//        0      8  key
//        8      8  version (high 36 bits), last touch (24), flags (low 4)
//       16      4  show      } only with statistics (accessor CTR);
//       20      4  click     } without them the header is 16 bytes
//   header  4*dim  embedding: embedding part, extended part
//      ...  4*s    optimizer state (s floats, the StateSize of the update
//                  rules): that of the embedding part, of the extended part
//      ...         zero to four bytes, so that rows begin at multiples of 8
//
// A cell that holds no row, but did, has the flag kFree and, in place of the
// key, the reference of the next free cell of its partition. On disk
// (sparse_table/tier.h) lies a row without its key and without the flags that
// are about memory.
//
// Dim 16 under adagrad: 16 + 64 + 64 = 144 bytes, 152 with statistics.

#ifndef OARLOCK_SPARSE_TABLE_ROWS_ROW_LAYOUT_H_
#define OARLOCK_SPARSE_TABLE_ROWS_ROW_LAYOUT_H_

#include <cstddef>
#include <cstdint>

#include "base/types.h"

namespace oarlock::sparse_table {

// The first 16 bytes of every row. Versions wrap after 2^36 pushes to a
// partition: two years at a thousand a second.
struct RowHeader {
  static constexpr int kFlagBits = 4;
  static constexpr int kTouchBits = 24;
  static constexpr uint32_t kTouchMask = (1u << kTouchBits) - 1;
  // Flags. The cell holds no row.
  static constexpr uint64_t kFree = 1;
  // The row's extended part has been created.
  static constexpr uint64_t kExtended = 2;
  // Tables with two tiers only; they say nothing about the row's content.
  // Pushed to or promoted since the clock hand has passed.
  static constexpr uint64_t kRecent = 4;
  // An equal copy is on disk.
  static constexpr uint64_t kClean = 8;

  Key key;
  uint64_t packed = 0;

  uint64_t version() const { return packed >> (kTouchBits + kFlagBits); }
  bool is_free() const { return (packed & kFree) != 0; }
  bool extended() const { return (packed & kExtended) != 0; }
  // The last touch modulo 2^24; WidenTouch gives it back in full.
  uint32_t low_touch() const {
    return static_cast<uint32_t>(packed >> kFlagBits) & kTouchMask;
  }
  // Of a row that a push has changed.
  void Stamp(uint64_t version, uint32_t touch) {
    packed = (version << (kTouchBits + kFlagBits)) |
             (uint64_t{touch & kTouchMask} << kFlagBits) |
             (packed & kExtended) | kRecent;
  }
};

// The latest logical time not after `latest` that agrees with `low` modulo
// 2^24: right as long as a row is touched within 2^24 ticks of the partition's
// latest time (194 days at one tick a second; eviction by idle time takes away
// what is older).
constexpr uint32_t WidenTouch(uint32_t low, uint32_t latest) {
  return latest - ((latest - low) & RowHeader::kTouchMask);
}

// Offsets within a row. Immutable.
class RowLayout {
 public:
  RowLayout(size_t dim, size_t state_size, bool has_statistics)
      : dim_(dim),
        state_size_(state_size),
        header_bytes_(has_statistics ? 24 : 16),
        row_bytes_((header_bytes_ + (dim + state_size) * sizeof(float) + 7) /
                   8 * 8) {}

  size_t dim() const { return dim_; }
  // Floats of optimizer state.
  size_t state_size() const { return state_size_; }
  bool has_statistics() const { return header_bytes_ == 24; }
  size_t header_bytes() const { return header_bytes_; }
  size_t row_bytes() const { return row_bytes_; }

  static RowHeader& Header(std::byte* row) {
    return *reinterpret_cast<RowHeader*>(row);
  }
  static const RowHeader& Header(const std::byte* row) {
    return *reinterpret_cast<const RowHeader*>(row);
  }
  // REQUIRES: has_statistics(). Show, then click.
  float* Statistics(std::byte* row) const {
    return reinterpret_cast<float*>(row + sizeof(RowHeader));
  }
  const float* Statistics(const std::byte* row) const {
    return reinterpret_cast<const float*>(row + sizeof(RowHeader));
  }
  float* Embedding(std::byte* row) const {
    return reinterpret_cast<float*>(row + header_bytes_);
  }
  const float* Embedding(const std::byte* row) const {
    return reinterpret_cast<const float*>(row + header_bytes_);
  }
  float* State(std::byte* row) const { return Embedding(row) + dim_; }
  const float* State(const std::byte* row) const {
    return Embedding(row) + dim_;
  }

 private:
  size_t dim_;
  size_t state_size_;
  size_t header_bytes_;
  size_t row_bytes_;
};

static_assert(sizeof(RowHeader) == 16);

}  // namespace oarlock::sparse_table

#endif  // OARLOCK_SPARSE_TABLE_ROWS_ROW_LAYOUT_H_
