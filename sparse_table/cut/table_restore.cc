#include "sparse_table/cut/table_restore.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/mix.h"
#include "base/status_macros.h"
#include "sparse_table/rows/reader_writer_lock.h"
#include "sparse_table/rows/row_layout.h"
#include "storage/cold_rows.h"

namespace oarlock::sparse_table {
namespace {

template <typename... Parts>
absl::Status Damaged(PartitionIndex index, const Parts&... parts) {
  return absl::DataLossError(absl::StrCat("partition ", index.value(), ": ",
                                          parts...,
                                          "; restore another checkpoint"));
}

// Ascending, each worker and generation once, as PushWindow says.
absl::StatusOr<std::vector<PushWindow>> WindowsOf(
    PartitionIndex index, const v1::SparsePartitionState& state) {
  std::vector<PushWindow> windows;
  for (const v1::PushWindowState& saved : state.windows()) {
    const PushWindow window = {.worker = WorkerIndex(saved.worker()),
                               .generation = Generation(saved.generation()),
                               .highest = Sequence(saved.highest()),
                               .applied = saved.applied()};
    const bool ascends =
        windows.empty() ||
        std::pair(windows.back().worker, windows.back().generation) <
            std::pair(window.worker, window.generation);
    if (!ascends || saved.highest() == 0 || (saved.applied() & 1) == 0) {
      return Damaged(index, "the push window of worker ", saved.worker(),
                     ", generation ", saved.generation(), ", has sequence ",
                     saved.highest(), " and bits ", saved.applied(),
                     "; legal is ascending, from 1 on, with the lowest bit");
    }
    windows.push_back(window);
  }
  return windows;
}

}  // namespace

absl::Status TableRestore::CheckIndex(PartitionIndex index) const {
  if (index.value() < partitions_.size()) return absl::OkStatus();
  return Damaged(index, "is none of ours; legal is below ", partitions_.size());
}

absl::Status TableRestore::CheckKeys(PartitionIndex index,
                                     absl::Span<const Key> keys) const {
  for (const Key key : keys) {
    const PartitionIndex actual = PartitionOfMix(Mix(key), partition_bits_);
    if (actual != index) {
      return Damaged(index, "has key ", static_cast<uint64_t>(key),
                     ", which is of partition ", actual.value());
    }
  }
  return absl::OkStatus();
}

absl::Status TableRestore::CheckRows(PartitionIndex index,
                                     absl::Span<const std::byte> packed,
                                     std::vector<Key>* keys) const {
  OARLOCK_RETURN_IF_ERROR(CheckIndex(index));
  const size_t row_bytes = packing_.row_bytes();
  if (packed.size() % row_bytes != 0) {
    return Damaged(index, "a record of rows has ", packed.size(),
                   " bytes; legal is a multiple of ", row_bytes);
  }
  constexpr uint64_t kAllFlags = (1 << RowHeader::kFlagBits) - 1;
  const uint64_t legal_flags =
      rules_.extended_dim() == 0 ? 0 : PackedRows::kFlags;
  keys->reserve(packed.size() / row_bytes);
  for (size_t at = 0; at < packed.size(); at += row_bytes) {
    const RowHeader header = PackedRows::HeaderOf(packed.data() + at);
    if (header.version() == 0 ||
        (header.packed & kAllFlags & ~legal_flags) != 0) {
      return Damaged(index, "the row of key ",
                     static_cast<uint64_t>(header.key), " has version ",
                     header.version(), " and flags ", header.packed & kAllFlags,
                     "; legal is a version from 1 on and flags of ",
                     legal_flags);
    }
    keys->push_back(header.key);
  }
  return CheckKeys(index, *keys);
}

absl::Status TableRestore::CheckEachOnce(PartitionIndex index,
                                         std::vector<Key> keys) const {
  std::sort(keys.begin(), keys.end());
  const auto twice = std::adjacent_find(keys.begin(), keys.end());
  if (twice == keys.end()) return absl::OkStatus();
  return Damaged(index, "a record has key ", static_cast<uint64_t>(*twice),
                 " twice; legal is once");
}

absl::Status TableRestore::MakeRoom(PartitionIndex index,
                                    absl::Span<const Key> keys,
                                    Partition* partition) {
  return tier_ == nullptr ? partition->ReserveRows(keys)
                          : tier_->BringGroup(index, keys, partition);
}

uint64_t TableRestore::DigestOf(const std::byte* row) const {
  thread_local std::vector<std::byte> packed;
  packed.resize(packing_.row_bytes());
  packing_.Pack(row, packed.data());
  return packing_.Digest(packed.data());
}

absl::Status TableRestore::Rows(PartitionIndex index,
                                absl::Span<const std::byte> packed) {
  std::vector<Key> keys;
  OARLOCK_RETURN_IF_ERROR(CheckRows(index, packed, &keys));
  Partition& partition = *partitions_[index.value()];
  Progress& progress = progress_[index.value()];
  WriterGuard guard(partition.lock());
  OARLOCK_RETURN_IF_ERROR(MakeRoom(index, keys, &partition));
  // A base has new keys alone, and then there is nothing to look for.
  bool each_once = false;
  for (size_t i = 0; i < keys.size(); ++i) {
    const std::byte* const from = packed.data() + i * packing_.row_bytes();
    const uint64_t mix = Mix(keys[i]);
    const RowRef found = partition.Find(keys[i], mix);
    std::byte* row;
    if (found == kNoRow) {
      row = partition.CreateRow(keys[i], mix);
    } else {
      if (!each_once) OARLOCK_RETURN_IF_ERROR(CheckEachOnce(index, keys));
      each_once = true;
      row = rows_.At(found);
      progress.digest -= DigestOf(row);
    }
    packing_.Unpack(from, row);
    progress.digest += packing_.Digest(from);
    progress.latest_version =
        std::max(progress.latest_version, RowLayout::Header(row).version());
  }
  return absl::OkStatus();
}

absl::Status TableRestore::Erased(PartitionIndex index,
                                  absl::Span<const Key> keys) {
  OARLOCK_RETURN_IF_ERROR(CheckIndex(index));
  OARLOCK_RETURN_IF_ERROR(CheckKeys(index, keys));
  for (size_t first = 0; first < keys.size();
       first += storage::ColdRows::kMaxBatchRows) {
    OARLOCK_RETURN_IF_ERROR(EraseSome(
        index, keys.subspan(first, storage::ColdRows::kMaxBatchRows)));
  }
  return absl::OkStatus();
}

absl::Status TableRestore::EraseSome(PartitionIndex index,
                                     absl::Span<const Key> keys) {
  Partition& partition = *partitions_[index.value()];
  WriterGuard guard(partition.lock());
  OARLOCK_RETURN_IF_ERROR(MakeRoom(index, keys, &partition));
  if (tier_ != nullptr) {
    OARLOCK_RETURN_IF_ERROR(tier_->Forget(index, keys, partition));
  }
  for (const Key key : keys) {
    const RowRef found = partition.Find(key, Mix(key));
    if (found == kNoRow) continue;
    std::byte* const row = rows_.At(found);
    progress_[index.value()].digest -= DigestOf(row);
    partition.EvictRow(found, row);
  }
  return absl::OkStatus();
}

absl::Status TableRestore::RestoreSketch(PartitionIndex index,
                                         const std::string& bytes,
                                         Partition* partition) {
  if (bytes.empty()) return absl::OkStatus();
  CountSketch* const sketch = partition->sketch();
  const size_t legal_bytes =
      sketch == nullptr
          ? 0
          : sizeof(uint64_t) + sketch->num_counters() * sizeof(uint16_t);
  if (bytes.size() != legal_bytes) {
    return Damaged(index, "what admission remembers has ", bytes.size(),
                   " bytes; legal is none or ", legal_bytes);
  }
  uint64_t sum;
  std::memcpy(&sum, bytes.data(), sizeof(sum));
  std::vector<uint16_t> counters(sketch->num_counters());
  std::memcpy(counters.data(), bytes.data() + sizeof(sum),
              counters.size() * sizeof(uint16_t));
  sketch->Restore(sum, std::move(counters));
  return absl::OkStatus();
}

absl::Status TableRestore::Finish(PartitionIndex index,
                                  const v1::SparsePartitionState& state) {
  OARLOCK_RETURN_IF_ERROR(CheckIndex(index));
  Partition& partition = *partitions_[index.value()];
  const Progress& progress = progress_[index.value()];
  WriterGuard guard(partition.lock());
  if (partition.num_rows() != state.rows()) {
    return Damaged(index, "its records give ", partition.num_rows(),
                   " rows; legal is what its state says, ", state.rows());
  }
  if (state.digest() != 0 && state.digest() != progress.digest) {
    return Damaged(index, "its rows have digest ",
                   absl::Hex(progress.digest, absl::kZeroPad16),
                   "; legal is what its state says, ",
                   absl::Hex(state.digest(), absl::kZeroPad16));
  }
  if (state.version() < progress.latest_version ||
      state.created_rows() < state.rows()) {
    return Damaged(index, "its state says version ", state.version(), " and ",
                   state.created_rows(), " created rows; legal is at least ",
                   progress.latest_version, " and ", state.rows());
  }
  OARLOCK_ASSIGN_OR_RETURN(std::vector<PushWindow> windows,
                           WindowsOf(index, state));
  OARLOCK_RETURN_IF_ERROR(RestoreSketch(index, state.sketch(), &partition));
  partition.Restore({.version = state.version(),
                     .latest_touch = state.latest_touch(),
                     .created_rows = state.created_rows(),
                     .rejected_keys = state.rejected_keys(),
                     .windows = std::move(windows)});
  return absl::OkStatus();
}

}  // namespace oarlock::sparse_table
