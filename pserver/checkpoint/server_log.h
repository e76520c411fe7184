// What a server writes down before it does it, and replays after a crash
// (durability `log`): pushes as the bytes that came, and what else changes
// tables.
//
// Each record carries the cut after which it belongs (storage/push_log.h). A
// server that comes back restores its newest checkpoint, then replays the
// records after it in their order. In sync mode this gives the same bits. In
// async mode, pushes of different threads may have been applied in another
// order than they were written. So floats may differ in their last bits, but
// each push is applied once.

#ifndef OARLOCK_PSERVER_CHECKPOINT_SERVER_LOG_H_
#define OARLOCK_PSERVER_CHECKPOINT_SERVER_LOG_H_

#include <grpcpp/support/byte_buffer.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/clock.h"
#include "base/types.h"
#include "coordinator/log/log_compatibility.h"
#include "proto/v1/parameter.pb.h"
#include "proto/v1/server_admin.pb.h"
#include "proto/v1/table.pb.h"
#include "pserver/checkpoint/cut_gate.h"
#include "pserver/fencing/push_ledger.h"
#include "pserver/table/eviction_loop.h"
#include "pserver/table/table_registry.h"
#include "storage/push_log.h"

namespace oarlock::pserver {

struct ServerLogOptions {
  // A directory of this server's own.
  std::string directory;
  // Beyond this size a checkpoint is due. Beyond twice this size pushes are
  // refused, except where that would prevent a checkpoint, which alone makes
  // room. These exceptions are: while a cut is open, since its workers wait for
  // the responses of pushes that belong before it; while it is saved; and while
  // no cut can be opened.
  uint64_t bytes_max = uint64_t{1} << 30;
  // See PushLogOptions.
  absl::Duration sync_interval = absl::Milliseconds(100);
  // Replay what the log has, or drop it.
  bool replay = false;
  // Of this start of the system (base/process/boot_id.h).
  std::string boot_id = {};
  // Forbids its use for tables that are trained in rounds; outlives the log.
  // Null: not used.
  coordinator::RunFile* run_file = nullptr;
};

// Kinds of records. The numbers are on disk and never change.
enum class ServerLogKind : uint32_t {
  // Logical time (4 bytes, little endian), then the request as it came.
  kPushSparse = 1,
  kPushDense = 2,
  // A TableConfig.
  kCreateTable = 3,
  // Worker (4), generation (8), joins (1), little endian.
  kRoundMember = 4,
  // The same entries for all members, in one record. In separate records, a
  // contribution between two of them would complete its round without the
  // second.
  kRoundMembers = 5,
  // 6: an eviction by limits; no release has written it.
  // A step of an eviction: table (4), partition (4), logical time (4), complete
  // rounds of the table (8), then the keys that went (8 each), little endian.
  kEvictKeys = 7,
  // ServerLogOptions::boot_id: who writes what follows.
  kBoot = 8,
};

// Thread-safe.
class ServerLog : public TableObserver {
 public:
  // Replays into `registry`, whose tables are as of gate->finished(), and
  // `ledger`, unless options.replay is false. Observes the registry from then
  // on. What is given outlives this; `clock` is monotonic. DataLoss, naming the
  // file, for a damaged log; errors of the disk.
  static absl::StatusOr<std::unique_ptr<ServerLog>> Open(
      const ServerLogOptions& options, TableRegistry* registry,
      PushLedger* ledger, const CutGate* gate, const Clock& clock);
  ~ServerLog() override;

  // Call before the push is applied. `has_rounds` is that of its aggregator;
  // without rounds the caller is inside CutGate::Pass. ResourceExhausted when
  // the log is full, else errors as PushLog::Append. After an error the push
  // must not be applied. Returns the logical time that the record has.
  absl::StatusOr<uint32_t> AppendPush(ServerLogKind kind, bool has_rounds,
                                      const grpc::ByteBuffer& request);

  // Call before these keys are evicted, inside CutGate::Exclude and
  // Aggregator::BetweenRounds, which says how many are complete. Errors as
  // PushLog::Append.
  absl::Status AppendEviction(const PartitionEviction& what,
                              uint64_t complete_rounds,
                              absl::Span<const Key> keys);

  absl::Status OnCreate(const v1::TableConfig& config) override;
  absl::Status OnRoundMember(WorkerIndex worker, Generation generation,
                             bool joins) override;

  // A cut was frozen and rounds are still held. What follows is in files of its
  // own, which begin with the members of rounds.
  absl::Status OnFrozen();
  // The cut is over, published or not.
  void OnCutOver() { saving_ = false; }
  // The checkpoint of this cut is current; `previous` is the cut before it.
  // Records after the cut stay. In sync mode so do those after the previous
  // cut: a round after the cut may have got contributions before the cut was
  // opened.
  absl::Status OnPublished(uint64_t cut, uint64_t previous);

  // Whether no cut can be opened: the log may grow beyond its limits, since
  // what keeps cuts from being opened is worked off with pushes.
  void SetCutsWait(bool cuts_wait) { cuts_wait_ = cuts_wait; }

  // Whether a checkpoint is due, so that the log can be trimmed.
  bool over_limit() const { return log_->bytes() > bytes_max_; }
  uint64_t bytes() const { return log_->bytes(); }
  // Of Open: how long it took, and how many messages were applied again.
  absl::Duration replay_time() const { return replay_time_; }
  uint64_t replayed_pushes() const { return replayed_pushes_; }
  // Whether a loss of power may have taken the end of what was replayed:
  // another boot of the system wrote some of it, or it is not known which.
  bool may_lack_its_end() const { return may_lack_its_end_; }
  // Which pushes were replayed, or are in the checkpoint: of each worker the
  // newest ones.
  const std::vector<v1::ReplayedPushes>& replayed_of_workers() const {
    return replayed_of_workers_;
  }

 private:
  ServerLog(const ServerLogOptions& options, TableRegistry* registry,
            PushLedger* ledger, const CutGate* gate)
      : directory_(options.directory),
        bytes_max_(options.bytes_max),
        boot_id_(options.boot_id),
        run_file_(options.run_file),
        registry_(registry),
        ledger_(ledger),
        gate_(gate) {}

  absl::Status Replay(const storage::LogRecord& record);
  absl::Status ReplayPush(const storage::LogRecord& record);
  // Gives a push of this logical time to its table, unless the table has it
  // from the checkpoint.
  template <typename PushView, typename Apply>
  absl::Status ReplayTo(uint64_t cut, uint32_t time,
                        absl::StatusOr<PushView> push, Apply apply);
  void ReplayMember(absl::string_view entry);
  // A message of a push is in the log.
  void CountReplayed(const v1::RequestHeader& header);
  // Fills may_lack_its_end_ and replayed_of_workers_.
  void TellReplayed();
  absl::Status ReplayEviction(const storage::LogRecord& record);
  // Reads the log once before it is replayed: a round may be complete in the
  // log before the eviction that was done before that round. The rounds of a
  // table with such evictions are held until these are replayed.
  absl::Status FindEvictionsBetweenRounds();
  // Holds, or allows, the table's rounds up to its next eviction.
  void AllowRoundsUpToEviction(TableEntry* entry);
  absl::Status Append(ServerLogKind kind, absl::string_view bytes);

  const std::string directory_;
  const uint64_t bytes_max_;
  const std::string boot_id_;
  coordinator::RunFile* const run_file_;
  TableRegistry* const registry_;
  PushLedger* const ledger_;
  const CutGate* const gate_;
  std::atomic<bool> cuts_wait_{false};
  std::atomic<bool> saving_{false};
  // Set by Open.
  std::unique_ptr<storage::PushLog> log_;
  // Used by Open alone: by table, how many rounds are complete at each eviction
  // that has not been replayed.
  absl::flat_hash_map<TableId, std::deque<uint64_t>> evictions_;
  // Changed by Open alone.
  absl::Duration replay_time_;
  uint64_t replayed_pushes_ = 0;
  bool may_lack_its_end_ = false;
  std::vector<v1::ReplayedPushes> replayed_of_workers_;
  // Used by Open alone: indices of messages by sequence, by worker and
  // generation.
  std::map<std::pair<uint32_t, uint64_t>,
           std::map<uint64_t, std::set<uint32_t>>>
      replayed_messages_;
  // Whether a kBoot has come.
  bool knows_its_boot_ = false;
};

}  // namespace oarlock::pserver

#endif  // OARLOCK_PSERVER_CHECKPOINT_SERVER_LOG_H_
