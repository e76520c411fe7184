// What one server writes of a cut: its partitions of sparse tables and blocks
// of dense ones, as records of its store (docs/checkpoint_format.md).

#ifndef OARLOCK_PSERVER_CHECKPOINT_PART_WRITER_H_
#define OARLOCK_PSERVER_CHECKPOINT_PART_WRITER_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/types.h"
#include "cluster/partition_map.h"
#include "proto/v1/checkpoint.pb.h"
#include "pserver/checkpoint/save_throttle.h"
#include "pserver/table/table_registry.h"
#include "storage/checkpoint_store.h"

namespace oarlock::pserver {

// The cuts whose records make up a unit: a base with all rows, then changes.
struct RecordCuts {
  uint64_t base = 0;  // 0: none yet
  std::vector<uint64_t> deltas;
};

// One thread at a time; pulls and pushes continue meanwhile.
class PartWriter {
 public:
  // A table is written as a whole again when the changes since its base take
  // more than this share of it.
  static constexpr double kMaxDeltaShare = 0.5;
  // And when there are this many changes, since a restart reads them all; fewer
  // for very many tables. Each thread writes a file of each table in each cut,
  // and the manifest names those of all servers.
  static constexpr size_t kMaxDeltas = 64;
  static constexpr size_t kMaxFiles = 8192;
  static size_t MaxDeltas(size_t num_tables, int num_threads) {
    const size_t files = std::max<size_t>(1, num_tables * num_threads);
    return std::clamp<size_t>(kMaxFiles / files, 2, kMaxDeltas + 1) - 1;
  }

  // What is given outlives this. `num_threads` at least 1; `clock` is
  // monotonic.
  PartWriter(const cluster::PartitionMap* map, ServerIndex server,
             TableRegistry* registry, storage::CheckpointStore* store,
             int num_threads, const Clock& clock)
      : map_(*map),
        server_(server),
        registry_(registry),
        store_(store),
        num_threads_(num_threads),
        clock_(clock) {}

  // Freezes all tables, as they are now. The caller keeps pushes out meanwhile.
  // REQUIRES: nothing is frozen.
  void Freeze(uint64_t cut);
  // Writes the records of the frozen cut and publishes them in
  // <folder>/<part.directory>. REQUIRES: frozen.
  absl::StatusOr<v1::ServerPart> Save(const std::string& folder);
  // Ends the cut. `current`: what Save wrote is a checkpoint now, and later
  // cuts may refer to it. REQUIRES: frozen, and saved if current.
  void Thaw(bool current);

  // 0: nothing is frozen.
  uint64_t frozen() const { return frozen_; }
  // The tables of the frozen cut, ascending.
  std::vector<TableId> frozen_tables() const;

 private:
  struct Table {
    // By partition or block; empty for those of other servers.
    std::vector<RecordCuts> units;
    // Bytes of the base and of the changes since.
    uint64_t base_bytes = 0;
    uint64_t delta_bytes = 0;
  };
  // A table in the cut that is being written.
  struct FrozenTable {
    TableEntry* entry = nullptr;
    // Units of this server, ascending.
    std::vector<uint32_t> owned;
    // It is to be written as a whole.
    bool full = false;
    Table next;
    uint64_t version = 0;
  };
  // What one thread has written of a table.
  struct Written {
    uint64_t rows = 0;
    uint64_t bytes = 0;
    uint64_t digest = 0;
    bool all_full = true;
    absl::Status status;
  };

  bool WantsFull(const Table& table, size_t num_tables) const;
  // Units owned[first, end) of the table.
  Written WriteUnits(storage::CutWriter* writer, size_t first, size_t end,
                     FrozenTable* table) const;
  absl::Status WritePartition(storage::RecordWriter* records,
                              SaveThrottle* throttle, uint32_t unit,
                              FrozenTable* table, Written* written) const;
  absl::Status WriteBlock(storage::RecordWriter* records,
                          SaveThrottle* throttle, uint32_t unit,
                          FrozenTable* table, Written* written) const;
  absl::Status WriteTable(storage::CutWriter* writer, FrozenTable* table,
                          v1::TablePart* part) const;

  const cluster::PartitionMap& map_;
  const ServerIndex server_;
  TableRegistry* const registry_;
  storage::CheckpointStore* const store_;
  const int num_threads_;
  const Clock& clock_;

  uint64_t frozen_ = 0;
  std::vector<FrozenTable> frozen_tables_;
  // As of the last checkpoint.
  std::map<TableId, Table> tables_;
  // Records of cuts older than this one are forgotten.
  uint64_t oldest_cut_ = 0;
};

}  // namespace oarlock::pserver

#endif  // OARLOCK_PSERVER_CHECKPOINT_PART_WRITER_H_
