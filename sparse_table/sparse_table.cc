#include "sparse_table/sparse_table.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/atomic_snapshot.h"
#include "base/check.h"
#include "base/mix.h"
#include "base/random.h"
#include "base/status_macros.h"
#include "sparse_table/inspection.h"
#include "sparse_table/lookahead.h"
#include "sparse_table/partition.h"
#include "sparse_table/rows/arena.h"
#include "sparse_table/rows/reader_writer_lock.h"
#include "sparse_table/rows/row_layout.h"
#include "sparse_table/rows/row_space.h"
#include "sparse_table/rules/eviction.h"
#include "sparse_table/rules/row_rules.h"
#include "sparse_table/rules/row_updater.h"
#include "sparse_table/tier.h"

namespace oarlock::sparse_table {
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

// Asks for every line of [first, first + num_bytes). Always inlined: to g++ a
// function that only prefetches has no effect, and it drops calls of it.
[[gnu::always_inline]] inline void PrefetchBytes(const std::byte* first,
                                                 size_t num_bytes) {
  const size_t before = reinterpret_cast<uintptr_t>(first) % kCacheLineBytes;
  for (size_t i = 0; i < before + num_bytes; i += kCacheLineBytes) {
    __builtin_prefetch(first + i);
  }
}

// Where a pull writes.
struct PullOutput {
  float* values = nullptr;
  // Null: not wanted.
  float* shows = nullptr;
  float* clicks = nullptr;
  uint64_t* group_versions = nullptr;
};

class SparseTableImpl final : public SparseTable {
 public:
  SparseTableImpl(const v1::TableConfig& config, int partition_bits,
                  const RowRules& rules, std::unique_ptr<Arena> arena)
      : settings_({config, rules}),
        partition_bits_(partition_bits),
        arena_(std::move(arena)),
        rows_(arena_.get(), rules.layout()) {
    const uint64_t jitter_seed = DeriveSeed(config.seed(), config.id());
    // Partitions fill evenly: if they began alike, all of them would need their
    // next chunk at once, and one push would pay for it. Under a budget they
    // use what chunks they have.
    const bool begin_apart = config.sparse().memory_budget_bytes() == 0;
    for (uint32_t i = 0; i < (1u << partition_bits); ++i) {
      const uint64_t seed = DeriveSeed(jitter_seed, i);
      const uint64_t first_cell =
          begin_apart ? seed % rows_.rows_per_chunk() : 0;
      partitions_.push_back(std::make_unique<Partition>(
          &rows_, seed, static_cast<uint32_t>(first_cell),
          rules.admission().NewSketch()));
    }
  }

  // Before the table is used. REQUIRES: config has a memory budget.
  absl::Status StartTier(const SparseTableOptions& options) {
    TierOptions tier;
    tier.budget_bytes = config().sparse().memory_budget_bytes();
    tier.partition_bits = partition_bits_;
    tier.directory = options.tier_directory;
    tier.partition_memory_rows = options.partition_memory_rows;
    OARLOCK_ASSIGN_OR_RETURN(tier_, Tier::Create(&rows_, tier));
    return absl::OkStatus();
  }
  // Before the table is used, and after its tier was started.
  void StartCuts() {
    cuts_ = std::make_unique<TableCuts>(rows_, partitions_, tier_.get());
    restore_ = std::make_unique<TableRestore>(rows_, rules(), partitions_,
                                              partition_bits_, tier_.get());
  }

  absl::Status Pull(absl::Span<const KeyGroup> groups, const Key* keys,
                    float* values, uint64_t* group_versions) const override {
    return PullInto(groups, keys,
                    {.values = values, .group_versions = group_versions});
  }

  absl::Status PullWithStatistics(absl::Span<const KeyGroup> groups,
                                  const Key* keys, float* values, float* shows,
                                  float* clicks,
                                  uint64_t* group_versions) const override {
    OARLOCK_CHECK(rows_.layout().has_statistics());
    return PullInto(groups, keys,
                    {.values = values,
                     .shows = shows,
                     .clicks = clicks,
                     .group_versions = group_versions});
  }

  absl::StatusOr<SparsePushResult> Push(const SparsePush& push) override {
    const RowRules& rules = this->rules();
    return rules.rule().Visit([&]<typename Rule>(const Rule& rule) {
      if constexpr (optim::kHasOwnLoops<Rule>) {
        return WithConstantDim(rows_.layout().dim(), [&](auto dim) {
          return PushWith<dim>(push, rules, rule);
        });
      } else {
        return PushWith<0>(push, rules, rule);
      }
    });
  }

  bool HasApplied(PartitionIndex index, const PushStamp& stamp) const override {
    const Partition& partition = At(index);
    ReaderGuard guard(partition.lock());
    return partition.HasApplied({&stamp, 1});
  }
  void ForgetWorker(WorkerIndex worker, Generation last) override {
    for (const std::unique_ptr<Partition>& partition : partitions_) {
      WriterGuard guard(partition->lock());
      partition->ForgetWorker(worker, last);
    }
  }

  const EvictionLimits& eviction() const override { return rules().eviction(); }
  absl::StatusOr<EvictionLimits> LimitsOf(
      const v1::EvictionConfig& config) const override {
    return MakeEvictionLimits(config, rows_.layout().has_statistics(),
                              partition_bits_);
  }
  absl::StatusOr<EvictionResult> Evict(PartitionIndex partition,
                                       const EvictionLimits& limits,
                                       uint32_t logical_time,
                                       DoStep do_step) override {
    return EvictRows(ScopeOf(partition), limits, logical_time, do_step);
  }
  absl::Status EvictKeys(PartitionIndex partition, absl::Span<const Key> keys,
                         uint32_t logical_time) override {
    return sparse_table::EvictKeys(ScopeOf(partition), keys, logical_time);
  }
  uint32_t num_partitions() const override {
    return static_cast<uint32_t>(partitions_.size());
  }

  TableCuts& cuts() override { return *cuts_; }
  TableRestore& restore() override { return *restore_; }

  absl::Status ForEachRow(
      const std::function<void(PartitionIndex, const RowView&)>& visit)
      const override {
    return Inspection(rows_, partitions_, tier_.get()).ForEachRow(visit);
  }
  SparseTableStats Stats() const override {
    return Inspection(rows_, partitions_, tier_.get()).Stats();
  }
  std::vector<SparsePartitionStats> PartitionStats() const override {
    return Inspection(rows_, partitions_, tier_.get()).PartitionStats();
  }
  const v1::TableConfig& config() const override {
    return settings_.get().config;
  }
  absl::Status Reconfigure(const v1::TableConfig& config) override {
    OARLOCK_ASSIGN_OR_RETURN(const RowRules rules,
                             RowRules::Create(config, partition_bits_));
    if (rules.layout().row_bytes() != rows_.layout().row_bytes()) {
      return absl::FailedPreconditionError(absl::StrCat(
          "table ", config.name(), " has rows of ", rows_.layout().row_bytes(),
          " bytes; under the new configuration they have ",
          rules.layout().row_bytes()));
    }
    settings_.Replace({config, rules});
    return absl::OkStatus();
  }

 private:
  // What Reconfigure replaces.
  struct Settings {
    v1::TableConfig config;
    RowRules rules;
  };

  // A call takes them once, so that it goes by the same ones throughout.
  const RowRules& rules() const { return settings_.get().rules; }

  Partition& At(PartitionIndex index) const {
    OARLOCK_CHECK(index.value() < partitions_.size());
    return *partitions_[index.value()];
  }

  EvictionScope ScopeOf(PartitionIndex partition) {
    const bool has_score = rows_.layout().has_statistics();
    return {.rows = rows_,
            .score_rule = has_score ? &rules().score_rule() : nullptr,
            .tier = tier_.get(),
            .index = partition,
            .partition = At(partition)};
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

  // kDim is the table's dimension, or 0 for any.
  template <size_t kDim>
  size_t Dim() const {
    return kDim != 0 ? kDim : rows_.layout().dim();
  }

  absl::Status PullInto(absl::Span<const KeyGroup> groups, const Key* keys,
                        const PullOutput& output) const {
    ColdLookup cold(tier_.get());
    OARLOCK_RETURN_IF_ERROR(cold.Promote(partitions_, groups, keys));
    WithConstantDim(rows_.layout().dim(), [&](auto dim) {
      PullWith<dim>(groups, keys, output, cold);
    });
    return cold.status();
  }
  // The analysis cannot follow locks from one turn of the pipeline to a later
  // one, hence not the two functions that take and release them.
  template <size_t kDim>
  void PullWith(absl::Span<const KeyGroup> groups, const Key* keys,
                const PullOutput& output,
                ColdLookup& cold) const ABSL_NO_THREAD_SAFETY_ANALYSIS;
  template <size_t kDim>
  void CopyRows(const RowUpdater& rows, const Partition& partition,
                const KeyBlock& block, const Key* keys, float* values,
                Lookahead& lookahead, ColdLookup& cold) const
      ABSL_SHARED_LOCKS_REQUIRED(partition.lock());
  void CopyStatistics(const RowUpdater& rows, const Partition& partition,
                      const KeyBlock& block, const Key* keys,
                      const PullOutput& output, Lookahead& lookahead,
                      ColdLookup& cold) const
      ABSL_SHARED_LOCKS_REQUIRED(partition.lock());

  template <size_t kDim, typename Rule>
  absl::StatusOr<SparsePushResult> PushWith(
      const SparsePush& push, const RowRules& rules,
      const Rule& rule) ABSL_NO_THREAD_SAFETY_ANALYSIS;

  AtomicSnapshot<Settings> settings_;
  // Constant after construction.
  const int partition_bits_;
  const std::unique_ptr<Arena> arena_;
  const RowSpace rows_;
  // Null without a memory budget.
  std::unique_ptr<Tier> tier_;
  // Each guarded by its lock.
  Lookahead::Partitions partitions_;
  std::unique_ptr<TableCuts> cuts_;
  std::unique_ptr<TableRestore> restore_;
};

template <size_t kDim>
void SparseTableImpl::PullWith(absl::Span<const KeyGroup> groups,
                               const Key* keys, const PullOutput& output,
                               ColdLookup& cold) const {
  CheckAscending(groups);
  const size_t row_bytes =
      rows_.layout().header_bytes() + Dim<kDim>() * sizeof(float);
  const RowUpdater rows(&rows_, &rules());
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
        if (output.group_versions != nullptr) {
          output.group_versions[block.group] = partition.version();
        }
      }
      FindRows(partition, block, row_bytes, lookahead);
      found.Push(block);
    }
    if (found.empty()) return;
    const KeyBlock block = found.Pop();
    const Partition& partition = At(block.partition);
    CopyRows<kDim>(rows, partition, block, keys, output.values, lookahead,
                   cold);
    if (output.shows != nullptr) {
      CopyStatistics(rows, partition, block, keys, output, lookahead, cold);
    }
    if (block.ends_group) partition.lock()->ReaderUnlock();
  }
}

template <size_t kDim>
void SparseTableImpl::CopyRows(const RowUpdater& rows,
                               const Partition& partition,
                               const KeyBlock& block, const Key* keys,
                               float* values, Lookahead& lookahead,
                               ColdLookup& cold) const {
  const size_t dim = Dim<kDim>();
  for (size_t i = block.first; i < block.first + block.count; ++i) {
    const std::byte* row =
        rows.RowOf(partition, keys[i], lookahead.mix(i), lookahead.row(i));
    if (row == nullptr) [[unlikely]] {
      row = cold.RowOf(partition, block.partition, block.group, keys[i]);
    }
    if (row != nullptr) [[likely]] {
      std::memcpy(values + i * dim, rows_.layout().Embedding(row),
                  dim * sizeof(float));
    } else {
      rows.rules().FillInitial(keys[i], values + i * dim);
    }
  }
}

void SparseTableImpl::CopyStatistics(const RowUpdater& rows,
                                     const Partition& partition,
                                     const KeyBlock& block, const Key* keys,
                                     const PullOutput& output,
                                     Lookahead& lookahead,
                                     ColdLookup& cold) const {
  const uint32_t now = partition.latest_touch();
  for (size_t i = block.first; i < block.first + block.count; ++i) {
    const std::byte* row =
        rows.RowOf(partition, keys[i], lookahead.mix(i), lookahead.row(i));
    if (row == nullptr) [[unlikely]] {
      row = cold.RowOf(partition, block.partition, block.group, keys[i]);
    }
    float factor = 0;
    float statistics[2] = {};
    if (row != nullptr) {
      factor = rows.rules().score_rule().DecayFactor(
          WidenTouch(RowLayout::Header(row).low_touch(), now), now);
      std::copy_n(rows_.layout().Statistics(row), 2, statistics);
    }
    output.shows[i] = factor * statistics[0];
    output.clicks[i] = factor * statistics[1];
  }
}

template <size_t kDim, typename Rule>
absl::StatusOr<SparsePushResult> SparseTableImpl::PushWith(
    const SparsePush& push, const RowRules& rules, const Rule& rule) {
  CheckAscending(push.groups);
  SparsePushResult result;
  absl::Status status;
  Lookahead lookahead(partitions_, partition_bits_, push.keys,
                      NumKeys(push.groups));
  BlockCursor cursor(push.groups);
  BlockQueue found;
  const RowUpdater updater(&rows_, &rules);
  const bool is_plain = rules.is_plain();
  const uint64_t draws = is_plain ? 0 : rules.admission().DrawsOf(push.stamps);
  // Set when a group was skipped: what is in flight is finished first.
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
          const absl::Span<const Key> keys(push.keys + block.first, num_keys);
          status = tier_ == nullptr
                       ? partition.ReserveRows(keys)
                       : tier_->BringGroup(block.partition, keys, &partition);
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
    const Rule warm = rules.rule().ForStep(rule, partition.version());
    if (is_plain) {
      updater.UpdatePlain<kDim>(partition, block, push, warm, lookahead);
    } else {
      updater.UpdateByRules(partition, block, push, warm, draws, lookahead);
    }
    if (block.ends_group) {
      partition.EndPush(push.stamps);
      partition.lock()->WriterUnlock();
    }
  }
  if (!status.ok()) {
    return Annotate(status, absl::StrCat("push to table ", config().name()));
  }
  return result;
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
  const std::string context =
      absl::StrCat("table ", config.id(), " (", config.name(), ")");
  const absl::StatusOr<RowRules> rules =
      RowRules::Create(config, partition_bits);
  OARLOCK_RETURN_IF_ERROR(Annotate(rules.status(), context));
  const uint64_t memory_bytes_max = options.memory_bytes_max != 0
                                        ? options.memory_bytes_max
                                        : MachineMemoryBytes();
  absl::StatusOr<std::unique_ptr<Arena>> arena = Arena::Create(
      std::min(memory_bytes_max, RowSpace::MaxBytes(rules->layout())));
  OARLOCK_RETURN_IF_ERROR(Annotate(arena.status(), context));
  auto table = std::make_unique<SparseTableImpl>(config, partition_bits, *rules,
                                                 *std::move(arena));
  const uint64_t budget = config.sparse().memory_budget_bytes();
  if (budget != 0) {
    if (options.tier_directory.empty()) {
      return absl::FailedPreconditionError(absl::StrCat(
          context, ": has a memory budget of ", budget,
          " bytes, but there is no directory for the rows beyond it; give one "
          "(--tier_dir), or no budget"));
    }
    OARLOCK_RETURN_IF_ERROR(Annotate(table->StartTier(options), context));
  }
  table->StartCuts();
  return table;
}

}  // namespace oarlock::sparse_table
