// The thread of a server that evicts rows: at the times in each table's
// configuration, and by command. Traffic continues meanwhile: it evicts from
// one partition at a time, a bounded number of rows per lock hold
// (sparse_table/rules/eviction.h).

#ifndef OARLOCK_PSERVER_TABLE_EVICTION_LOOP_H_
#define OARLOCK_PSERVER_TABLE_EVICTION_LOOP_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/types.h"
#include "proto/v1/server_admin_tables.pb.h"
#include "pserver/table/table_registry.h"
#include "sparse_table/rules/eviction.h"

namespace oarlock::pserver {

// From where rows are evicted in one step.
struct PartitionEviction {
  TableId table;
  PartitionIndex partition;
  // The present logical time.
  uint32_t time = 0;
};

// Thread-safe.
class EvictionLoop {
 public:
  // How often the loop reads the logical time.
  static constexpr absl::Duration kTurn = absl::Milliseconds(100);
  // Commands that wait; more are ResourceExhausted.
  static constexpr size_t kMaxWaiting = 16;
  static constexpr uint32_t kDefaultPeriodTicks = 60;

  // Called once, without a lock held, by the loop's thread or by the caller.
  using Done =
      absl::AnyInvocable<void(const absl::StatusOr<v1::EvictResponse>&)>;
  // A sparse_table::DoStep for each partition.
  using DoStep = std::function<absl::Status(const PartitionEviction& what,
                                            sparse_table::EvictionStep& step)>;

  // Without a log.
  static absl::Status DoUnrecorded(const PartitionEviction&,
                                   sparse_table::EvictionStep& step) {
    return sparse_table::DoUnrecorded(step);
  }

  // What is given must outlive this.
  EvictionLoop(TableRegistry* registry, DoStep do_step, const Clock& clock)
      : registry_(registry), do_step_(std::move(do_step)), clock_(clock) {}
  ~EvictionLoop();

  EvictionLoop(const EvictionLoop&) = delete;
  EvictionLoop& operator=(const EvictionLoop&) = delete;

  void Start();
  // Evicts what is beyond the request's limits, or the table's own, and calls
  // `done` with the result. NotFound for the table, InvalidArgument for a dense
  // one, for limits out of range or for no limits at all; Unavailable when the
  // loop ends first.
  void Evict(const v1::EvictRequest& request, Done done);
  // Returns when everything is evicted that was due up to `time`, or the loop
  // is being stopped. REQUIRES: Start was called.
  void AwaitEvicted(uint32_t time);
  // Ends the loop between two partitions; commands that wait get Unavailable.
  // Idempotent.
  void Stop();

 private:
  struct Command {
    v1::EvictRequest request;
    Done done;
  };

  void Run();
  void ServeCommands();
  // In all tables that the server has.
  void EvictWhatIsDue();
  absl::StatusOr<v1::EvictResponse> Serve(const v1::EvictRequest& request);
  // Of all partitions; Unavailable when the loop is being stopped.
  absl::StatusOr<sparse_table::EvictionResult> EvictTable(
      TableEntry* entry, const sparse_table::EvictionLimits& limits);
  bool stopping() const;

  TableRegistry* const registry_;
  const DoStep do_step_;
  const Clock& clock_;

  // Not 0 in a job that goes on.
  uint32_t start_time_ = 0;
  // Of the loop's thread alone: when each table is due.
  absl::flat_hash_map<TableId, uint32_t> due_;

  mutable absl::Mutex mutex_;
  std::deque<Command> commands_ ABSL_GUARDED_BY(mutex_);
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace oarlock::pserver

#endif  // OARLOCK_PSERVER_TABLE_EVICTION_LOOP_H_
