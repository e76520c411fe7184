#include "sparse_table/rows/arena.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include <algorithm>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace oarlock::sparse_table {
namespace {

constexpr size_t kHugePageBytes = 2 << 20;

// How far ahead of the chunks in use memory is taken: this share of them, and
// within these limits. 64 MiB are 40 ms of creating rows at full speed.
constexpr uint64_t kPopulateShare = 16;
constexpr uint64_t kPopulateBytesMin = 2 * kHugePageBytes;
constexpr uint64_t kPopulateBytesMax = 64 << 20;

constexpr uint64_t kShareOfShortAddressSpace = 4;

void* Reserve(size_t bytes) {
  return mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

// How many chunks, of at most `num_chunks`, can be reserved now, or about half
// of them.
uint64_t ChunksThatFit(uint64_t num_chunks) {
  for (; num_chunks > 0; num_chunks /= 2) {
    const size_t bytes = num_chunks * Arena::kChunkBytes + kHugePageBytes;
    void* const reservation = Reserve(bytes);
    if (reservation == MAP_FAILED) continue;
    munmap(reservation, bytes);
    break;
  }
  return num_chunks;
}

std::byte* FirstHugePage(void* reservation) {
  const uintptr_t address = reinterpret_cast<uintptr_t>(reservation);
  return static_cast<std::byte*>(reservation) +
         (kHugePageBytes - address % kHugePageBytes) % kHugePageBytes;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Arena>> Arena::Create(uint64_t bytes_max) {
  uint64_t num_chunks = std::clamp<uint64_t>(
      bytes_max / kChunkBytes, 1, std::numeric_limits<uint32_t>::max());
  size_t reserved_bytes = num_chunks * kChunkBytes + kHugePageBytes;
  void* reservation = Reserve(reserved_bytes);
  if (reservation == MAP_FAILED) {
    // Address space is short (ulimit -v, vm.overcommit_memory, or very many
    // tables): a quarter of what there is, so that as much again is left.
    num_chunks = ChunksThatFit(num_chunks) / kShareOfShortAddressSpace;
    reserved_bytes = num_chunks * kChunkBytes + kHugePageBytes;
    reservation = num_chunks == 0 ? MAP_FAILED : Reserve(reserved_bytes);
  }
  if (reservation == MAP_FAILED) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "cannot reserve ", reserved_bytes, " bytes of address space for a ",
        "table: ", strerror(errno),
        "; lower the table's memory limit or raise the process's (ulimit -v)"));
  }
  if (reserved_bytes > kSmallPageBytes + kHugePageBytes) {
    // Advice only: without huge pages the table works, 10 to 20 % slower.
    madvise(FirstHugePage(reservation) + kSmallPageBytes,
            reserved_bytes - kHugePageBytes - kSmallPageBytes, MADV_HUGEPAGE);
  }
  return std::unique_ptr<Arena>(new Arena(reservation, reserved_bytes,
                                          static_cast<uint32_t>(num_chunks)));
}

Arena::Arena(void* reservation, size_t reserved_bytes, uint32_t num_chunks)
    : reservation_(reservation),
      reserved_bytes_(reserved_bytes),
      num_chunks_(num_chunks),
      base_(FirstHugePage(reservation)),
      populator_(std::make_unique<PagePopulator>(base_)) {}

Arena::~Arena() {
  populator_.reset();
  munmap(reservation_, reserved_bytes_);
}

void Arena::Populate() {
  const uint64_t used = uint64_t{next_chunk_} * kChunkBytes;
  if (used < kSmallPageBytes) return;
  const uint64_t ahead =
      std::clamp(used / kPopulateShare, kPopulateBytesMin, kPopulateBytesMax);
  if (used + ahead / 2 <= populated_) return;
  populated_ = std::min(
      (used + ahead + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes,
      bytes_max());
  populator_->Ask(used, populated_);
}

absl::StatusOr<uint32_t> Arena::Allocate(int order) {
  OARLOCK_CHECK(order >= 0);
  const uint64_t run_chunks = uint64_t{1} << std::min(order, 63);
  WriterGuard guard(&lock_);
  // The smallest free run that is large enough; what is left over of it goes
  // back, one half after the other.
  for (int from = order; from <= kMaxOrder; ++from) {
    if (free_[from].empty()) continue;
    const uint32_t chunk = free_[from].back();
    free_[from].pop_back();
    while (from > order) {
      --from;
      free_[from].push_back(chunk + (uint32_t{1} << from));
    }
    chunks_used_.fetch_add(run_chunks, std::memory_order_relaxed);
    return chunk;
  }
  if (order > kMaxOrder || run_chunks > num_chunks_ - next_chunk_) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the table's memory is full: ", bytes_used(), " of ", bytes_max(),
        " bytes are used and ", run_chunks * kChunkBytes,
        " more are needed; raise the table's memory limit, evict rows or add "
        "servers"));
  }
  const uint32_t chunk = next_chunk_;
  next_chunk_ += static_cast<uint32_t>(run_chunks);
  Populate();
  chunks_used_.fetch_add(run_chunks, std::memory_order_relaxed);
  return chunk;
}

void Arena::Free(uint32_t first_chunk, int order) {
  OARLOCK_CHECK(order >= 0 && order <= kMaxOrder);
  WriterGuard guard(&lock_);
  free_[order].push_back(first_chunk);
  chunks_used_.fetch_sub(uint64_t{1} << order, std::memory_order_relaxed);
}

}  // namespace oarlock::sparse_table
