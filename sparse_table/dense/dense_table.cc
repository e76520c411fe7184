#include "sparse_table/dense/dense_table.h"

#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_format.h"
#include "absl/synchronization/mutex.h"
#include "base/atomic_snapshot.h"
#include "base/check.h"
#include "base/dense_version.h"
#include "base/process/free_memory.h"
#include "base/push_window.h"
#include "base/status_macros.h"
#include "optim/initializer.h"
#include "optim/rules.h"
#include "optim/staleness_rate.h"
#include "sparse_table/dense/dense_table_config.h"

namespace oarlock::sparse_table {
namespace {

// Where a block stands in a cut.
enum class FreezeState {
  kNone,
  // As the cut found it.
  kFrozen,
  // Changed since; what the cut found is in `aside`.
  kAside,
  kSaved,
};

// What later cuts must know of the one that wrote a block's floats.
struct SavedBlock {
  // 0: none.
  uint64_t version = 0;
  uint64_t base_cut = 0;
  uint64_t digest = 0;
};

struct Block {
  mutable absl::Mutex mutex;
  uint64_t version ABSL_GUARDED_BY(mutex) = 1;
  // That which the block had, in another incarnation, when the cut was made
  // that it was restored from; 0: it was not.
  uint64_t restored_version ABSL_GUARDED_BY(mutex) = 0;
  // Steps whose gradients it has seen.
  uint64_t steps ABSL_GUARDED_BY(mutex) = 0;
  std::vector<float> values ABSL_GUARDED_BY(mutex);
  std::vector<float> state ABSL_GUARDED_BY(mutex);
  PushWindows windows ABSL_GUARDED_BY(mutex);

  // Steps whose gradients are added up in `sum` and not applied yet. Empty
  // until the first ones come.
  uint64_t held_steps ABSL_GUARDED_BY(mutex) = 0;
  std::vector<float> sum ABSL_GUARDED_BY(mutex);

  FreezeState freeze_state ABSL_GUARDED_BY(mutex) = FreezeState::kNone;
  // The number of the cut, unless kNone.
  uint64_t cut ABSL_GUARDED_BY(mutex) = 0;
  std::unique_ptr<DenseBlockCut> aside ABSL_GUARDED_BY(mutex);
  // By the last published cut, and by this one.
  SavedBlock published ABSL_GUARDED_BY(mutex);
  SavedBlock saved ABSL_GUARDED_BY(mutex);
};

// All but base_cut and digest.
DenseBlockCut CopyOf(const Block& block)
    ABSL_SHARED_LOCKS_REQUIRED(block.mutex) {
  DenseBlockCut copy;
  copy.state.set_version(block.version);
  copy.state.set_steps(block.steps);
  for (const PushWindow& window : block.windows.windows()) {
    v1::PushWindowState* state = copy.state.add_windows();
    state->set_worker(window.worker.value());
    state->set_generation(window.generation.value());
    state->set_highest(window.highest.value());
    state->set_applied(window.applied);
  }
  copy.floats.reserve(block.values.size() + block.state.size());
  copy.floats.assign(block.values.begin(), block.values.end());
  copy.floats.insert(copy.floats.end(), block.state.begin(), block.state.end());
  return copy;
}

// DenseTable::SaveBlock has the definition.
uint64_t DigestOf(BlockIndex block, uint64_t steps,
                  absl::Span<const float> floats) {
  const uint64_t head[2] = {block.value(), steps};
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> hash(
      XXH3_createState(), XXH3_freeState);
  XXH3_64bits_reset(hash.get());
  XXH3_64bits_update(hash.get(), head, sizeof(head));
  XXH3_64bits_update(hash.get(), floats.data(), floats.size() * sizeof(float));
  return XXH3_64bits_digest(hash.get());
}

// None when these are not what PushWindows::windows() gives.
std::optional<std::vector<PushWindow>> WindowsOf(
    const v1::DenseBlockState& state) {
  std::vector<PushWindow> windows;
  for (const v1::PushWindowState& window : state.windows()) {
    windows.push_back({.worker = WorkerIndex(window.worker()),
                       .generation = Generation(window.generation()),
                       .highest = Sequence(window.highest()),
                       .applied = window.applied()});
    if (window.highest() == 0 || (window.applied() & 1) == 0) return {};
  }
  const auto name = [](const PushWindow& window) {
    return std::pair(window.worker, window.generation);
  };
  const auto not_ascending = [&](const PushWindow& a, const PushWindow& b) {
    return name(a) >= name(b);
  };
  if (std::adjacent_find(windows.begin(), windows.end(), not_ascending) !=
      windows.end()) {
    return {};
  }
  return windows;
}

// What Reconfigure replaces.
struct Settings {
  // InvalidArgument: `config` is none of a dense table.
  static absl::StatusOr<Settings> Create(const v1::TableConfig& config) {
    OARLOCK_RETURN_IF_ERROR(CheckDenseTable(config));
    const auto rule = optim::UpdateRule::Create(config.optimizer());
    if (!rule.ok()) return Annotate(rule.status(), DenseTableName(config));
    const auto staleness_rate = optim::StalenessRate::Create(config);
    if (!staleness_rate.ok()) {
      return Annotate(staleness_rate.status(), DenseTableName(config));
    }
    return Settings{config, *rule, *staleness_rate};
  }

  v1::TableConfig config;
  optim::UpdateRule rule;
  optim::StalenessRate staleness_rate;
};

// ResourceExhausted where this server's blocks do not fit into memory.
absl::Status CheckFits(const Settings& settings,
                       const cluster::PartitionMap& map, ServerIndex server) {
  const v1::DenseTableConfig& dense = settings.config.dense();
  const uint64_t block_size = dense.block_size();
  const auto num_blocks =
      static_cast<uint32_t>((dense.size() - 1) / block_size + 1);
  uint64_t floats = 0;
  for (uint32_t i = 0; i < num_blocks; ++i) {
    if (map.Owner(map.PartitionOfBlock(BlockIndex(i), num_blocks)) != server) {
      continue;
    }
    const uint64_t n =
        std::min<uint64_t>(block_size, dense.size() - i * block_size);
    floats += n + settings.rule.StateSize(n);
  }
  const uint64_t bytes = floats * sizeof(float);
  const uint64_t free = FreeMemoryBytes();
  if (free == 0 || bytes <= free) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrFormat(
      "%s takes %d bytes on this server, and %d are left there; use more "
      "servers, or a machine with more memory",
      DenseTableName(settings.config), bytes, free));
}

class BlockTable : public DenseTable {
 public:
  BlockTable(Settings settings, const cluster::PartitionMap& map,
             ServerIndex server, uint64_t first_version)
      : settings_(std::move(settings)),
        first_version_(first_version),
        size_(settings_.get().config.dense().size()),
        block_size_(settings_.get().config.dense().block_size()),
        blocks_((size_ + block_size_ - 1) / block_size_) {
    const optim::UpdateRule& rule = settings_.get().rule;
    for (uint32_t i = 0; i < blocks_.size(); ++i) {
      const PartitionIndex partition =
          map.PartitionOfBlock(BlockIndex(i), num_blocks());
      if (map.Owner(partition) != server) continue;
      const size_t n = BlockSize(BlockIndex(i));
      auto block = std::make_unique<Block>();
      absl::MutexLock lock(&block->mutex);
      block->values.resize(n);
      block->state.resize(rule.StateSize(n));
      rule.InitState(block->state.data(), n);
      block->version = first_version_;
      bytes_ += (n + block->state.size()) * sizeof(float);
      ++num_owned_blocks_;
      blocks_[i] = std::move(block);
    }
  }

  // Writes the initial values of the floats [begin, end) of the vector.
  void Initialize(const optim::InitialValues& initial, uint64_t begin,
                  uint64_t end) {
    while (begin < end) {
      const uint32_t index = begin / block_size_;
      const uint64_t block_begin = uint64_t{index} * block_size_;
      const uint64_t stop = std::min<uint64_t>(end, block_begin + block_size_);
      if (Block* block = blocks_[index].get(); block != nullptr) {
        absl::MutexLock lock(&block->mutex);
        initial.FillRange(begin, block->values.data() + (begin - block_begin),
                          stop - begin);
      }
      begin = stop;
    }
  }

  uint32_t num_blocks() const override { return blocks_.size(); }

  size_t BlockSize(BlockIndex block) const override {
    OARLOCK_CHECK(block.value() < blocks_.size());
    const uint64_t begin = uint64_t{block.value()} * block_size_;
    return std::min<uint64_t>(block_size_, size_ - begin);
  }

  bool Owns(BlockIndex block) const override {
    return block.value() < blocks_.size() && blocks_[block.value()] != nullptr;
  }

  uint64_t Pull(BlockIndex index, uint64_t known_version,
                float* values) const override {
    const Block& block = At(index);
    absl::ReaderMutexLock lock(&block.mutex);
    if (block.version != known_version) {
      std::memcpy(values, block.values.data(),
                  block.values.size() * sizeof(float));
    }
    return block.version;
  }

  bool Push(BlockIndex index, const float* gradients,
            absl::Span<const PushStamp> stamps, uint32_t num_steps,
            uint64_t known_version) override {
    OARLOCK_CHECK(num_steps >= 1);
    Block& block = At(index);
    absl::MutexLock lock(&block.mutex);
    bool all_applied = true;
    for (const PushStamp& stamp : stamps) {
      all_applied = all_applied && block.windows.Contains(stamp);
    }
    if (all_applied) return false;
    SetAside(block);
    for (const PushStamp& stamp : stamps) block.windows.Add(stamp);
    const Settings& settings = settings_.get();
    Apply(settings.rule, block, gradients, num_steps,
          settings.staleness_rate.Factor(StalenessOf(known_version, block)));
    return true;
  }

  bool Hold(BlockIndex index, const float* gradients, const PushStamp& stamp,
            uint32_t num_steps) override {
    OARLOCK_CHECK(num_steps >= 1);
    Block& block = At(index);
    absl::MutexLock lock(&block.mutex);
    if (block.windows.Contains(stamp)) return false;
    SetAside(block);
    block.windows.Add(stamp);
    if (block.held_steps == 0) {
      block.sum.assign(gradients, gradients + block.values.size());
    } else {
      for (size_t i = 0; i < block.sum.size(); ++i) {
        block.sum[i] += gradients[i];
      }
    }
    block.held_steps += num_steps;
    return true;
  }

  void ApplyHeld() override {
    for (const std::unique_ptr<Block>& block : blocks_) {
      if (block == nullptr) continue;
      absl::MutexLock lock(&block->mutex);
      if (block->held_steps == 0) continue;
      SetAside(*block);
      ApplyHeld(settings_.get().rule, *block);
    }
  }

  bool HasApplied(BlockIndex index, const PushStamp& stamp) const override {
    const Block& block = At(index);
    absl::ReaderMutexLock lock(&block.mutex);
    return block.windows.Contains(stamp);
  }

  void ForgetWorker(WorkerIndex worker, Generation last) override {
    for (const std::unique_ptr<Block>& block : blocks_) {
      if (block == nullptr) continue;
      absl::MutexLock lock(&block->mutex);
      PushWindows rest = block->windows;
      if (!rest.Forget(worker, last)) continue;
      SetAside(*block);
      block->windows = std::move(rest);
    }
  }

  void Freeze(uint64_t cut) override {
    for (const std::unique_ptr<Block>& block : blocks_) {
      if (block == nullptr) continue;
      absl::MutexLock lock(&block->mutex);
      OARLOCK_CHECK(block->freeze_state == FreezeState::kNone);
      OARLOCK_CHECK(cut > block->published.base_cut);
      if (block->held_steps > 0) ApplyHeld(settings_.get().rule, *block);
      block->freeze_state = FreezeState::kFrozen;
      block->cut = cut;
    }
  }

  DenseBlockCut SaveBlock(BlockIndex index, bool full) override {
    Block& block = At(index);
    uint64_t cut = 0;
    SavedBlock saved;
    DenseBlockCut result = TakeCut(block, full, &cut, &saved);
    if (!result.floats.empty()) {
      // Outside the lock: it costs about as much as the copy.
      saved = {.version = result.state.version(),
               .base_cut = cut,
               .digest = DigestOf(index, result.state.steps(), result.floats)};
    }
    result.state.set_base_cut(saved.base_cut);
    result.state.set_digest(saved.digest);
    absl::MutexLock lock(&block.mutex);
    block.saved = saved;
    return result;
  }

  void Thaw(bool published) override {
    for (const std::unique_ptr<Block>& block : blocks_) {
      if (block == nullptr) continue;
      absl::MutexLock lock(&block->mutex);
      OARLOCK_CHECK(block->freeze_state != FreezeState::kNone);
      OARLOCK_CHECK(!published || block->freeze_state == FreezeState::kSaved);
      if (published) block->published = block->saved;
      block->freeze_state = FreezeState::kNone;
      block->aside = nullptr;
    }
  }

  absl::Status RestoreBlock(BlockIndex index, const v1::DenseBlockState& state,
                            absl::Span<const float> floats) override {
    Block& block = At(index);
    absl::MutexLock lock(&block.mutex);
    OARLOCK_CHECK(block.freeze_state == FreezeState::kNone);
    const size_t num_values = block.values.size();
    const size_t num_floats = num_values + block.state.size();
    if (floats.size() != num_floats) {
      return absl::DataLossError(absl::StrFormat(
          "%s: block %d of the checkpoint has %d floats; with optimizer state "
          "it must have %d; use another checkpoint",
          DenseTableName(config()), index.value(), floats.size(), num_floats));
    }
    if (const uint64_t digest = DigestOf(index, state.steps(), floats);
        digest != state.digest()) {
      return absl::DataLossError(absl::StrFormat(
          "%s: block %d of the checkpoint has digest %016x; its state says "
          "%016x; use another checkpoint",
          DenseTableName(config()), index.value(), digest, state.digest()));
    }
    const std::optional<std::vector<PushWindow>> windows = WindowsOf(state);
    if (!windows.has_value()) {
      return absl::DataLossError(absl::StrFormat(
          "%s: block %d of the checkpoint has push windows that are empty or "
          "not ascending by worker and generation; use another checkpoint",
          DenseTableName(config()), index.value()));
    }
    std::copy_n(floats.begin(), num_values, block.values.begin());
    std::copy(floats.begin() + num_values, floats.end(), block.state.begin());
    block.steps = state.steps();
    block.windows.Restore(*windows);
    block.version = first_version_;
    block.restored_version = state.version();
    block.published = {};
    return absl::OkStatus();
  }

  uint64_t bytes() const override { return bytes_; }
  uint32_t num_owned_blocks() const override { return num_owned_blocks_; }
  const v1::TableConfig& config() const override {
    return settings_.get().config;
  }
  absl::Status Reconfigure(const v1::TableConfig& config) override {
    OARLOCK_ASSIGN_OR_RETURN(Settings settings, Settings::Create(config));
    settings_.Replace(std::move(settings));
    return absl::OkStatus();
  }

 private:
  Block& At(BlockIndex index) const {
    OARLOCK_CHECK(Owns(index));
    return *blocks_[index.value()];
  }

  // Updates of the block that gradients computed from this version of it do not
  // know; 0 where the version is not known.
  uint64_t StalenessOf(uint64_t known_version, const Block& block) const
      ABSL_SHARED_LOCKS_REQUIRED(block.mutex) {
    if (known_version == 0) return 0;
    const uint64_t known = known_version >= first_version_
                               ? known_version
                               : TranslateVersion(known_version, block);
    return block.version > known ? block.version - known : 0;
  }

  // A version that another incarnation counted, as this one counts: from the
  // cut that the block was restored at, where that of a replayed log's pushes
  // began, too, unless it is the one that made the cut.
  uint64_t TranslateVersion(uint64_t version, const Block& block) const
      ABSL_SHARED_LOCKS_REQUIRED(block.mutex) {
    if (!SameIncarnation(version, block.restored_version)) {
      return first_version_ + DensePushes(version);
    }
    // Below first_version_ where it is older than the cut, but never below 0:
    // versions of a later incarnation are larger.
    return first_version_ + version - block.restored_version;
  }

  static void Apply(const optim::UpdateRule& rule, Block& block,
                    const float* gradients, uint64_t num_steps,
                    float rate_factor = 1)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(block.mutex) {
    block.steps += num_steps;
    rule.Apply(block.steps, block.values.data(), block.state.data(), gradients,
               block.values.size(), rate_factor);
    ++block.version;
  }

  static void ApplyHeld(const optim::UpdateRule& rule, Block& block)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(block.mutex) {
    Apply(rule, block, block.sum.data(),
          std::exchange(block.held_steps, uint64_t{0}));
  }

  // Keeps what the cut found of a block that is about to change.
  static void SetAside(Block& block)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(block.mutex) {
    if (block.freeze_state != FreezeState::kFrozen) return;
    block.aside = std::make_unique<DenseBlockCut>(CopyOf(block));
    block.freeze_state = FreezeState::kAside;
  }

  // What the cut found, without base_cut and digest; without floats where
  // `published` still has them. The block counts as saved from here on.
  static DenseBlockCut TakeCut(Block& block, bool full, uint64_t* cut,
                               SavedBlock* published) {
    absl::MutexLock lock(&block.mutex);
    OARLOCK_CHECK(block.freeze_state == FreezeState::kFrozen ||
                  block.freeze_state == FreezeState::kAside);
    DenseBlockCut result = block.freeze_state == FreezeState::kAside
                               ? std::move(*block.aside)
                               : CopyOf(block);
    block.aside = nullptr;
    block.freeze_state = FreezeState::kSaved;
    *cut = block.cut;
    *published = block.published;
    if (!full && result.state.version() == published->version) {
      result.floats.clear();
    }
    return result;
  }

  AtomicSnapshot<Settings> settings_;
  // Constant after Create, but for what the blocks' own locks guard.
  const uint64_t first_version_;
  const uint64_t size_;
  const uint64_t block_size_;
  // By block index; null where another server owns it.
  std::vector<std::unique_ptr<Block>> blocks_;
  uint64_t bytes_ = 0;
  uint32_t num_owned_blocks_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<DenseTable>> DenseTable::Create(
    const v1::TableConfig& config, const cluster::PartitionMap& map,
    ServerIndex server, uint64_t first_version) {
  OARLOCK_CHECK(first_version >= 1);
  OARLOCK_ASSIGN_OR_RETURN(Settings settings, Settings::Create(config));
  OARLOCK_RETURN_IF_ERROR(CheckFits(settings, map, server));
  auto table = std::make_unique<BlockTable>(std::move(settings), map, server,
                                            first_version);
  const auto& parameters = config.dense().parameters();
  for (const v1::DenseParameter& parameter : parameters) {
    auto initial = optim::InitialValues::Create(
        parameter.initializer(), config.seed(), TableId(config.id()));
    if (!initial.ok()) {
      return Annotate(initial.status(), absl::StrFormat("%s: parameter '%s'",
                                                        DenseTableName(config),
                                                        parameter.name()));
    }
    const uint64_t floats = FloatsOf(parameter, config.dense().size());
    table->Initialize(*initial, parameter.offset(),
                      parameter.offset() + floats);
  }
  return table;
}

}  // namespace oarlock::sparse_table
