#include "sparse_table/sparse_table.h"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/mix.h"
#include "base/random.h"
#include "base/status_macros.h"
#include "optim/initializer.h"
#include "optim/rules.h"
#include "sparse_table/arena.h"
#include "sparse_table/lookahead.h"
#include "sparse_table/partition.h"
#include "sparse_table/reader_writer_lock.h"
#include "sparse_table/row_layout.h"
#include "sparse_table/row_space.h"

namespace oarlock {
namespace {

constexpr int kMaxPartitionBits = 16;
constexpr size_t kCacheLineBytes = 64;

// Calls f with the dimension as a constant where that is worth it, so that the
// loops over it are unrolled; 0 stands for "not known at compile time".
template <typename F>
decltype(auto) WithConstantDim(size_t dim, F&& f) {
  switch (dim) {
    case 8:
      return f(std::integral_constant<size_t, 8>());
    case 10:
      return f(std::integral_constant<size_t, 10>());
    case 16:
      return f(std::integral_constant<size_t, 16>());
    case 32:
      return f(std::integral_constant<size_t, 32>());
    default:
      return f(std::integral_constant<size_t, 0>());
  }
}

void PrefetchBytes(const std::byte* first, size_t num_bytes) {
  for (size_t i = 0; i < num_bytes; i += kCacheLineBytes) {
    __builtin_prefetch(first + i);
  }
  // A row that begins within a line may reach into one more.
  __builtin_prefetch(first + num_bytes - 1);
}

class SparseTableImpl final : public SparseTable {
 public:
  SparseTableImpl(const v1::TableConfig& config, int partition_bits,
                  const UpdateRule& rule, const InitialValues& initial_values,
                  const RowLayout& layout, std::unique_ptr<Arena> arena)
      : config_(config),
        partition_bits_(partition_bits),
        rule_(rule),
        initial_values_(initial_values),
        arena_(std::move(arena)),
        rows_(arena_.get(), layout) {
    const uint64_t jitter_seed = DeriveSeed(config.seed(), config.id());
    for (uint32_t i = 0; i < (1u << partition_bits); ++i) {
      partitions_.push_back(
          std::make_unique<Partition>(&rows_, DeriveSeed(jitter_seed, i)));
    }
  }

  void Pull(absl::Span<const KeyGroup> groups, const Key* keys, float* values,
            uint64_t* group_versions) const override {
    WithConstantDim(rows_.layout().dim(), [&](auto dim) {
      PullWith<dim>(groups, keys, values, group_versions);
    });
  }

  absl::StatusOr<SparsePushResult> Push(const SparsePush& push) override {
    return rule_.Visit([&]<typename Rule>(const Rule& rule) {
      if constexpr (kHasOwnLoops<Rule>) {
        return WithConstantDim(rows_.layout().dim(), [&](auto dim) {
          return PushWith<dim>(push, rule);
        });
      } else {
        return PushWith<0>(push, rule);
      }
    });
  }

  bool HasApplied(PartitionIndex index, const PushStamp& stamp) const override {
    const Partition& partition = At(index);
    ReaderGuard guard(partition.lock());
    return partition.HasApplied({&stamp, 1});
  }

  void ForEachRow(const std::function<void(PartitionIndex, const RowView&)>&
                      visit) const override;
  SparseTableStats Stats() const override;
  std::vector<SparsePartitionStats> PartitionStats() const override;
  const v1::TableConfig& config() const override { return config_; }

 private:
  Partition& At(PartitionIndex index) const {
    OARLOCK_CHECK(index.value() < partitions_.size());
    return *partitions_[index.value()];
  }

  // A later group of a batch must have a later partition: locks are taken in
  // that order, so anything else could deadlock.
  static void CheckAscending(absl::Span<const KeyGroup> groups) {
    for (size_t g = 1; g < groups.size(); ++g) {
      OARLOCK_CHECK(groups[g - 1].partition < groups[g].partition);
    }
  }
  static size_t NumKeys(absl::Span<const KeyGroup> groups) {
    size_t num_keys = 0;
    for (const KeyGroup& group : groups) num_keys += group.num_keys;
    return num_keys;
  }

  // Stage 2 of a block: candidates, and the first `row_bytes` of their rows.
  void FindRows(const Partition& partition, const KeyBlock& block,
                size_t row_bytes, Lookahead& lookahead) const
      ABSL_SHARED_LOCKS_REQUIRED(partition.lock()) {
    lookahead.Advance(block);
    for (size_t i = block.first; i < block.first + block.count; ++i) {
      const RowRef row = partition.FindCandidate(lookahead.mix(i));
      lookahead.row(i) = row;
      if (row != kNoRow) PrefetchBytes(rows_.At(row), row_bytes);
    }
  }

  // The row of a key whose candidate stage 2 found, or null.
  std::byte* RowOf(const Partition& partition, Key key, uint64_t mix,
                   RowRef candidate) const
      ABSL_SHARED_LOCKS_REQUIRED(partition.lock()) {
    if (candidate == kNoRow) return nullptr;
    std::byte* const row = rows_.At(candidate);
    if (RowLayout::Header(row).key == key) [[likely]]
      return row;
    const RowRef found = partition.Find(key, mix);
    return found == kNoRow ? nullptr : rows_.At(found);
  }

  // kDim is the table's dimension, or 0 for any.
  template <size_t kDim>
  size_t Dim() const {
    return kDim != 0 ? kDim : rows_.layout().dim();
  }

  // The analysis cannot follow locks from one turn of the pipeline to a later
  // one, hence not the two functions that take and release them.
  template <size_t kDim>
  void PullWith(absl::Span<const KeyGroup> groups, const Key* keys,
                float* values,
                uint64_t* group_versions) const ABSL_NO_THREAD_SAFETY_ANALYSIS;
  template <size_t kDim>
  void CopyRows(const Partition& partition, const KeyBlock& block,
                const Key* keys, float* values, Lookahead& lookahead) const
      ABSL_SHARED_LOCKS_REQUIRED(partition.lock());

  template <size_t kDim, typename Rule>
  absl::StatusOr<SparsePushResult> PushWith(
      const SparsePush& push, const Rule& rule) ABSL_NO_THREAD_SAFETY_ANALYSIS;
  template <size_t kDim, typename Rule>
  void UpdateRows(Partition& partition, const KeyBlock& block,
                  const SparsePush& push, const Rule& rule,
                  Lookahead& lookahead)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(partition.lock());
  template <typename Rule>
  std::byte* CreateRow(Partition& partition, Key key, uint64_t mix,
                       const Rule& rule)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(partition.lock());

  // Constant after construction.
  const v1::TableConfig config_;
  const int partition_bits_;
  const UpdateRule rule_;
  const InitialValues initial_values_;
  const std::unique_ptr<Arena> arena_;
  const RowSpace rows_;
  // Each guarded by its lock.
  Lookahead::Partitions partitions_;
};

template <size_t kDim>
void SparseTableImpl::PullWith(absl::Span<const KeyGroup> groups,
                               const Key* keys, float* values,
                               uint64_t* group_versions) const {
  CheckAscending(groups);
  const size_t row_bytes =
      rows_.layout().header_bytes() + Dim<kDim>() * sizeof(float);
  Lookahead lookahead(partitions_, partition_bits_, keys, NumKeys(groups));
  BlockCursor cursor(groups);
  BlockQueue found;
  for (;;) {
    while (found.WantsMore() && !cursor.Done()) {
      const KeyBlock block = cursor.Next();
      const Partition& partition = At(block.partition);
      if (block.begins_group) {
        partition.lock()->ReaderLock();
        partition.CountPulled(groups[block.group].num_keys);
        if (group_versions != nullptr) {
          group_versions[block.group] = partition.version();
        }
      }
      FindRows(partition, block, row_bytes, lookahead);
      found.Push(block);
    }
    if (found.empty()) return;
    const KeyBlock block = found.Pop();
    const Partition& partition = At(block.partition);
    CopyRows<kDim>(partition, block, keys, values, lookahead);
    if (block.ends_group) partition.lock()->ReaderUnlock();
  }
}

template <size_t kDim>
void SparseTableImpl::CopyRows(const Partition& partition,
                               const KeyBlock& block, const Key* keys,
                               float* values, Lookahead& lookahead) const {
  const size_t dim = Dim<kDim>();
  for (size_t i = block.first; i < block.first + block.count; ++i) {
    const std::byte* const row =
        RowOf(partition, keys[i], lookahead.mix(i), lookahead.row(i));
    if (row != nullptr) [[likely]] {
      std::memcpy(values + i * dim, rows_.layout().Embedding(row),
                  dim * sizeof(float));
    } else {
      initial_values_.FillRow(keys[i], values + i * dim, dim);
    }
  }
}

template <size_t kDim, typename Rule>
absl::StatusOr<SparsePushResult> SparseTableImpl::PushWith(
    const SparsePush& push, const Rule& rule) {
  CheckAscending(push.groups);
  SparsePushResult result;
  absl::Status status;
  Lookahead lookahead(partitions_, partition_bits_, push.keys,
                      NumKeys(push.groups));
  BlockCursor cursor(push.groups);
  BlockQueue found;
  // Set when a group was passed over: what is in flight is finished first.
  bool gap = false;
  for (;;) {
    while (!cursor.Done() && (gap ? found.empty() : found.WantsMore())) {
      gap = false;
      const KeyBlock block = cursor.Next();
      Partition& partition = At(block.partition);
      if (block.begins_group) {
        partition.lock()->WriterLock();
        const size_t num_keys = push.groups[block.group].num_keys;
        const bool duplicate = partition.HasApplied(push.stamps);
        if (!duplicate) {
          // Room for the whole group first, so that it is applied as a whole.
          status = partition.ReserveRows({push.keys + block.first, num_keys});
        }
        if (duplicate || !status.ok()) {
          partition.lock()->WriterUnlock();
          result.duplicate_groups += duplicate;
          if (duplicate) cursor.SkipGroup(block);
          if (!status.ok()) cursor.Stop();
          gap = true;
          continue;
        }
        partition.BeginPush(push.logical_time);
        partition.CountPushed(num_keys);
      }
      FindRows(partition, block, rows_.layout().row_bytes(), lookahead);
      found.Push(block);
    }
    if (found.empty()) break;
    const KeyBlock block = found.Pop();
    Partition& partition = At(block.partition);
    UpdateRows<kDim>(partition, block, push,
                     rule_.ForStep(rule, partition.version()),
                     lookahead);
    if (block.ends_group) {
      partition.EndPush(push.stamps);
      partition.lock()->WriterUnlock();
    }
  }
  if (!status.ok()) {
    return Annotate(status, absl::StrCat("push to table ", config_.name()));
  }
  return result;
}

template <size_t kDim, typename Rule>
void SparseTableImpl::UpdateRows(Partition& partition, const KeyBlock& block,
                                 const SparsePush& push, const Rule& rule,
                                 Lookahead& lookahead) {
  const RowLayout& layout = rows_.layout();
  const uint64_t version = partition.version();
  const size_t dim = Dim<kDim>();
  for (size_t i = block.first; i < block.first + block.count; ++i) {
    const Key key = push.keys[i];
    std::byte* row = RowOf(partition, key, lookahead.mix(i), lookahead.row(i));
    if (row == nullptr) [[unlikely]] {
      row = CreateRow(partition, key, lookahead.mix(i), rule);
    }
    float* const embedding = layout.Embedding(row);
    rule.Apply(embedding, embedding + dim, push.gradients + i * dim, dim);
    RowLayout::Header(row).Stamp(version, push.logical_time);
    if (layout.has_statistics()) {
      float* const statistics = layout.Statistics(row);
      if (push.shows != nullptr) statistics[0] += push.shows[i];
      if (push.clicks != nullptr) statistics[1] += push.clicks[i];
    }
  }
}

template <typename Rule>
std::byte* SparseTableImpl::CreateRow(Partition& partition, Key key,
                                      uint64_t mix, const Rule& rule) {
  // Stage 2 did not see rows that stage 3 has created since: a push that names
  // a key twice must not create two rows.
  const RowRef found = partition.Find(key, mix);
  if (found != kNoRow) return rows_.At(found);
  const RowLayout& layout = rows_.layout();
  std::byte* const row = partition.CreateRow(key, mix);
  if (layout.has_statistics()) {
    std::fill_n(layout.Statistics(row), 2, 0.0f);
  }
  initial_values_.FillRow(key, layout.Embedding(row), layout.dim());
  rule.InitState(layout.State(row), layout.dim());
  return row;
}

void SparseTableImpl::ForEachRow(
    const std::function<void(PartitionIndex, const RowView&)>& visit) const {
  const RowLayout& layout = rows_.layout();
  for (uint32_t i = 0; i < partitions_.size(); ++i) {
    const Partition& partition = *partitions_[i];
    ReaderGuard guard(partition.lock());
    const uint32_t latest_touch = partition.latest_touch();
    partition.ForEachRow([&](const std::byte* row) {
      const RowHeader& header = RowLayout::Header(row);
      RowView view;
      view.key = header.key;
      view.version = header.version();
      view.last_touch = WidenTouch(header.low_touch(), latest_touch);
      if (layout.has_statistics()) {
        view.show = layout.Statistics(row)[0];
        view.click = layout.Statistics(row)[1];
      }
      view.embedding = {layout.Embedding(row), layout.dim()};
      view.state = {layout.State(row), layout.state_size()};
      visit(PartitionIndex(i), view);
    });
  }
}

SparseTableStats SparseTableImpl::Stats() const {
  SparseTableStats stats;
  stats.row_bytes = rows_.layout().row_bytes();
  stats.payload_bytes = (rows_.layout().dim() + rows_.layout().state_size()) *
                        sizeof(float);
  stats.bytes = arena_->bytes_used();
  for (const std::unique_ptr<Partition>& partition : partitions_) {
    ReaderGuard guard(partition->lock());
    stats.rows += partition->num_rows();
    stats.bytes += partition->heap_bytes();
    stats.pulled_rows += partition->pulled_rows();
    stats.pushed_rows += partition->pushed_rows();
  }
  return stats;
}

std::vector<SparsePartitionStats> SparseTableImpl::PartitionStats() const {
  std::vector<SparsePartitionStats> stats;
  stats.reserve(partitions_.size());
  for (const std::unique_ptr<Partition>& partition : partitions_) {
    ReaderGuard guard(partition->lock());
    stats.push_back({partition->num_rows(), partition->pulled_rows(),
                     partition->pushed_rows()});
  }
  return stats;
}

uint64_t MachineMemoryBytes() {
  return static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) *
         static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

absl::Status InvalidConfig(const v1::TableConfig& config,
                           absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("table ", config.id(), " (", config.name(), "): ", what));
}

}  // namespace

absl::StatusOr<std::unique_ptr<SparseTable>> SparseTable::Create(
    const v1::TableConfig& config, int partition_bits,
    const SparseTableOptions& options) {
  if (!config.has_sparse()) {
    return InvalidConfig(config, "is not a sparse table; set its sparse field");
  }
  if (partition_bits < 0 || partition_bits > kMaxPartitionBits) {
    return InvalidConfig(config,
                         absl::StrCat("partition_bits is ", partition_bits,
                                      "; legal is 0 to ", kMaxPartitionBits));
  }
  const v1::SparseTableConfig& sparse = config.sparse();
  const std::string context =
      absl::StrCat("table ", config.id(), " (", config.name(), ")");
  absl::StatusOr<UpdateRule> rule = UpdateRule::Create(config.optimizer());
  OARLOCK_RETURN_IF_ERROR(Annotate(rule.status(), context));
  absl::StatusOr<InitialValues> initial_values = InitialValues::Create(
      sparse.initializer(), config.seed(), TableId(config.id()));
  OARLOCK_RETURN_IF_ERROR(Annotate(initial_values.status(), context));

  // Checked before it is multiplied.
  const size_t dim =
      std::min<size_t>(sparse.dim(), Arena::kChunkBytes / sizeof(float));
  const RowLayout layout(dim, rule->StateSize(dim),
                         sparse.accessor() == v1::CTR);
  if (dim == 0 || layout.row_bytes() > Arena::kChunkBytes) {
    return InvalidConfig(
        config,
        absl::StrCat("dim is ", sparse.dim(),
                     "; legal is 1 to what fits into a row of ",
                     Arena::kChunkBytes, " bytes with its optimizer state"));
  }

  const uint64_t memory_bytes_max = options.memory_bytes_max != 0
                                        ? options.memory_bytes_max
                                        : MachineMemoryBytes();
  absl::StatusOr<std::unique_ptr<Arena>> arena =
      Arena::Create(std::min(memory_bytes_max, RowSpace::MaxBytes(layout)));
  OARLOCK_RETURN_IF_ERROR(Annotate(arena.status(), context));
  return std::make_unique<SparseTableImpl>(config, partition_bits, *rule,
                                           *initial_values, layout,
                                           *std::move(arena));
}

}  // namespace oarlock
