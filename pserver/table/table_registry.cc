#include "pserver/table/table_registry.h"

#include <google/protobuf/util/message_differencer.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_format.h"
#include "base/clock.h"
#include "base/dense_version.h"
#include "base/log.h"
#include "base/process/free_memory.h"
#include "base/random.h"
#include "base/status_macros.h"
#include "pserver/aggregator/async_aggregator.h"
#include "pserver/aggregator/geo_aggregator.h"
#include "pserver/aggregator/quorum_aggregator.h"
#include "pserver/aggregator/sync_aggregator.h"
#include "pserver/table/table_change.h"
#include "sparse_table/rules/admission_rule.h"

namespace oarlock::pserver {
namespace {

absl::Status CheckConfig(const v1::TableConfig& config) {
  if (config.id() == 0) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "table '%s' has id 0; legal is at least 1", config.name()));
  }
  if (config.name().empty()) {
    return absl::InvalidArgumentError(
        absl::StrFormat("table %d has no name; give it one", config.id()));
  }
  if (config.name().size() > TableRegistry::kMaxNameBytes) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "table %d has a name of %d bytes; legal is up to %d", config.id(),
        config.name().size(), TableRegistry::kMaxNameBytes));
  }
  if (!std::all_of(config.name().begin(), config.name().end(), [](char c) {
        return absl::ascii_isprint(static_cast<uint8_t>(c));
      })) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "table %d has the name '%s'; legal are printable ASCII characters",
        config.id(), absl::CHexEscape(config.name())));
  }
  if (config.ByteSizeLong() > TableRegistry::kMaxConfigBytes) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "table %d '%s' has a configuration of %d bytes; legal is up to %d",
        config.id(), config.name(), config.ByteSizeLong(),
        TableRegistry::kMaxConfigBytes));
  }
  if (config.mode() != v1::ASYNC && config.mode() != v1::SYNC &&
      config.mode() != v1::GEO) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "table %d '%s' has mode %d; legal is ASYNC, SYNC or GEO", config.id(),
        config.name(), config.mode()));
  }
  if (config.mode() == v1::GEO) {
    OARLOCK_RETURN_IF_ERROR(CheckGeoTable(config));
  }
  if (config.mode() == v1::SYNC && config.reduction() != v1::MEAN &&
      config.reduction() != v1::SUM) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "sync table %d '%s' has reduction %d; legal is MEAN or SUM",
        config.id(), config.name(), config.reduction()));
  }
  if (config.kind_case() == v1::TableConfig::KIND_NOT_SET) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "table %d '%s' is neither sparse nor dense; set one of the two",
        config.id(), config.name()));
  }
  return absl::OkStatus();
}

// The aggregator of the entry's table, by its mode. A geo table gets a change
// log if it has none.
std::unique_ptr<Aggregator> MakeAggregator(TableEntry* entry,
                                           const LogicalClock* clock,
                                           const Clock& monotonic_clock) {
  sparse_table::SparseTable* const sparse = entry->sparse.get();
  sparse_table::DenseTable* const dense = entry->dense.get();
  switch (entry->config.mode()) {
    case v1::SYNC:
      if (dense != nullptr) {
        return std::make_unique<SyncAggregator>(dense, clock);
      }
      return std::make_unique<SyncAggregator>(sparse, clock);
    case v1::GEO:
      if (dense != nullptr) {
        return std::make_unique<GeoAggregator>(dense, clock);
      }
      if (entry->changes == nullptr) {
        entry->changes = std::make_shared<ChangeLog>();
      }
      return std::make_unique<GeoAggregator>(sparse, entry->changes.get(),
                                             clock);
    default:
      if (dense == nullptr) {
        return std::make_unique<AsyncAggregator>(sparse, clock);
      }
      if (entry->config.dense().quorum() > 0) {
        return std::make_unique<QuorumAggregator>(dense, monotonic_clock);
      }
      return std::make_unique<AsyncAggregator>(dense, clock);
  }
}

// Of an empty partition.
constexpr uint64_t kPartitionBytes = 600;

// What counts pushes that are not admitted yet, of the partitions that this
// server owns. They are made when they are needed.
uint64_t SketchBytes(const v1::TableConfig& config,
                     const cluster::PartitionMap& map, ServerIndex server) {
  const v1::AdmissionConfig& admission = config.sparse().admission();
  if (admission.kind_case() != v1::AdmissionConfig::kCount &&
      admission.kind_case() != v1::AdmissionConfig::kShowClick) {
    return 0;
  }
  const uint64_t bytes = admission.sketch_bytes() == 0
                             ? sparse_table::AdmissionRule::kDefaultSketchBytes
                             : admission.sketch_bytes();
  return bytes / map.num_partitions() * map.NumOwned(server);
}

// ResourceExhausted where a sparse table without a row, and the sketches of all
// tables, do not fit into memory.
absl::Status CheckFits(const v1::TableConfig& config,
                       const std::vector<TableEntry*>& entries,
                       const cluster::PartitionMap& map, ServerIndex server) {
  if (!config.has_sparse()) return absl::OkStatus();
  uint64_t bytes =
      kPartitionBytes * map.num_partitions() + SketchBytes(config, map, server);
  for (const TableEntry* entry : entries) {
    bytes += SketchBytes(entry->config, map, server);
  }
  const uint64_t free = FreeMemoryBytes();
  if (free == 0 || bytes <= free) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrFormat(
      "table %d '%s' takes %d bytes on this server before it has rows, with "
      "the sketches of all tables, and %d are left there; use smaller "
      "sketches, fewer partitions, or a machine with more memory",
      config.id(), config.name(), bytes, free));
}

absl::StatusOr<std::unique_ptr<TableEntry>> MakeEntry(
    const v1::TableConfig& config, const cluster::PartitionMap& map,
    ServerIndex server, const std::string& tier_dir, Generation generation,
    const LogicalClock* clock, const Clock& monotonic_clock) {
  auto entry = std::make_unique<TableEntry>();
  entry->config = config;
  if (config.has_sparse()) {
    sparse_table::SparseTableOptions options;
    if (!tier_dir.empty()) {
      options.tier_directory = absl::StrFormat(
          "%s/server-%d/table-%d", tier_dir, server.value(), config.id());
    }
    OARLOCK_ASSIGN_OR_RETURN(entry->sparse,
                             sparse_table::SparseTable::Create(
                                 config, map.partition_bits(), options));
    HotKeysOptions hot_keys;
    hot_keys.seed = DeriveSeed(config.seed(), server.value());
    entry->hot_keys = std::make_shared<HotKeys>(hot_keys);
  } else {
    entry->block_traffic = std::make_shared<BlockTraffic>();
    OARLOCK_ASSIGN_OR_RETURN(
        entry->dense, sparse_table::DenseTable::Create(
                          config, map, server, FirstDenseVersion(generation)));
  }
  entry->aggregator = MakeAggregator(entry.get(), clock, monotonic_clock);
  return entry;
}

}  // namespace

bool HasRounds(const v1::TableConfig& config) {
  return config.mode() == v1::SYNC;
}

absl::Status TableRegistry::Create(const v1::TableConfig& config) {
  OARLOCK_RETURN_IF_ERROR(CheckConfig(config));
  absl::MutexLock change_lock(&change_mutex_);
  if (shut_down_) {
    return absl::UnavailableError(
        "the server is shutting down; create the table on its successor");
  }
  const std::vector<TableEntry*> entries = Entries();
  for (TableEntry* entry : entries) {
    if (entry->config.id() != config.id() &&
        entry->config.name() != config.name()) {
      continue;
    }
    const TableId id(entry->config.id());
    if (google::protobuf::util::MessageDifferencer::Equals(entry->config,
                                                           config)) {
      restored_.erase(id);
      return absl::OkStatus();
    }
    if (restored_.contains(id) && CanGoOn(entry->config, config)) {
      if (observer_ != nullptr) {
        OARLOCK_RETURN_IF_ERROR(observer_->OnCreate(config));
      }
      return Reconfigure(config, *entry);
    }
    return absl::AlreadyExistsError(absl::StrFormat(
        "table %d '%s' exists with another configuration, there -> asked for: "
        "%s; use the flags of the job that made it, or another table",
        entry->config.id(), entry->config.name(),
        DifferencesOf(entry->config, config)));
  }
  if (entries.size() == kMaxTables) {
    return absl::ResourceExhaustedError(absl::StrFormat(
        "table %d '%s' would be one more than the %d that a job may have",
        config.id(), config.name(), kMaxTables));
  }
  size_t config_bytes = config.ByteSizeLong();
  for (const TableEntry* entry : entries) {
    config_bytes += entry->config.ByteSizeLong();
  }
  if (config_bytes > kMaxConfigBytesOfAll) {
    return absl::ResourceExhaustedError(absl::StrFormat(
        "with table %d '%s' the configurations of all tables would have %d "
        "bytes; legal is up to %d",
        config.id(), config.name(), config_bytes, kMaxConfigBytesOfAll));
  }
  OARLOCK_RETURN_IF_ERROR(CheckFits(config, entries, map_, server_));
  OARLOCK_ASSIGN_OR_RETURN(std::unique_ptr<TableEntry> entry,
                           MakeEntry(config, map_, server_, tier_dir_,
                                     generation_, &clock_, monotonic_clock_));
  if (observer_ != nullptr) {
    OARLOCK_RETURN_IF_ERROR(observer_->OnCreate(config));
  }
  Insert(std::move(entry));
  return absl::OkStatus();
}

void TableRegistry::Insert(std::unique_ptr<TableEntry> entry) {
  for (const auto& [worker, generation] : members_) {
    entry->aggregator->SetRoundMember(worker, generation, /*joins=*/true);
  }
  if (rounds_held_) {
    entry->aggregator->HoldRounds();
  } else {
    entry->aggregator->AllowRounds(last_allowed_round_);
  }
  absl::MutexLock lock(&mutex_);
  std::unique_ptr<TableEntry>& place = tables_[TableId(entry->config.id())];
  if (place != nullptr) replaced_.push_back(std::move(place));
  place = std::move(entry);
}

absl::StatusOr<TableEntry*> TableRegistry::CreateRestored(
    const v1::TableConfig& config) {
  OARLOCK_RETURN_IF_ERROR(Create(config));
  const TableId id(config.id());
  {
    absl::MutexLock lock(&change_mutex_);
    restored_.insert(id);
  }
  return Find(id);
}

absl::Status TableRegistry::CreateAgain(const v1::TableConfig& config) {
  const TableId id(config.id());
  if (Find(id).ok()) {
    absl::MutexLock lock(&change_mutex_);
    restored_.insert(id);
  }
  return Create(config);
}

void TableRegistry::BeginRun(uint64_t run) {
  absl::MutexLock lock(&change_mutex_);
  if (run <= run_) return;
  run_ = run;
  for (const TableEntry* entry : Entries()) {
    restored_.insert(TableId(entry->config.id()));
  }
}

void TableRegistry::SetRestored() {
  absl::MutexLock lock(&change_mutex_);
  for (const TableEntry* entry : Entries()) {
    restored_.insert(TableId(entry->config.id()));
  }
}

absl::Status TableRegistry::Reconfigure(const v1::TableConfig& config,
                                        const TableEntry& before) {
  auto entry = std::make_unique<TableEntry>();
  entry->config = config;
  entry->sparse = before.sparse;
  entry->dense = before.dense;
  entry->hot_keys = before.hot_keys;
  entry->block_traffic = before.block_traffic;
  entry->changes = before.changes;
  if (entry->sparse != nullptr) {
    OARLOCK_RETURN_IF_ERROR(entry->sparse->Reconfigure(config));
  } else {
    OARLOCK_RETURN_IF_ERROR(entry->dense->Reconfigure(config));
  }
  entry->aggregator = MakeAggregator(entry.get(), &clock_, monotonic_clock_);
  // Workers create a table before they push to it. A push of any other sender
  // that has found the old entry is sent again, and finds the new one.
  before.aggregator->Shutdown();
  entry->aggregator->Restore(before.aggregator->Version(),
                             before.aggregator->CompleteRounds());
  restored_.erase(TableId(config.id()));
  Insert(std::move(entry));
  return absl::OkStatus();
}

absl::StatusOr<TableEntry*> TableRegistry::Find(TableId id) const {
  absl::ReaderMutexLock lock(&mutex_);
  const auto found = tables_.find(id);
  if (found == tables_.end()) {
    return absl::NotFoundError(absl::StrFormat(
        "no table has id %d; create it first (this server has %d tables)",
        id.value(), tables_.size()));
  }
  return found->second.get();
}

void TableRegistry::SetObserver(TableObserver* observer) {
  absl::MutexLock lock(&change_mutex_);
  observer_ = observer;
}

absl::btree_map<WorkerIndex, Generation> TableRegistry::RoundMembers() const {
  absl::MutexLock lock(&change_mutex_);
  return members_;
}

uint64_t TableRegistry::SetRoundMember(WorkerIndex worker,
                                       Generation generation, bool joins) {
  absl::MutexLock change_lock(&change_mutex_);
  if (observer_ != nullptr) {
    // If this fails, a restarted server is informed by the worker's next call.
    const absl::Status recorded =
        observer_->OnRoundMember(worker, generation, joins);
    if (!recorded.ok()) Log().warn("{}", std::string(recorded.message()));
  }
  const auto found = members_.find(worker);
  const bool is_old = found != members_.end() && generation < found->second;
  if (!is_old && joins) {
    members_[worker] = generation;
  } else if (!is_old && found != members_.end()) {
    members_.erase(found);
  }
  for (TableEntry* entry : Entries()) {
    entry->aggregator->SetRoundMember(worker, generation, joins);
  }
  return CompleteRounds();
}

bool TableRegistry::HasRounds() const {
  for (const TableEntry* entry : Entries()) {
    if (entry->aggregator->HasRounds()) return true;
  }
  return false;
}

uint64_t TableRegistry::CompleteRounds() const {
  uint64_t rounds = 0;
  for (const TableEntry* entry : Entries()) {
    rounds = std::max(rounds, entry->aggregator->CompleteRounds());
  }
  return rounds;
}

uint64_t TableRegistry::HoldRounds() {
  absl::MutexLock change_lock(&change_mutex_);
  rounds_held_ = true;
  uint64_t rounds = 0;
  for (TableEntry* entry : Entries()) {
    rounds = std::max(rounds, entry->aggregator->HoldRounds());
  }
  return rounds;
}

void TableRegistry::AllowRounds(uint64_t last) {
  {
    absl::MutexLock change_lock(&change_mutex_);
    rounds_held_ = false;
    last_allowed_round_ = last;
  }
  // Without the lock, since rounds may be applied and answered. A table that is
  // created after the assignment above takes the value from there.
  for (TableEntry* entry : Entries()) entry->aggregator->AllowRounds(last);
}

void TableRegistry::ForgetWorker(WorkerIndex worker, Generation last) {
  // A table may be about to get another aggregator.
  absl::MutexLock change_lock(&change_mutex_);
  for (TableEntry* entry : Entries()) {
    if (entry->sparse != nullptr) entry->sparse->ForgetWorker(worker, last);
    if (entry->dense != nullptr) entry->dense->ForgetWorker(worker, last);
    entry->aggregator->ForgetWorker(worker, last);
  }
}

uint64_t TableRegistry::HeldPushes() const {
  uint64_t held = 0;
  for (const TableEntry* entry : Entries()) {
    held += entry->aggregator->HeldPushes();
  }
  return held;
}

void TableRegistry::Shutdown() {
  absl::MutexLock change_lock(&change_mutex_);
  shut_down_ = true;
  for (TableEntry* entry : Entries()) entry->aggregator->Shutdown();
}

std::vector<TableEntry*> TableRegistry::Entries() const {
  std::vector<TableEntry*> entries;
  {
    absl::ReaderMutexLock lock(&mutex_);
    for (const auto& [id, entry] : tables_) entries.push_back(entry.get());
  }
  std::sort(entries.begin(), entries.end(),
            [](const TableEntry* a, const TableEntry* b) {
              return a->config.id() < b->config.id();
            });
  return entries;
}

}  // namespace oarlock::pserver
