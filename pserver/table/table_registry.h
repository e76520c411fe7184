// The tables of one server, each with the aggregator of its mode.

#ifndef OARLOCK_PSERVER_TABLE_TABLE_REGISTRY_H_
#define OARLOCK_PSERVER_TABLE_TABLE_REGISTRY_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "base/clock.h"
#include "base/types.h"
#include "cluster/partition_map.h"
#include "proto/v1/server_admin_tables.pb.h"
#include "proto/v1/table.pb.h"
#include "pserver/aggregator/aggregator.h"
#include "pserver/aggregator/change_log.h"
#include "pserver/aggregator/logical_clock.h"
#include "pserver/table/hot_keys.h"
#include "sparse_table/dense/dense_table.h"
#include "sparse_table/sparse_table.h"

namespace oarlock::pserver {

// Blocks of a dense table that pulls and pushes have named.
struct BlockTraffic {
  std::atomic<uint64_t> pulled = 0;
  std::atomic<uint64_t> pushed = 0;
};

// A table of this server under one configuration. Nothing in it is replaced;
// its parts guard what changes in them. A table that continues under another
// configuration gets a new entry in place of this one. The two entries share
// what is a shared_ptr here, so a call may continue with the entry that it has
// found. Lives as long as its registry.
struct TableEntry {
  v1::TableConfig config;
  // One of the two is set.
  std::shared_ptr<sparse_table::SparseTable> sparse;
  std::shared_ptr<sparse_table::DenseTable> dense;
  // Of a sparse table; the data plane feeds it.
  std::shared_ptr<HotKeys> hot_keys;
  // Of a dense table.
  std::shared_ptr<BlockTraffic> block_traffic;
  // Of a sparse table in geo mode; its aggregator feeds it.
  std::shared_ptr<ChangeLog> changes;
  // Refers to all of these, so it is destroyed before them.
  std::unique_ptr<Aggregator> aggregator;
};

// Called before changes are made, with the registry's lock held. An error of
// OnCreate keeps the table from being created or changed; an error of
// OnRoundMember is only logged.
class TableObserver {
 public:
  virtual ~TableObserver() = default;
  virtual absl::Status OnCreate(const v1::TableConfig& config) = 0;
  virtual absl::Status OnRoundMember(WorkerIndex worker, Generation generation,
                                     bool joins) = 0;
};

// Whether the aggregator of such a table has rounds (Aggregator::HasRounds).
bool HasRounds(const v1::TableConfig& config);

// The table as status responses show it, without partitions.
v1::TableStatus DescribeTable(const TableEntry& entry);

// Thread-safe. Tables are created, never removed.
class TableRegistry {
 public:
  // Tables of one job; bytes of a table's name, which are printable, of its
  // encoded configuration, and of all configurations.
  static constexpr size_t kMaxTables = 1024;
  static constexpr size_t kMaxNameBytes = 255;
  static constexpr size_t kMaxConfigBytes = size_t{1} << 20;
  static constexpr size_t kMaxConfigBytesOfAll = size_t{16} << 20;
  // Hot keys in one response, of all tables.
  static constexpr size_t kMaxHotKeysOfAll = size_t{1} << 18;

  // Quorums wait by `clock`, which is monotonic and outlives this. `tier_dir`
  // as in ServerOptions. Versions of dense blocks are those of this incarnation
  // of the server (base/dense_version.h).
  TableRegistry(cluster::PartitionMap map, ServerIndex server,
                const Clock& clock, const std::string& tier_dir = "",
                Generation generation = Generation(0))
      : map_(std::move(map)),
        server_(server),
        monotonic_clock_(clock),
        tier_dir_(tier_dir),
        generation_(generation) {}

  // Creates this server's share of the table. OK without effect when it exists
  // with an equal configuration; AlreadyExists, both printed, when another one
  // has its id or its name; InvalidArgument when the configuration is not
  // valid; ResourceExhausted beyond kMaxTables; FailedPrecondition and errors
  // of the disk where the rows of a table with a memory budget have no place.
  absl::Status Create(const v1::TableConfig& config);
  // The same, for a table that is then filled from a checkpoint. The first
  // Create after it may change what its rows do not depend on
  // (pserver/table/table_change.h). REQUIRES: there are no calls yet.
  absl::StatusOr<TableEntry*> CreateRestored(const v1::TableConfig& config);
  // Replays a Create that was done before a restart; it may change a table that
  // exists already. REQUIRES: there are no calls yet.
  absl::Status CreateAgain(const v1::TableConfig& config);
  // A run of workers of this number creates its tables: the first Create of
  // each table in a run may change it, as after CreateRestored. A number that
  // is not above all earlier ones changes nothing.
  void BeginRun(uint64_t run);
  // The next Create of any table may change it, as after CreateRestored.
  // REQUIRES: there are no calls yet.
  void SetRestored();

  // The table as it is now. NotFound when no table has this id. Never null.
  absl::StatusOr<TableEntry*> Find(TableId id) const;

  // `observer` is called from now on; null: none.
  void SetObserver(TableObserver* observer);
  // Generation of each worker that is a round member.
  absl::btree_map<WorkerIndex, Generation> RoundMembers() const;

  // What others have pushed to a geo table since the caller's last request; see
  // proto/v1/server_admin_service.proto. Positions in `request` count only if
  // they are of this server's incarnation, which is `generation`.
  absl::StatusOr<v1::ListChangesResponse> ListChanges(
      const v1::ListChangesRequest& request, Generation generation) const;

  // Whether some table's pushes make rounds.
  bool HasRounds() const;
  // The most rounds that a table has completed.
  uint64_t CompleteRounds() const;

  // Calls every table's aggregator, and later those of new tables (see
  // Aggregator::SetRoundMember). Returns the most rounds that a sync table has
  // completed: a worker that joins contributes from the round after.
  uint64_t SetRoundMember(WorkerIndex worker, Generation generation,
                          bool joins);

  // For cuts, on every table's aggregator, and later on those of new tables
  // (see Aggregator::HoldRounds and AllowRounds). The first returns the most
  // rounds that a sync table has completed. One thread at a time.
  uint64_t HoldRounds();
  void AllowRounds(uint64_t last);

  // All tables forget the pushes of the worker's incarnations up to `last`. The
  // caller makes sure that none of these comes any more.
  void ForgetWorker(WorkerIndex worker, Generation last);

  // Every table as status responses show it, ascending by id. Sparse ones have
  // their partitions as long as all together have at most `max_partitions`.
  std::vector<v1::TableStatus> Describe(size_t max_partitions = 0) const;

  // The hottest keys of each sparse table, or of the one with this name, at
  // most `max_keys` of a table. NotFound when no sparse table has the name;
  // OutOfRange when that may be more than kMaxHotKeysOfAll.
  absl::StatusOr<std::vector<v1::TableHotKeys>> DescribeHotKeys(
      const std::string& table_name, size_t max_keys) const;
  // The job's logical time: aggregators stamp pushes with it.
  LogicalClock& clock() { return clock_; }
  const LogicalClock& clock() const { return clock_; }

  // All tables, ascending by id.
  std::vector<TableEntry*> Entries() const;

  // Pushes that are held, over all tables.
  uint64_t HeldPushes() const;

  // Shuts every aggregator down: held pushes are answered Unavailable. No
  // table can be created any more (Unavailable).
  void Shutdown();

 private:
  // Constant.
  const cluster::PartitionMap map_;
  const ServerIndex server_;
  const Clock& monotonic_clock_;
  const std::string tier_dir_;
  const Generation generation_;

  LogicalClock clock_;

  // Held while a table is created or membership changes, so that a new table
  // misses no member. Taken before mutex_.
  mutable absl::Mutex change_mutex_;
  TableObserver* observer_ ABSL_GUARDED_BY(change_mutex_) = nullptr;
  // Generation of each worker that is a round member.
  absl::btree_map<WorkerIndex, Generation> members_
      ABSL_GUARDED_BY(change_mutex_);
  // What new aggregators get about rounds.
  bool rounds_held_ ABSL_GUARDED_BY(change_mutex_) = false;
  uint64_t last_allowed_round_ ABSL_GUARDED_BY(change_mutex_) = kEveryRound;
  // Tables that the next Create may change: they were filled from a checkpoint,
  // or are of a run before, and this one has not called Create yet.
  absl::flat_hash_set<TableId> restored_ ABSL_GUARDED_BY(change_mutex_);
  // The first run is that in which the tables are made.
  uint64_t run_ ABSL_GUARDED_BY(change_mutex_) = 1;
  bool shut_down_ ABSL_GUARDED_BY(change_mutex_) = false;

  absl::Status Reconfigure(const v1::TableConfig& config,
                           const TableEntry& before)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(change_mutex_);
  // Brings a new aggregator up to date on members and rounds, and makes its
  // entry the table's.
  void Insert(std::unique_ptr<TableEntry> entry)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(change_mutex_);

  // Held for a look-up or an insertion only.
  mutable absl::Mutex mutex_;
  absl::flat_hash_map<TableId, std::unique_ptr<TableEntry>> tables_
      ABSL_GUARDED_BY(mutex_);
  // At most one for each table and run, and one more for each table that was
  // filled from a checkpoint.
  std::vector<std::unique_ptr<TableEntry>> replaced_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace oarlock::pserver

#endif  // OARLOCK_PSERVER_TABLE_TABLE_REGISTRY_H_
