// The memory of one table: a single reservation of address space on huge
// pages, handed out in runs of 64 KiB chunks.
//
// One arena serves all partitions of a table: a slab of 2 MiB per partition
// would waste gigabytes, malloc would not use huge pages, and with one base
// address a 32-bit row reference finds its row without a look-up. Address space
// is reserved at once and costs nothing. Memory is taken from the system when a
// chunk is first written, or by a thread shortly before that
// (page_populator.h).
//
// The first kSmallPageBytes are on small pages: every partition begins with a
// chunk of its own and few rows, so a small table takes little memory, and its
// first push does not wait until huge pages have been cleared.

#ifndef OARLOCK_SPARSE_TABLE_ROWS_ARENA_H_
#define OARLOCK_SPARSE_TABLE_ROWS_ARENA_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "sparse_table/rows/page_populator.h"
#include "sparse_table/rows/reader_writer_lock.h"

namespace oarlock::sparse_table {

// Thread-safe. A freed run stays readable as memory (its bytes may be anything)
// until the arena is destroyed: a prefetch of a stale address is harmless.
//
// The lock is a std::mutex because Debian's Abseil is not instrumented, so
// ThreadSanitizer does not see what absl::Mutex orders.
class Arena {
 public:
  static constexpr size_t kChunkBytes = 64 << 10;
  // A run has 2^order chunks, order at most this: 4 GiB.
  static constexpr int kMaxOrder = 16;
  static constexpr size_t kSmallPageBytes = 16 << 20;

  // At most `bytes_max` bytes are handed out (rounded down to chunks, at least
  // one). ResourceExhausted when the address space cannot be reserved.
  static absl::StatusOr<std::unique_ptr<Arena>> Create(uint64_t bytes_max);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // The number of the first of 2^order adjacent chunks, whose bytes may be
  // anything. ResourceExhausted when there is no such run.
  absl::StatusOr<uint32_t> Allocate(int order = 0);
  // Gives back a run. REQUIRES: it came from Allocate with the same order.
  void Free(uint32_t first_chunk, int order);

  // Constant. Chunk i begins at base() + i * kChunkBytes.
  std::byte* base() const { return base_; }
  std::byte* ChunkAddress(uint32_t chunk) const {
    return base_ + chunk * kChunkBytes;
  }

  uint64_t bytes_max() const { return uint64_t{num_chunks_} * kChunkBytes; }
  // Bytes of runs that are handed out.
  uint64_t bytes_used() const {
    return chunks_used_.load(std::memory_order_relaxed) * kChunkBytes;
  }

 private:
  Arena(void* reservation, size_t reserved_bytes, uint32_t num_chunks);

  // Has memory taken ahead of next_chunk_.
  void Populate() ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_);

  // Constant after construction.
  void* const reservation_;
  const size_t reserved_bytes_;
  const uint32_t num_chunks_;
  std::byte* const base_;
  // Null only while this is being destroyed.
  std::unique_ptr<PagePopulator> populator_;

  std::atomic<uint64_t> chunks_used_{0};

  ReaderWriterLock lock_;
  // Chunks from here on have never been handed out.
  uint32_t next_chunk_ ABSL_GUARDED_BY(lock_) = 0;
  // Free runs by order. Never joined again: the runs that indexes leave behind
  // when they grow are cut up for rows.
  std::array<std::vector<uint32_t>, kMaxOrder + 1> free_ ABSL_GUARDED_BY(lock_);
  // Bytes from base() on that the populator has been asked for.
  uint64_t populated_ ABSL_GUARDED_BY(lock_) = 0;
};

}  // namespace oarlock::sparse_table

#endif  // OARLOCK_SPARSE_TABLE_ROWS_ARENA_H_
