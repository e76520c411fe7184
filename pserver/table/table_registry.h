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

// Rows that pulls and pushes of a dense table asked for are its blocks.
struct BlockTraffic {
  std::atomic<uint64_t> pulled = 0;
  std::atomic<uint64_t> pushed = 0;
};

// A table of this server under one configuration. Nothing in it is replaced;
// what changes guards itself. A table that goes on under another configuration
// gets an entry that takes the place of the one before; they share what is
// shared here, so that a call may go on with the entry that it has found. Lives
// as long as its registry.
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

// Told of changes before they are made; an error keeps them from being made.
// Called with the registry's lock held.
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
  // Tables of one job.
  static constexpr size_t kMaxTables = 1024;

  // By `clock`, which is monotonic and outlives this, quorums wait.
  // `tier_dir` as in ServerOptions. Versions of dense blocks are those of this
  // incarnation of the server (base/dense_version.h).
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
  // has its id or its name; InvalidArgument when the configuration is none;
  // ResourceExhausted beyond kMaxTables; FailedPrecondition and errors of the
  // disk where the rows of a table with a memory budget have no place.
  absl::Status Create(const v1::TableConfig& config);
  // The same, for a table that is then filled from a checkpoint. The first
  // Create after it may change what its rows do not depend on
  // (pserver/table/table_change.h). REQUIRES: there are no calls yet.
  absl::StatusOr<TableEntry*> CreateRestored(const v1::TableConfig& config);
  // Does a Create again that was done before a restart, whatever the table was
  // then. REQUIRES: there are no calls yet.
  absl::Status CreateAgain(const v1::TableConfig& config);
  // The next Create of any table may change it, as after CreateRestored.
  // REQUIRES: there are no calls yet.
  void SetRestored();

  // The table as it is now. NotFound when no table has this id. Never null.
  absl::StatusOr<TableEntry*> Find(TableId id) const;

  // `observer` is told from now on, null: nobody.
  void SetObserver(TableObserver* observer);
  // Generation of each worker that is a round member.
  absl::btree_map<WorkerIndex, Generation> RoundMembers() const;

  // What others have pushed to a geo table since the caller asked; see
  // proto/v1/server_admin_service.proto. `request` is of this server's
  // incarnation `generation`, or its positions are none.
  absl::StatusOr<v1::ListChangesResponse> ListChanges(
      const v1::ListChangesRequest& request, Generation generation) const;

  // Whether some table's pushes make rounds.
  bool HasRounds() const;
  // The most rounds that a table has completed.
  uint64_t CompleteRounds() const;

  // Tells every table's aggregator, those of later tables too (see
  // Aggregator::SetRoundMember). Returns the most rounds that a sync table has
  // completed: a worker that joins contributes from the round after.
  uint64_t SetRoundMember(WorkerIndex worker, Generation generation,
                          bool joins);

  // For cuts, on every table's aggregator, those of later tables too (see
  // Aggregator::HoldRounds and AllowRounds). The first returns the most rounds
  // that a sync table has completed. One thread at a time.
  uint64_t HoldRounds();
  void AllowRounds(uint64_t last);

  // All tables forget the pushes of the worker's incarnations up to `last`. The
  // caller sees to it that none comes any more.
  void ForgetWorker(WorkerIndex worker, Generation last);

  // Every table as status responses show it, ascending by id; sparse ones with
  // their partitions where `with_partitions`.
  std::vector<v1::TableStatus> Describe(bool with_partitions = false) const;

  // The hottest keys of each sparse table, or of the one with this name, at
  // most `max_keys` of a table. NotFound when no sparse table has the name.
  absl::StatusOr<std::vector<v1::TableHotKeys>> DescribeHotKeys(
      const std::string& table_name, size_t max_keys) const;
  // The job's logical time: aggregators stamp pushes with it.
  LogicalClock& clock() { return clock_; }
  const LogicalClock& clock() const { return clock_; }

  // All tables, ascending by id.
  std::vector<TableEntry*> Entries() const;

  // Over all tables.
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
  // What new aggregators are to be told of rounds.
  bool rounds_held_ ABSL_GUARDED_BY(change_mutex_) = false;
  uint64_t last_allowed_round_ ABSL_GUARDED_BY(change_mutex_) = kEveryRound;
  // Tables that were filled from a checkpoint and that nobody has created in
  // this job yet.
  absl::flat_hash_set<TableId> restored_ ABSL_GUARDED_BY(change_mutex_);
  bool shut_down_ ABSL_GUARDED_BY(change_mutex_) = false;

  absl::Status Reconfigure(const v1::TableConfig& config,
                           const TableEntry& before)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(change_mutex_);
  // Tells an aggregator that nobody else knows what it has missed, and makes
  // its entry the table's.
  void Insert(std::unique_ptr<TableEntry> entry)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(change_mutex_);

  // Held for a look-up or an insertion only.
  mutable absl::Mutex mutex_;
  absl::flat_hash_map<TableId, std::unique_ptr<TableEntry>> tables_
      ABSL_GUARDED_BY(mutex_);
  // One for each table at most that was filled from a checkpoint.
  std::vector<std::unique_ptr<TableEntry>> replaced_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace oarlock::pserver

#endif  // OARLOCK_PSERVER_TABLE_TABLE_REGISTRY_H_
