#include "sparse_table/rows/row_index.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <new>
#include <type_traits>

#include "base/check.h"
#include "base/mix.h"
#include "base/random.h"
#include "base/status_macros.h"

namespace oarlock::sparse_table {
namespace {

constexpr uint64_t kFirstBuckets = 4;
// The bucket is chosen by the bits of the mix below the tag.
constexpr uint64_t kMaxBuckets = uint64_t{1} << 32;
// Rows whose headers are on their way during a rehash.
constexpr size_t kRehashDistance = 32;

}  // namespace

RowIndex::RowIndex(const RowSpace* rows, uint64_t jitter_seed)
    : rows_(rows), jitter_seed_(jitter_seed) {
  // A bucket that is never written stands for the empty index.
  static constexpr Bucket kEmpty{};
  buckets_ = const_cast<Bucket*>(&kEmpty);
}

RowIndex::~RowIndex() {
  if (storage_.buckets != nullptr) FreeBuckets(storage_, num_buckets());
}

size_t RowIndex::GrowthRows(uint64_t num_buckets) const {
  const double jitter =
      RandomUniform(jitter_seed_, std::bit_width(num_buckets));
  const double load = kMinLoad + (kMaxLoad - kMinLoad) * jitter;
  return static_cast<size_t>(static_cast<double>(num_buckets * kEntries) *
                             load);
}

absl::Status RowIndex::Reserve(size_t num_new) {
  const size_t wanted = num_rows_ + num_new;
  if (wanted <= growth_rows_) return absl::OkStatus();
  uint64_t larger =
      storage_.buckets == nullptr ? kFirstBuckets : 2 * num_buckets();
  while (GrowthRows(larger) < wanted) larger *= 2;
  absl::Status grown = Grow(larger);
  if (grown.ok()) return grown;
  const double full = kFullLoad * kEntries * static_cast<double>(num_buckets());
  if (storage_.buckets != nullptr && static_cast<double>(wanted) <= full) {
    return absl::OkStatus();
  }
  return grown;
}

void RowIndex::InsertInto(Bucket* buckets, uint64_t mask, uint64_t mix,
                          RowRef row) {
  for (uint64_t i = mix & mask;; i = (i + 1) & mask) {
    Bucket& bucket = buckets[i];
    if (bucket.count < kEntries) {
      bucket.tags[bucket.count] = TagOf(mix);
      bucket.rows[bucket.count] = row;
      ++bucket.count;
      return;
    }
    if (bucket.overflow < std::numeric_limits<uint16_t>::max()) {
      ++bucket.overflow;
    }
  }
}

void RowIndex::Insert(uint64_t mix, RowRef row) {
  OARLOCK_CHECK(num_rows_ < num_buckets() * kEntries &&
                storage_.buckets != nullptr);
  InsertInto(buckets_.load(std::memory_order_relaxed),
             mask_.load(std::memory_order_relaxed), mix, row);
  ++num_rows_;
}

void RowIndex::Erase(uint64_t mix, RowRef row) {
  Bucket* const buckets = buckets_.load(std::memory_order_relaxed);
  const uint64_t mask = mask_.load(std::memory_order_relaxed);
  for (uint64_t i = mix & mask;; i = (i + 1) & mask) {
    Bucket& bucket = buckets[i];
    for (int entry = 0; entry < bucket.count; ++entry) {
      if (bucket.rows[entry] != row) continue;
      --bucket.count;
      bucket.tags[entry] = bucket.tags[bucket.count];
      bucket.rows[entry] = bucket.rows[bucket.count];
      --num_rows_;
      return;
    }
    // The row was handed on from here.
    OARLOCK_CHECK(bucket.overflow > 0);
    if (bucket.overflow < std::numeric_limits<uint16_t>::max()) {
      --bucket.overflow;
    }
  }
}

absl::StatusOr<RowIndex::Storage> RowIndex::AllocateBuckets(
    uint64_t num_buckets) {
  static_assert(std::is_trivially_copyable_v<Bucket>);
  const size_t bytes = num_buckets * sizeof(Bucket);
  Storage storage;
  if (bytes < Arena::kChunkBytes) {
    storage.buckets = static_cast<Bucket*>(
        ::operator new (bytes, std::align_val_t{alignof(Bucket)}));
    heap_bytes_ += bytes;
  } else {
    storage.order =
        static_cast<int>(std::bit_width(bytes / Arena::kChunkBytes)) - 1;
    OARLOCK_ASSIGN_OR_RETURN(storage.chunk,
                             rows_->arena().Allocate(storage.order));
    storage.buckets =
        reinterpret_cast<Bucket*>(rows_->arena().ChunkAddress(storage.chunk));
  }
  std::memset(static_cast<void*>(storage.buckets), 0, bytes);
  return storage;
}

void RowIndex::FreeBuckets(const Storage& storage, uint64_t num_buckets) {
  if (storage.order >= 0) {
    rows_->arena().Free(storage.chunk, storage.order);
    return;
  }
  heap_bytes_ -= num_buckets * sizeof(Bucket);
  ::operator delete (storage.buckets, std::align_val_t{alignof(Bucket)});
}

absl::Status RowIndex::Grow(uint64_t larger) {
  OARLOCK_CHECK(larger <= kMaxBuckets);
  OARLOCK_ASSIGN_OR_RETURN(const Storage grown, AllocateBuckets(larger));
  const uint64_t mask = larger - 1;

  // Rows in the order of the old buckets go to ascending new buckets, so only
  // the keys in their headers are far away: those are asked for ahead.
  RowRef ahead[kRehashDistance];
  size_t read = 0;
  size_t moved = 0;
  const auto move_next = [&] {
    const RowRef row = ahead[moved++ % kRehashDistance];
    InsertInto(grown.buckets, mask, Mix(rows_->KeyAt(row)), row);
  };
  const Bucket* const old = buckets_.load(std::memory_order_relaxed);
  for (const Bucket* bucket = old; bucket != old + num_buckets(); ++bucket) {
    for (int i = 0; i < bucket->count; ++i) {
      if (read - moved == kRehashDistance) move_next();
      __builtin_prefetch(rows_->At(bucket->rows[i]));
      ahead[read++ % kRehashDistance] = bucket->rows[i];
    }
  }
  while (moved < read) move_next();
  OARLOCK_CHECK(moved == num_rows_);

  const Storage before = storage_;
  const uint64_t buckets_before = num_buckets();
  storage_ = grown;
  // A Prefetch between the two stores asks for a wrong line, no more.
  buckets_.store(grown.buckets, std::memory_order_relaxed);
  mask_.store(mask, std::memory_order_relaxed);
  growth_rows_ = GrowthRows(larger);
  if (before.buckets != nullptr) FreeBuckets(before, buckets_before);
  return absl::OkStatus();
}

}  // namespace oarlock::sparse_table
