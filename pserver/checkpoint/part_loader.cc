#include "pserver/checkpoint/part_loader.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "base/status_macros.h"
#include "checkpoint/manifest.h"
#include "pserver/checkpoint/fault_points.h"
#include "sparse_table/cut/table_restore.h"
#include "storage/checkpoint_reader.h"
#include "storage/checkpoint_record.h"

namespace oarlock::pserver {
namespace {

// A partition or block to load, and the server that wrote it.
struct Unit {
  TableEntry* entry = nullptr;
  uint32_t index = 0;
  ServerIndex writer;
};

class Loader {
 public:
  Loader(const v1::CheckpointManifest& manifest,
         const PartLoaderOptions& options, const cluster::PartitionMap& map,
         TableRegistry* registry)
      : manifest_(manifest),
        options_(options),
        map_(map),
        writers_map_(cluster::PartitionMap::Even(manifest.num_partitions(),
                                                 manifest.servers_size())),
        registry_(registry) {}

  absl::Status Run() {
    OARLOCK_RETURN_IF_ERROR(CreateTables());
    OARLOCK_RETURN_IF_ERROR(OpenReaders());
    std::atomic<size_t> next{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < options_.num_threads; ++t) {
      threads.emplace_back([&] {
        for (size_t i = next++; i < units_.size(); i = next++) {
          const absl::Status status = Load(units_[i]);
          if (!status.ok()) return Fail(status);
          if (failed()) return;
          FaultPoint("restore.between_units");
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    absl::MutexLock lock(&mutex_);
    return status_;
  }

 private:
  absl::Status CreateTables() {
    for (const v1::TableConfig& config : manifest_.tables()) {
      OARLOCK_ASSIGN_OR_RETURN(TableEntry * entry,
                               registry_->CreateRestored(config));
      uint64_t version = 0;
      for (const v1::ServerPart& server : manifest_.servers()) {
        for (const v1::TablePart& part : server.tables()) {
          if (part.table() == config.id()) {
            version = std::max<uint64_t>(version, part.version());
          }
        }
      }
      entry->aggregator->Restore(version, manifest_.rounds());
      AddUnits(entry);
    }
    return absl::OkStatus();
  }

  void AddUnits(TableEntry* entry) {
    if (entry->sparse != nullptr) {
      for (uint32_t p = 0; p < map_.num_partitions(); ++p) {
        const PartitionIndex partition(p);
        if (map_.Owner(partition) != options_.server) continue;
        units_.push_back({entry, p, writers_map_.Owner(partition)});
      }
      return;
    }
    const uint32_t num_blocks = entry->dense->num_blocks();
    for (uint32_t b = 0; b < num_blocks; ++b) {
      const BlockIndex block(b);
      if (!entry->dense->Owns(block)) continue;
      units_.push_back({entry, b,
                        writers_map_.Owner(
                            writers_map_.PartitionOfBlock(block, num_blocks))});
    }
  }

  // Opens the parts of those servers that wrote a unit to load.
  absl::Status OpenReaders() {
    for (const Unit& unit : units_) {
      auto [it, is_new] = readers_.try_emplace(unit.writer);
      if (!is_new) continue;
      const v1::ServerPart& part = manifest_.servers(unit.writer.value());
      storage::CheckpointReaderOptions options;
      options.folder = absl::StrCat(options_.folder, "/", part.directory());
      options.stored = checkpoint::StoredFilesOf(part);
      options.verify_threads = options_.num_threads;
      OARLOCK_ASSIGN_OR_RETURN(it->second,
                               storage::CheckpointReader::Open(options));
    }
    return absl::OkStatus();
  }

  absl::Status Load(const Unit& unit) {
    return Annotate(
        unit.entry->sparse != nullptr ? LoadPartition(unit) : LoadBlock(unit),
        absl::StrCat(options_.folder, ", server ", unit.writer.value(),
                     ", table '", unit.entry->config.name(), "'"));
  }

  storage::RecordName NameOf(const Unit& unit, storage::RecordKind kind) const {
    return {.cut = manifest_.cut(),
            .table = TableId(unit.entry->config.id()),
            .unit = unit.index,
            .kind = kind};
  }

  // The state of a unit at the cut.
  template <typename State>
  absl::StatusOr<State> ReadState(const Unit& unit) {
    const storage::RecordName name = NameOf(unit, storage::RecordKind::kState);
    absl::StatusOr<std::string> bytes = readers_[unit.writer]->Read(name);
    State state;
    if (absl::IsNotFound(bytes.status()) ||
        (bytes.ok() && !state.ParseFromString(*bytes))) {
      return absl::DataLossError(
          absl::StrCat("the record ", storage::ToString(name), " is ",
                       bytes.ok() ? "malformed" : "missing"));
    }
    OARLOCK_RETURN_IF_ERROR(bytes.status());
    if (options_.parameters_only) state.clear_windows();
    return state;
  }

  absl::Status LoadPartition(const Unit& unit) {
    sparse_table::SparseTable* const table = unit.entry->sparse.get();
    const PartitionIndex partition(unit.index);
    const storage::CheckpointReader& reader = *readers_[unit.writer];
    OARLOCK_ASSIGN_OR_RETURN(const auto state,
                             ReadState<v1::SparsePartitionState>(unit));
    storage::RecordName name = NameOf(unit, storage::RecordKind::kRows);
    std::vector<uint64_t> cuts = {state.base_cut()};
    cuts.insert(cuts.end(), state.delta_cuts().begin(),
                state.delta_cuts().end());
    std::vector<Key> keys;
    for (const uint64_t cut : cuts) {
      OARLOCK_RETURN_IF_ERROR(
          reader.Visit(cut, name.table, name.unit, storage::RecordKind::kErased,
                       [&](const storage::RecordName& record,
                           absl::string_view bytes) -> absl::Status {
                         if (bytes.size() % sizeof(Key) != 0) {
                           return absl::DataLossError(absl::StrCat(
                               "the record ", storage::ToString(record),
                               " has ", bytes.size(),
                               " bytes; legal is a multiple of ", sizeof(Key)));
                         }
                         keys.resize(bytes.size() / sizeof(Key));
                         std::memcpy(keys.data(), bytes.data(), bytes.size());
                         return table->restore().Erased(partition, keys);
                       }));
      OARLOCK_RETURN_IF_ERROR(reader.Visit(
          cut, name.table, name.unit, storage::RecordKind::kRows,
          [&](const storage::RecordName& record, absl::string_view bytes) {
            return Annotate(
                table->restore().Rows(
                    partition,
                    {reinterpret_cast<const std::byte*>(bytes.data()),
                     bytes.size()}),
                absl::StrCat("the record ", storage::ToString(record)));
          }));
    }
    return table->restore().Finish(partition, state);
  }

  absl::Status LoadBlock(const Unit& unit) {
    OARLOCK_ASSIGN_OR_RETURN(const auto state,
                             ReadState<v1::DenseBlockState>(unit));
    storage::RecordName name = NameOf(unit, storage::RecordKind::kRows);
    name.cut = state.base_cut();
    OARLOCK_ASSIGN_OR_RETURN(const std::string bytes,
                             readers_[unit.writer]->Read(name));
    std::vector<float> floats(bytes.size() / sizeof(float));
    std::memcpy(floats.data(), bytes.data(), floats.size() * sizeof(float));
    return unit.entry->dense->RestoreBlock(BlockIndex(unit.index), state,
                                           floats);
  }

  void Fail(const absl::Status& status) {
    absl::MutexLock lock(&mutex_);
    if (status_.ok()) status_ = status;
  }
  bool failed() {
    absl::MutexLock lock(&mutex_);
    return !status_.ok();
  }

  const v1::CheckpointManifest& manifest_;
  const PartLoaderOptions& options_;
  const cluster::PartitionMap& map_;
  const cluster::PartitionMap writers_map_;
  TableRegistry* const registry_;
  std::vector<Unit> units_;
  std::map<ServerIndex, std::unique_ptr<storage::CheckpointReader>> readers_;

  absl::Mutex mutex_;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

absl::Status LoadPart(const v1::CheckpointManifest& manifest,
                      const PartLoaderOptions& options,
                      const cluster::PartitionMap& map,
                      TableRegistry* registry) {
  if (manifest.num_partitions() != map.num_partitions()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the checkpoint ", options.folder, " has ", manifest.num_partitions(),
        " partitions, the job ", map.num_partitions(),
        "; start it with --num_partitions ", manifest.num_partitions()));
  }
  return Loader(manifest, options, map, registry).Run();
}

}  // namespace oarlock::pserver
