// The index of one partition: from a key's mix to its row.
//
// Open addressing over buckets of one cache line:
//
//   0          20                     60       62         64
//   | tag x 10 | row reference x 10   | count  | overflow |
//
// A tag is bits 32-47 of Mix(key); the bucket is chosen by the lowest bits; the
// partition took the highest: all three are independent. Keys are not stored
// here but verified in the row's header, which a pull or push reads anyway, so
// a hit costs two cache misses (bucket, row), a miss one, and the index 6.4
// bytes an entry. A wrong tag match (1 in 6,500 lookups in a bucket of 10 rows)
// costs one row header.
//
// A full bucket hands rows on to the next one and counts them in `overflow`;
// a lookup goes on only past a bucket that has handed something on. `count` and
// `overflow` make erasing possible without tombstones.
//
// Growth doubles the buckets at a load between kMinLoad and kMaxLoad that
// differs from partition to partition and from doubling to doubling: otherwise
// all partitions of a table, which fill evenly, would grow within one batch. A
// rehash reads the header of every row, prefetched, about 10 ns a row.

#ifndef OARLOCK_SPARSE_TABLE_ROWS_ROW_INDEX_H_
#define OARLOCK_SPARSE_TABLE_ROWS_ROW_INDEX_H_

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/types.h"
#include "sparse_table/rows/row_space.h"

namespace oarlock::sparse_table {

// Thread safety: const functions may run together, the others need the
// partition's lock exclusively; Prefetch needs no lock at all.
class RowIndex {
 public:
  static constexpr int kEntries = 10;
  static constexpr double kMinLoad = 0.60;
  static constexpr double kMaxLoad = 0.80;
  // Without memory for a larger index this one is filled up to here.
  static constexpr double kFullLoad = 0.90;

  // `rows` outlives the index. `jitter_seed` differs between partitions.
  RowIndex(const RowSpace* rows, uint64_t jitter_seed);
  ~RowIndex();
  RowIndex(const RowIndex&) = delete;
  RowIndex& operator=(const RowIndex&) = delete;

  // Asks the memory for the bucket of `mix`. Lock-free: during a growth it may
  // ask for the wrong line, which only costs time.
  void Prefetch(uint64_t mix) const {
    const uint64_t mask = mask_.load(std::memory_order_relaxed);
    __builtin_prefetch(buckets_.load(std::memory_order_relaxed) + (mix & mask));
  }

  // A row that is that of the key with this mix, unless another key has the
  // same tag: the caller compares the key in its header and asks Find when it
  // differs. kNoRow: the key has no row. Does not read rows.
  RowRef FindCandidate(uint64_t mix) const {
    return FindWhere(mix, [](RowRef) { return true; });
  }

  // The row of `key`, or kNoRow.
  RowRef Find(Key key, uint64_t mix) const {
    return FindWhere(mix, [&](RowRef row) { return rows_->KeyAt(row) == key; });
  }

  // Makes room for `num_new` more rows. ResourceExhausted when there is no
  // memory for it; the index is as it was.
  absl::Status Reserve(size_t num_new);

  // REQUIRES: room was reserved, the key has no row in the index.
  void Insert(uint64_t mix, RowRef row);

  // Takes out a row. REQUIRES: it was inserted with this mix and is here. The
  // index stays as large as it is.
  void Erase(uint64_t mix, RowRef row);

  size_t num_rows() const { return num_rows_; }
  // Rows that fit before a Reserve has to grow the index.
  size_t growth_rows() const { return growth_rows_; }
  size_t num_buckets() const {
    return mask_.load(std::memory_order_relaxed) + 1;
  }
  // Memory outside the arena.
  size_t heap_bytes() const { return heap_bytes_; }

 private:
  struct alignas(64) Bucket {
    uint16_t tags[kEntries];
    RowRef rows[kEntries];
    uint16_t count;
    // Rows that would be here or earlier but were handed on; stays at its
    // maximum once there.
    uint16_t overflow;
  };
  static_assert(sizeof(Bucket) == 64);

  static uint16_t TagOf(uint64_t mix) {
    return static_cast<uint16_t>(mix >> 32);
  }

  // Bit i: entry i is in use and has this tag.
  static uint32_t Matches(const Bucket& bucket, uint16_t tag) {
    const uint32_t used = (1u << bucket.count) - 1;
#if defined(__SSE2__)
    const __m128i wanted = _mm_set1_epi16(static_cast<int16_t>(tag));
    const __m128i* tags = reinterpret_cast<const __m128i*>(bucket.tags);
    // The second load reaches six tags' width into the references; those bits
    // are not in use.
    const __m128i low = _mm_cmpeq_epi16(_mm_load_si128(tags), wanted);
    const __m128i high = _mm_cmpeq_epi16(_mm_load_si128(tags + 1), wanted);
    return _mm_movemask_epi8(_mm_packs_epi16(low, high)) & used;
#else
    uint32_t matches = 0;
    for (int i = 0; i < kEntries; ++i) {
      matches |= static_cast<uint32_t>(bucket.tags[i] == tag) << i;
    }
    return matches & used;
#endif
  }

  template <typename Accept>
  RowRef FindWhere(uint64_t mix, Accept accept) const {
    const uint64_t mask = mask_.load(std::memory_order_relaxed);
    const Bucket* buckets = buckets_.load(std::memory_order_relaxed);
    const uint16_t tag = TagOf(mix);
    for (uint64_t i = mix & mask;; i = (i + 1) & mask) {
      const Bucket& bucket = buckets[i];
      uint32_t matches = Matches(bucket, tag);
      while (matches != 0) {
        const RowRef row = bucket.rows[std::countr_zero(matches)];
        if (accept(row)) return row;
        matches &= matches - 1;
      }
      if (bucket.overflow == 0) return kNoRow;
    }
  }

  // Where buckets lie: small arrays on the heap, from a chunk on in the arena.
  struct Storage {
    Bucket* buckets = nullptr;
    // First chunk and order of the run; order -1: on the heap.
    uint32_t chunk = 0;
    int order = -1;
  };
  absl::StatusOr<Storage> AllocateBuckets(uint64_t num_buckets);
  void FreeBuckets(const Storage& storage, uint64_t num_buckets);
  absl::Status Grow(uint64_t num_buckets);
  // Rows that `num_buckets` take before they are to be doubled.
  size_t GrowthRows(uint64_t num_buckets) const;
  static void InsertInto(Bucket* buckets, uint64_t mask, uint64_t mix,
                         RowRef row);

  const RowSpace* const rows_;
  const uint64_t jitter_seed_;

  // Read without the lock by Prefetch, hence atomic.
  std::atomic<Bucket*> buckets_;
  std::atomic<uint64_t> mask_{0};

  Storage storage_;
  size_t num_rows_ = 0;
  size_t growth_rows_ = 0;
  size_t heap_bytes_ = 0;
};

}  // namespace oarlock::sparse_table

#endif  // OARLOCK_SPARSE_TABLE_ROWS_ROW_INDEX_H_
