#include "sparse_table/cut/cut_saver.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "sparse_table/rows/row_cells.h"
#include "sparse_table/rows/row_layout.h"

namespace oarlock::sparse_table {
namespace {

// Pre-images that are looked at while the partition is locked.
constexpr size_t kImagesPerHold = 512;
// Cells that are copied, those in a row and those that changed here and there:
// some 20 microseconds.
constexpr uint32_t kCellsPerHold = 512;
constexpr size_t kChangedPerHold = 256;
constexpr size_t kCacheLineBytes = 64;

// Always inlined: g++ drops calls of a function that only prefetches.
[[gnu::always_inline]] inline void Prefetch(const void* first,
                                            size_t num_bytes) {
  const size_t before = reinterpret_cast<uintptr_t>(first) % kCacheLineBytes;
  for (size_t i = 0; i < before + num_bytes; i += kCacheLineBytes) {
    __builtin_prefetch(static_cast<const char*>(first) + i);
  }
}

}  // namespace

CutSaver::CutSaver(const CutScope& scope, CutSink& sink)
    : rows_(scope.rows),
      packing_(scope.packing),
      tier_(scope.tier),
      index_(scope.index),
      partition_(scope.partition),
      cut_(scope.cut),
      sink_(sink),
      record_rows_(
          std::max<size_t>(1, sink.record_bytes() / scope.packing.row_bytes())),
      record_(record_rows_ * scope.packing.row_bytes()) {}

absl::StatusOr<SavedPartition> CutSaver::Run() {
  if (cut_.full()) {
    OARLOCK_RETURN_IF_ERROR(SaveCells());
    OARLOCK_RETURN_IF_ERROR(SaveColdRows());
  } else {
    OARLOCK_RETURN_IF_ERROR(SaveErased());
    OARLOCK_RETURN_IF_ERROR(SaveChangedCells());
    OARLOCK_RETURN_IF_ERROR(SaveDemoted());
  }
  if (num_rows_ > 0) OARLOCK_RETURN_IF_ERROR(Flush());
  saved_.full = cut_.full();
  saved_.state = State();
  if (saved_.full && saved_.saved_rows != cut_.frozen().rows) {
    return absl::DataLossError(absl::StrCat(
        "partition ", index_.value(), " had ", cut_.frozen().rows,
        " rows at the cut and ", saved_.saved_rows,
        " were found; legal is all of them; go on from the checkpoint before"));
  }
  return std::move(saved_);
}

template <typename Copy>
void CutSaver::Hold(Copy copy) {
  const PreImages& images = cut_.images();
  const auto note = [&](RowRef ref) {
    image_of_.try_emplace(ref, num_noted_++);
  };
  // A partition that has waited long for its turn has many images: those are
  // recorded without the lock. A row has one at most, so this ends.
  for (;;) {
    std::vector<RowRef> refs;
    {
      ReaderGuard guard(partition_.lock());
      if (images.size() - num_noted_ <= kImagesPerHold) {
        while (num_noted_ < images.size()) note(images.ref(num_noted_));
        copy();
        return;
      }
      refs.reserve(images.size() - num_noted_);
      for (size_t i = num_noted_; i < images.size(); ++i) {
        refs.push_back(images.ref(i));
      }
    }
    for (const RowRef ref : refs) note(ref);
  }
}

void CutSaver::CopyCell(RowRef ref) {
  const std::byte* const row = rows_.At(ref);
  const RowHeader& header = RowLayout::Header(row);
  const bool is_of_cut = cut_.words().Contains(header.packed);
  // Without tiers what replaces a row is newer than the cut.
  if (!image_of_.empty() && (!is_of_cut || tier_ != nullptr)) {
    const auto found = image_of_.find(ref);
    if (found != image_of_.end()) {
      const std::byte* const image = cut_.images().image(found->second);
      if (!IsFirst(PackedRows::KeyOf(image))) return;
      std::memcpy(End(), image, packing_.row_bytes());
      ++num_rows_;
      return;
    }
  }
  if (is_of_cut && IsFirst(header.key)) PackRow(row);
}

void CutSaver::PackRow(const std::byte* row) {
  packing_.Pack(row, End());
  ++num_rows_;
}

absl::Status CutSaver::Flush() {
  if (cut_.full()) {
    for (size_t i = 0; i < num_rows_; ++i) {
      digest_ += packing_.Digest(record_.data() + i * packing_.row_bytes());
    }
  }
  saved_.saved_rows += num_rows_;
  const size_t num_rows = std::exchange(num_rows_, 0);
  return sink_.Rows({record_.data(), num_rows * packing_.row_bytes()},
                    num_rows);
}

absl::Status CutSaver::SaveCells() {
  std::vector<RowCells::Range> ranges = cut_.frozen().cells;
  std::sort(ranges.begin(), ranges.end(),
            [](const auto& a, const auto& b) { return a.chunk < b.chunk; });
  for (const RowCells::Range& range : ranges) {
    for (uint32_t cell = range.begin; cell < range.end;) {
      Hold([&]() ABSL_SHARED_LOCKS_REQUIRED(partition_.lock()) {
        const uint32_t end = std::min(range.end, cell + kCellsPerHold);
        while (cell < end && room() > 0) {
          CopyCell(rows_.RefOf(range.chunk, cell++));
        }
        cut_.SetSavedBelow(
            static_cast<uint32_t>(rows_.RefOf(range.chunk, cell - 1)) + 1);
      });
      OARLOCK_RETURN_IF_ERROR(FlushIfFull());
    }
  }
  Hold([&] { cut_.SetSavedBelow(PartitionCut::kAllSaved); });
  return absl::OkStatus();
}

absl::Status CutSaver::SaveColdRows() {
  const storage::ColdRowsReader* const cold_rows =
      cut_.frozen().cold_rows.get();
  if (cold_rows == nullptr) return absl::OkStatus();
  std::optional<Key> next = Key{0};
  while (next.has_value()) {
    OARLOCK_ASSIGN_OR_RETURN(
        next, tier_->VisitDisk(*cold_rows, index_, *next, room(),
                               [&](const std::byte* row) {
                                 if (!met_.contains(RowLayout::Header(row).key))
                                   PackRow(row);
                               }));
    OARLOCK_RETURN_IF_ERROR(FlushIfFull());
  }
  return absl::OkStatus();
}

absl::Status CutSaver::SaveErased() {
  const size_t record_keys =
      std::max<size_t>(1, sink_.record_bytes() / sizeof(Key));
  const std::vector<Key> keys = cut_.changes().evicted.SortedItems();
  saved_.erased_keys = keys.size();
  for (size_t first = 0; first < keys.size(); first += record_keys) {
    OARLOCK_RETURN_IF_ERROR(
        sink_.Erased(absl::MakeConstSpan(keys).subspan(first, record_keys)));
  }
  return absl::OkStatus();
}

absl::Status CutSaver::SaveChangedCells() {
  const RowLayout& layout = rows_.layout();
  const std::vector<RowRef> refs = cut_.changes().cells.SortedItems();
  for (size_t first = 0; first < refs.size();) {
    const size_t end =
        std::min({refs.size(), first + room(), first + kChangedPerHold});
    for (size_t i = first; i < end; ++i) {
      const std::byte* const row = rows_.At(refs[i]);
      Prefetch(row, layout.header_bytes());
      Prefetch(layout.Embedding(row), layout.dim() * sizeof(float));
      Prefetch(layout.State(row), layout.state_size() * sizeof(float));
    }
    Hold([&]() ABSL_SHARED_LOCKS_REQUIRED(partition_.lock()) {
      for (; first < end; ++first) CopyCell(refs[first]);
      cut_.SetSavedBelow(static_cast<uint32_t>(refs[first - 1]) + 1);
    });
    OARLOCK_RETURN_IF_ERROR(FlushIfFull());
  }
  Hold([&] { cut_.SetSavedBelow(PartitionCut::kAllSaved); });
  return absl::OkStatus();
}

absl::Status CutSaver::SaveDemoted() {
  const storage::ColdRowsReader* const cold_rows =
      cut_.frozen().cold_rows.get();
  if (cold_rows == nullptr) return absl::OkStatus();
  const std::vector<Key> keys = cut_.changes().demoted.SortedItems();
  for (size_t first = 0; first < keys.size();) {
    const absl::Span<const Key> some =
        absl::MakeConstSpan(keys).subspan(first, room());
    OARLOCK_RETURN_IF_ERROR(
        tier_->ReadDisk(*cold_rows, index_, some, [&](const std::byte* row) {
          if (IsFirst(RowLayout::Header(row).key)) PackRow(row);
        }));
    first += some.size();
    OARLOCK_RETURN_IF_ERROR(FlushIfFull());
  }
  return absl::OkStatus();
}

v1::SparsePartitionState CutSaver::State() const {
  const FrozenPartition& frozen = cut_.frozen();
  v1::SparsePartitionState state;
  state.set_version(frozen.version);
  state.set_latest_touch(frozen.latest_touch);
  state.set_rows(frozen.rows);
  state.set_created_rows(frozen.created_rows);
  state.set_rejected_keys(frozen.rejected_keys);
  for (const PushWindow& window : frozen.windows) {
    v1::PushWindowState* const saved = state.add_windows();
    saved->set_worker(window.worker.value());
    saved->set_generation(window.generation.value());
    saved->set_highest(window.highest.value());
    saved->set_applied(window.applied);
  }
  if (frozen.sketch.counters != nullptr) {
    const std::vector<uint16_t>& counters = *frozen.sketch.counters;
    std::string* const bytes = state.mutable_sketch();
    bytes->resize(sizeof(uint64_t) + counters.size() * sizeof(uint16_t));
    std::memcpy(bytes->data(), &frozen.sketch.sum, sizeof(uint64_t));
    std::memcpy(bytes->data() + sizeof(uint64_t), counters.data(),
                counters.size() * sizeof(uint16_t));
  }
  if (saved_.full) state.set_digest(digest_);
  return state;
}

}  // namespace oarlock::sparse_table
