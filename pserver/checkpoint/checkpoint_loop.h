// The thread of server 0 that makes checkpoints: by the clock and by command.
// It opens a cut, has every server freeze and write its part, and publishes
// the whole with a manifest (docs/design/0009-checkpoints.md).

#ifndef OARLOCK_PSERVER_CHECKPOINT_CHECKPOINT_LOOP_H_
#define OARLOCK_PSERVER_CHECKPOINT_CHECKPOINT_LOOP_H_

#include <grpcpp/channel.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/types.h"
#include "cluster/partition_map.h"
#include "coordinator/coordinator.h"
#include "proto/v1/checkpoint.grpc.pb.h"
#include "proto/v1/coordinator_job.pb.h"
#include "pserver/table/table_registry.h"
#include "storage/checkpoint_dir.h"

namespace oarlock::pserver {

struct CheckpointLoopOptions {
  std::string job_id;
  // The folder of checkpoints, that all servers see.
  std::string directory;
  std::string token;
  // Between the ends of two checkpoints; 0: by command alone.
  absl::Duration interval = absl::ZeroDuration();
  // Checkpoints that stay; at least 1.
  uint32_t keep = 2;
  // How long pushes may be held until all workers have marked a cut.
  absl::Duration mark_timeout = absl::Seconds(20);
  // Of a call that does not write.
  absl::Duration call_timeout = absl::Seconds(15);
  absl::Duration save_timeout = absl::Hours(1);
  // How long a checkpoint is tried again when what goes away by itself is in
  // its way: a dead worker that is being recovered, a table that is being
  // created.
  absl::Duration obstacle_timeout = absl::Seconds(60);
  // Called with the folder of each checkpoint that has become current; must
  // return at once. Null: nobody wants to know.
  std::function<void(const std::string& folder)> on_current = {};
};

// Thread-safe.
class CheckpointLoop {
 public:
  using Done =
      absl::AnyInvocable<void(const absl::StatusOr<v1::CheckpointResponse>&)>;
  // Commands that wait; more are ResourceExhausted.
  static constexpr size_t kMaxWaiting = 16;
  // From one that failed to the next that nobody asked for.
  static constexpr absl::Duration kPauseAfterFailure = absl::Seconds(5);
  // From one that had such an obstacle to the next.
  static constexpr absl::Duration kPauseForObstacle = absl::Milliseconds(200);
  // How often a call is made to a server that cannot be reached, before the
  // checkpoint fails: within half a second, for pushes are held meanwhile.
  static constexpr int kCallAttempts = 6;

  // `channels`: to every server, by index, this one included. What is given
  // outlives this, and so do the clocks.
  static absl::StatusOr<std::unique_ptr<CheckpointLoop>> Create(
      const CheckpointLoopOptions& options, const cluster::PartitionMap* map,
      coordinator::Coordinator* coordinator, TableRegistry* registry,
      const std::vector<std::shared_ptr<grpc::Channel>>& channels,
      const Clocks& clocks);
  // Stops.
  ~CheckpointLoop();

  CheckpointLoop(const CheckpointLoop&) = delete;
  CheckpointLoop& operator=(const CheckpointLoop&) = delete;

  // A cut that the coordinator's predecessor left open is over first.
  void Start();
  // Makes a checkpoint that begins after this call and tells `done`, from this
  // thread or the loop's. Unavailable when it failed for a reason that may
  // go away, or the loop ends first. While a partly applied push of a dead
  // worker is completed, or a table is created, it waits, at most
  // `obstacle_timeout`. `best`: it is the one that CheckpointDir::MarkBest
  // keeps.
  void Make(Done done, bool best = false);
  // The last checkpoint that is current, 0: none.
  uint64_t current() const;
  // How long the last one that was made took, 0: none; how many failed.
  absl::Duration last_time() const {
    absl::MutexLock lock(&mutex_);
    return last_time_;
  }
  uint64_t num_failed() const {
    absl::MutexLock lock(&mutex_);
    return num_failed_;
  }
  // Ends the loop after the checkpoint that is being made, whose calls are
  // cancelled. Idempotent.
  void Stop();

 private:
  CheckpointLoop(const CheckpointLoopOptions& options,
                 const cluster::PartitionMap* map,
                 coordinator::Coordinator* coordinator, TableRegistry* registry,
                 storage::CheckpointDir dir, const Clocks& clocks);

  struct Command {
    Done done;
    bool best = false;
  };

  void Run();
  // Tries again while that helps.
  absl::StatusOr<v1::CheckpointResponse> MakeOne(bool best);
  // `try_again`: it failed for what goes away by itself.
  absl::StatusOr<v1::CheckpointResponse> TryOne(bool best, bool* try_again);
  // Tells all that the open cut is over.
  void Close(uint64_t cut, bool published);
  // From the open cut to the checkpoint that is current.
  absl::Status Publish(uint64_t cut, v1::CheckpointResponse* response,
                       bool* try_again);
  // Sync: `round` is the one that ends the cut.
  absl::Status OpenAndFreeze(uint64_t cut, uint64_t* round,
                             v1::CheckpointResponse* result, bool* try_again);
  absl::Status AwaitMarks(bool* try_again);
  absl::StatusOr<v1::CheckpointManifest> Save(uint64_t cut, uint64_t round,
                                              const std::string& folder);

  // Calls all servers at once; returns the first failure, naming the
  // server.
  template <typename Request, typename Response>
  absl::Status CallAll(grpc::Status (v1::CheckpointService::Stub::*method)(
                           grpc::ClientContext*, const Request&, Response*),
                       const Request& request, absl::Duration timeout,
                       std::vector<Response>* responses);
  // Calls one server, again when the request or the response was lost.
  absl::Status CallOne(
      absl::FunctionRef<grpc::Status(grpc::ClientContext*)> call,
      absl::Time deadline);

  const CheckpointLoopOptions options_;
  const cluster::PartitionMap& map_;
  coordinator::Coordinator* const coordinator_;
  TableRegistry* const registry_;
  const Clock& wall_clock_;
  const Clock& clock_;
  std::vector<std::unique_ptr<v1::CheckpointService::Stub>> stubs_;

  // Of the loop's thread alone.
  storage::CheckpointDir dir_;

  mutable absl::Mutex mutex_;
  std::deque<Command> commands_ ABSL_GUARDED_BY(mutex_);
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t current_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Duration last_time_ ABSL_GUARDED_BY(mutex_);
  uint64_t num_failed_ ABSL_GUARDED_BY(mutex_) = 0;
  // Calls under way, for Stop to cancel.
  std::vector<grpc::ClientContext*> calls_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace oarlock::pserver

#endif  // OARLOCK_PSERVER_CHECKPOINT_CHECKPOINT_LOOP_H_
