// A client that is connected: a reader's or a worker's calls to the servers of
// its job, as operations.

#ifndef OARLOCK_CAPI_SESSION_H_
#define OARLOCK_CAPI_SESSION_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "base/types.h"
#include "capi/leases.h"
#include "capi/operation.h"
#include "capi/reuse_pool.h"
#include "capi/step_marks.h"
#include "capi/work_progress.h"
#include "client/completion_thread.h"
#include "client/control_calls.h"
#include "client/grpc_job_client.h"
#include "client/grpc_parameter_client.h"
#include "client/key_batch.h"
#include "client/server_connections.h"
#include "proto/config/client_config.pb.h"
#include "proto/v1/coordinator_ranges.pb.h"
#include "proto/v1/table.pb.h"

namespace oarlock::capi {

using Floats = std::vector<float>;

struct PullTarget {
  TableId table;
  std::shared_ptr<const client::KeyBatch> keys;
  // [keys, dim].
  float* values = nullptr;
  size_t num_values = 0;
};

struct SparseStep {
  TableId table;
  std::shared_ptr<const client::KeyBatch> keys;
  const float* gradients = nullptr;
  size_t num_gradients = 0;
  const float* shows = nullptr;
  const float* clicks = nullptr;
};

struct DenseStep {
  TableId table;
  const float* gradients = nullptr;
  size_t num_gradients = 0;
};

// What one push is made of. Thread-safe.
class Step {
 public:
  // `lease`: of the part that the push is for; 0: none.
  explicit Step(uint64_t lease) : lease_(lease) {}

  uint64_t lease() const { return lease_; }

 private:
  friend class Session;
  // Arrays that were copied, and keys.
  struct Memory {
    std::vector<std::shared_ptr<const client::KeyBatch>> keys;
    std::vector<std::shared_ptr<Floats>> buffers;
  };

  const uint64_t lease_;
  absl::Mutex mutex_;
  // Null once it was pushed.
  std::shared_ptr<Memory> memory_ ABSL_GUARDED_BY(mutex_) =
      std::make_shared<Memory>();
  client::PushRequest push_ ABSL_GUARDED_BY(mutex_);
};

// Thread-safe. An operation that is refused at once is an error of the function
// that begins it; then `operation` is not used.
class Session {
 public:
  using OperationPtr = std::shared_ptr<Operation>;

  // `servers` are connected to. `job` null: a reader.
  Session(std::unique_ptr<client::ServerConnections> servers,
          std::unique_ptr<client::GrpcJobClient> job,
          const client::ValueFormats& formats);
  // Cancels what is under way.
  ~Session();

  bool is_worker() const { return job_ != nullptr; }
  // The distinct ones.
  std::shared_ptr<const client::KeyBatch> MakeKeys(absl::Span<const Key> keys);
  absl::Status Alive() const;
  // Ends calls that block, so that ~Session takes no time.
  void Close() { servers_->Close(); }

  absl::Status CreateTable(v1::TableConfig config, OperationPtr operation);
  absl::Status OpenTable(const std::string& name, OperationPtr operation);

  absl::Status Pull(const std::vector<PullTarget>& targets,
                    OperationPtr operation);
  absl::Status PullDense(TableId table, float* values, size_t num_values,
                         OperationPtr operation);
  // Copy all arrays. A table takes part in a step once.
  absl::Status AddSparse(const SparseStep& sparse, Step* step);
  absl::Status AddDense(const DenseStep& dense, Step* step);
  // Once for each step.
  absl::Status Push(Step* step, OperationPtr operation);

  absl::Status Lease(const v1::LeaseConfig& config, OperationPtr operation);
  absl::Status Barrier(const std::string& name, OperationPtr operation);
  // Labels and predictions of this worker's examples (session_evaluations.cc).
  absl::Status AddPredictions(const WorkId& evaluation,
                              absl::Span<const float> labels,
                              absl::Span<const float> predictions);
  // `path`: "/oarlock.v1.CoordinatorService/Barrier". `to_json` makes the
  // operation's result of the response.
  absl::Status Call(
      ServerIndex server, const std::string& path, std::string request,
      absl::Duration attempt_timeout,
      std::function<absl::StatusOr<std::string>(const std::string&)> to_json,
      OperationPtr operation);

  uint32_t num_servers() const { return servers_->servers().size(); }
  uint32_t worker_index() const;
  uint64_t worker_generation() const;

  // Blocks: takes part in every round from the next one on, or in none any
  // more. JSON: the rounds that are complete.
  absl::StatusOr<std::string> SetRounds(bool joins);
  // Blocks until all workers of the run have called it. JSON: the Evaluation
  // over what all of them have added.
  absl::StatusOr<std::string> SumEvaluation(const WorkId& work);
  struct Leaving {
    // Why it gives up, else OK.
    absl::Status outcome;
    // The run is over for all, and the servers go back to the newest cut.
    bool roll_back = false;
  };
  // Blocks: waits for the pushes under way, tells what is done, and leaves.
  absl::Status Leave(const Leaving& leaving);

 private:
  struct LeaseCall;
  // By which an operation that outlives the session cancels its calls.
  struct CancelWay {
    absl::Mutex mutex;
    // Null once the session ends.
    Session* session ABSL_GUARDED_BY(mutex) = nullptr;
  };

  // At least so many; what an earlier use wrote is in it.
  std::shared_ptr<Floats> TakeBuffer(size_t num_floats);
  // "table 'rows' (1025)".
  static std::string DescribeTable(const v1::TableConfig& config);
  absl::StatusOr<const v1::TableConfig*> TableOf(TableId table) const;
  absl::StatusOr<const v1::TableConfig*> SparseTableOf(TableId table) const;
  absl::StatusOr<const v1::TableConfig*> DenseTableOf(TableId table) const;
  absl::Status CheckWorker() const;
  void UseTable(const v1::TableConfig& config);
  // Cancelling the operation cancels the call of this number.
  void CancelBy(const OperationPtr& operation, uint64_t number);

  // The present run goes on with this work, or pushes without one (""), before
  // it has gone on with all that the run before has left: FailedPrecondition.
  absl::Status CheckGoesOnWith(const std::string& phase_name)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Sync: a round has every table of the job, and a number.
  absl::Status AddRest(client::PushRequest* push)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Asks until the round of the newest cut is known, or often enough.
  absl::Status LearnRound();
  // Ends a pull or push. What a server says when it has lost pushes, or fences
  // this worker, may have a reason that the coordinator knows: that the servers
  // have gone back to a cut.
  void End(const OperationPtr& operation, const absl::Status& status);
  void OnPushDone(const Part& part, uint64_t lease, uint64_t number,
                  const absl::Status& status);
  // Makes the mark that is due, if there is one.
  void MarkIfDue();
  v1::MarkCutRequest ToRequest(const StepMarks::Mark& mark) const;

  // The next step of a call.
  void ContinueLease(const std::shared_ptr<LeaseCall>& call,
                     absl::Duration delay);
  void OnLeased(const std::shared_ptr<LeaseCall>& call,
                const std::vector<uint64_t>& done,
                const absl::StatusOr<v1::LeaseRangesResponse>& response);
  // The examples that no mark has told, and the parts that are done.
  absl::Status TellRest();

  const std::unique_ptr<client::ServerConnections> servers_;
  // The heartbeats of job_ take from it.
  WorkProgress progress_;
  const std::unique_ptr<client::GrpcJobClient> job_;
  ReusePool<Floats> buffers_;
  ReusePool<client::KeyBatch> key_batches_;
  ReusePool<client::KeyBatch::Scratch> key_scratch_;
  const std::shared_ptr<CancelWay> cancel_way_ = std::make_shared<CancelWay>();

  mutable absl::Mutex mutex_;
  // Entries stay as they are.
  absl::flat_hash_map<TableId, std::unique_ptr<const v1::TableConfig>> tables_
      ABSL_GUARDED_BY(mutex_);
  Leases leases_ ABSL_GUARDED_BY(mutex_);
  // Phase name -> the epoch in headers, of those that are defined.
  absl::flat_hash_map<std::string, uint32_t> epochs_ ABSL_GUARDED_BY(mutex_);
  uint64_t last_lease_request_ ABSL_GUARDED_BY(mutex_) = 0;
  std::set<uint64_t> open_lease_requests_ ABSL_GUARDED_BY(mutex_);
  // Calls that wait until an older request has its response.
  std::vector<std::shared_ptr<LeaseCall>> waiting_leases_
      ABSL_GUARDED_BY(mutex_);
  uint64_t pushes_under_way_ ABSL_GUARDED_BY(mutex_) = 0;
  bool leaving_ ABSL_GUARDED_BY(mutex_) = false;
  // Works that the run before has left in part and this worker has not leased.
  std::set<std::string> unfinished_ ABSL_GUARDED_BY(mutex_);
  bool in_rounds_ ABSL_GUARDED_BY(mutex_) = false;
  std::set<std::string> summed_evaluations_ ABSL_GUARDED_BY(mutex_);
  // The last one that this worker has pushed to.
  uint64_t last_round_ ABSL_GUARDED_BY(mutex_) = 0;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  StepMarks marks_ ABSL_GUARDED_BY(mutex_);

  // Last: their threads call into the rest. Callbacks of the one that ends
  // first may call the other one; those of the other one look at closing_.
  client::CompletionThread completions_;
  const std::unique_ptr<client::ControlCalls> control_;
  const std::unique_ptr<client::GrpcParameterClient> parameters_;
};

}  // namespace oarlock::capi

#endif  // OARLOCK_CAPI_SESSION_H_
