// One server's part in cuts: carries out the coordinator's calls, one after
// the other, on a thread of its own (proto/v1/checkpoint.proto says what each
// does).

#ifndef OARLOCK_PSERVER_CHECKPOINT_SERVER_CUT_H_
#define OARLOCK_PSERVER_CHECKPOINT_SERVER_CUT_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/types.h"
#include "cluster/partition_map.h"
#include "proto/v1/checkpoint.pb.h"
#include "pserver/checkpoint/cut_gate.h"
#include "pserver/checkpoint/part_writer.h"
#include "pserver/checkpoint/server_log.h"
#include "pserver/table/table_registry.h"
#include "storage/checkpoint_store.h"

namespace oarlock::pserver {

struct ServerCutOptions {
  ServerIndex server;
  // The job's folder of checkpoints. This server's live database is
  // <directory>/store/server-NNN.
  std::string directory;
  // Threads that write; at least 1.
  int num_threads = 2;
  // Steps of cuts that wait for their turn; one more is ResourceExhausted.
  static constexpr size_t kMaxTasks = 64;
  // How far a cut may lie beyond the newest one here. Cuts are counted one by
  // one, and a server misses those of its absence.
  static constexpr uint64_t kMaxCutsAhead = uint64_t{1} << 20;
  // Sync: how long a freeze may wait for the round that ends the cut.
  absl::Duration round_timeout = absl::Seconds(10);
};

// Since the server began.
struct CutCounters {
  // Cut of the newest checkpoint, 0: none, and since when it is current; the
  // infinite past: from before.
  uint64_t current = 0;
  absl::Time current_since = absl::InfinitePast();
  uint64_t num_published = 0;
  uint64_t num_given_up = 0;
  // From the opening of cuts to the end of their freezes; the freezes alone.
  absl::Duration held;
  absl::Duration freezing;
  absl::Duration saving;
  uint64_t written_bytes = 0;
};

// Thread-safe. A call for a cut that is older than the newest is
// FailedPrecondition, and so is one whose step before is missing.
class ServerCut {
 public:
  template <typename Response>
  using Done = absl::AnyInvocable<void(const absl::StatusOr<Response>&)>;

  // Makes the live database, which keeps other processes out of it. What is
  // given outlives this, and so do the clocks. Errors as
  // CheckpointStore::Create.
  static absl::StatusOr<std::unique_ptr<ServerCut>> Create(
      const ServerCutOptions& options, const cluster::PartitionMap* map,
      TableRegistry* registry, CutGate* gate, const Clocks& clocks);
  // Stops.
  ~ServerCut();

  ServerCut(const ServerCut&) = delete;
  ServerCut& operator=(const ServerCut&) = delete;

  // Told of freezes and publications. Before the first call; outlives this.
  void SetLog(ServerLog* log) { log_ = log; }

  void Open(const v1::OpenCutRequest& request, Done<v1::OpenCutResponse> done);
  void Freeze(const v1::FreezeCutRequest& request,
              Done<v1::FreezeCutResponse> done);
  void Save(const v1::SaveCutRequest& request, Done<v1::SaveCutResponse> done);
  void Close(const v1::CloseCutRequest& request,
             Done<v1::CloseCutResponse> done);

  CutCounters stats() const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return stats_;
  }

  // Tasks under way are finished, those that wait are Unavailable; a cut that
  // is open is closed. Idempotent.
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // Where the newest cut is.
  enum class Stage { kNone, kOpen, kFrozen, kSaved };

  // Does a task, or answers it with why not.
  using Task = absl::AnyInvocable<void(const absl::Status&)>;

  ServerCut(const ServerCutOptions& options, const cluster::PartitionMap* map,
            TableRegistry* registry, CutGate* gate, const Clocks& clocks,
            std::unique_ptr<storage::CheckpointStore> store);

  template <typename Request, typename Response>
  void Enqueue(absl::StatusOr<Response> (ServerCut::*step)(const Request&),
               const Request& request, Done<Response> done);
  void Run();

  // Of the thread alone.
  absl::StatusOr<v1::OpenCutResponse> DoOpen(const v1::OpenCutRequest& request);
  absl::StatusOr<v1::FreezeCutResponse> DoFreeze(
      const v1::FreezeCutRequest& request);
  absl::StatusOr<v1::SaveCutResponse> DoSave(const v1::SaveCutRequest& request);
  absl::StatusOr<v1::CloseCutResponse> DoClose(
      const v1::CloseCutRequest& request);
  // FailedPrecondition unless the newest cut is `cut`.
  absl::Status CheckNewest(uint64_t cut) const;
  // A part is written into the folder of this server's own checkpoints alone.
  absl::Status CheckFolder(const v1::SaveCutRequest& request) const;
  // Ends the newest cut, if it has not ended.
  void End(bool current);

  const ServerCutOptions options_;
  TableRegistry* const registry_;
  CutGate* const gate_;
  const Clock& wall_clock_;
  const Clock& clock_;
  ServerLog* log_ = nullptr;
  const std::unique_ptr<storage::CheckpointStore> store_;

  // Of the thread alone.
  PartWriter writer_;
  uint64_t newest_ = 0;
  uint64_t previous_ = 0;
  Stage stage_ = Stage::kNone;
  absl::Time opened_;
  v1::OpenCutResponse opened_response_;
  v1::FreezeCutResponse frozen_response_;
  v1::SaveCutResponse saved_response_;

  mutable absl::Mutex mutex_;
  CutCounters stats_ ABSL_GUARDED_BY(mutex_);
  std::deque<Task> tasks_ ABSL_GUARDED_BY(mutex_);
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace oarlock::pserver

#endif  // OARLOCK_PSERVER_CHECKPOINT_SERVER_CUT_H_
