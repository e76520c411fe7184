// The parameter client that speaks gRPC to the servers of a job.
//
// Servers may be restarted under way. Requests say which incarnation they are
// meant for; when another one answers, the client connects to it, creates the
// tables that it may lack, and sends again what is not acknowledged, pushes
// under the sequences that they had.

#ifndef OARLOCK_CLIENT_GRPC_PARAMETER_CLIENT_H_
#define OARLOCK_CLIENT_GRPC_PARAMETER_CLIENT_H_

#include <grpcpp/support/byte_buffer.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/btree_map.h"
#include "absl/synchronization/mutex.h"
#include "base/types.h"
#include "client/acknowledged_pushes.h"
#include "client/completion_thread.h"
#include "client/data_plane.h"
#include "client/messages/frame_messages.h"
#include "client/messages/split_messages.h"
#include "client/newest_cut.h"
#include "client/parameter_client.h"
#include "client/server_connections.h"
#include "proto/v1/parameter.pb.h"
#include "proto/v1/server_admin.pb.h"

namespace oarlock::client {

class GrpcParameterClient : public ParameterClient {
 public:
  // A push gets a sequence at most this far above the oldest one that is not
  // acknowledged; later pushes wait. What is older than that counts as applied
  // at the servers (base/push_window.h).
  static constexpr uint64_t kMaxSequencesAhead = 63;

  // `connections` outlives this. A worker pushes under its generation; a
  // reader (generation 0) only pulls.
  // Null `completions`: it has a queue of its own; else that outlives this.
  GrpcParameterClient(const ServerConnections* connections,
                      WorkerIndex worker_index, Generation worker_generation,
                      const ValueFormats& formats = {},
                      CompletionThread* completions = nullptr);

  absl::Status CreateTable(const v1::TableConfig& config) override;
  // The run that this worker is of: its tables are made as those of that run.
  // 0: not known.
  void SetRun(uint64_t run) { run_ = run; }
  // For readers, who change nothing: the table is there and has this shape.
  void UseTable(const v1::TableConfig& config);
  void SetCutObserver(CutObserver observer) override {
    newest_cut_.SetObserver(std::move(observer));
  }
  int partition_bits() const override;
  void PullSparse(TableId table, const KeyBatch& keys, float* rows,
                  TableVersions* versions, std::shared_ptr<const void> memory,
                  Done done) override;
  void EnqueuePullSparse(TableId table, const KeyBatch& keys, float* rows,
                         TableVersions* versions,
                         std::shared_ptr<const void> memory,
                         Done done) override;
  void Flush(const void* memory) override { data_plane_.Flush(memory); }
  // The pulls with this memory end with Cancelled, soon, if they travel alone.
  void Cancel(const void* memory) { data_plane_.Cancel(memory); }
  void PullDense(TableId table, DenseReplica* replica,
                 std::shared_ptr<const void> memory, Done done) override;
  absl::StatusOr<ChangedRows> ListChanges(TableId table,
                                          ChangeMarks* marks) override;
  void Push(const PushRequest& push, TableVersions* versions,
            std::shared_ptr<const void> memory, Done done) override;

 private:
  // A message of a push.
  struct PushMessage {
    const SparseGradients* sparse = nullptr;
    const DenseGradients* dense = nullptr;
    GroupRun groups;
    BlockRun blocks;
    // Messages of the push that go to its server for its table.
    uint32_t table_messages = 0;

    ServerIndex server() const {
      return sparse != nullptr ? groups.server : blocks.server;
    }
  };
  // A push and what it is made of; shared by its calls.
  struct PushUnderWay {
    // What `messages` points into.
    PushRequest request;
    std::vector<PushMessage> messages;
    TableVersions* versions = nullptr;
    std::shared_ptr<const void> memory;
    Done done;
    // The partition map's, by which it was split.
    uint64_t routing_generation = 0;
    // 0 while it waits for its turn.
    uint64_t sequence = 0;
    // The smallest sequence that was not answered when it got its own.
    uint64_t oldest_unanswered = 0;

    uint32_t NumMessagesTo(ServerIndex server) const {
      return std::count_if(
          messages.begin(), messages.end(),
          [&](const PushMessage& m) { return m.server() == server; });
    }
  };
  class Operation;

  const v1::TableConfig& TableOf(TableId table) const;
  // Whether calls are queued for a batch.
  enum class When { kNow, kQueued };
  void PullSparse(TableId table, const KeyBatch& keys, float* rows,
                  TableVersions* versions,
                  const std::shared_ptr<const void>& memory, Done done,
                  When when);
  // For that incarnation of the server.
  v1::RequestHeader HeaderFor(Generation server_generation) const;
  std::vector<PushMessage> SplitPush(const PushRequest& push) const;
  // Sends a push that has its sequence.
  void SendPush(const std::shared_ptr<PushUnderWay>& push);
  void OnPushDone(PushUnderWay* push, absl::Status status);
  // Gives a push its sequence if it is its turn.
  bool TakeSequence(PushUnderWay* push) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // `done` is called with the outcome when the response, if there is one, has
  // been taken: into the push's versions, or the replica of the message.
  DataPlane::Call CallOf(const std::shared_ptr<PushUnderWay>& push,
                         size_t message_index, Done done);
  grpc::ByteBuffer FramePush(const PushUnderWay& push, size_t message_index,
                             Generation server_generation) const;
  absl::Status CreateTable(ServerIndex server, const v1::TableConfig& config,
                           absl::Duration give_up_after);
  // Adds what that server tells to `changes`.
  absl::Status ListChanges(ServerIndex server, TableId table,
                           ChangeMarks::Mark* mark, ChangedRows* changes);
  // Another incarnation of the server answers. DataLoss when it lacks pushes
  // that were acknowledged to this worker and the job does not accept that.
  absl::Status OnReturn(ServerIndex server,
                        const v1::ConnectResponse& response);

  const ServerConnections* const connections_;
  const WorkerIndex worker_index_;
  const Generation worker_generation_;
  const ValueFormats formats_;
  uint64_t run_ = 0;

  mutable absl::Mutex mutex_;
  // Entries stay as they are once they are there.
  absl::btree_map<TableId, std::unique_ptr<const v1::TableConfig>> tables_
      ABSL_GUARDED_BY(mutex_);
  // The sequence that the last push got.
  uint64_t last_sequence_ ABSL_GUARDED_BY(mutex_) = 0;
  // Sequences of pushes that are not answered OK. One that failed stays.
  std::set<uint64_t> unacknowledged_ ABSL_GUARDED_BY(mutex_);
  // Why the first of those that failed did.
  absl::Status push_failure_ ABSL_GUARDED_BY(mutex_);
  // Pushes without a sequence yet.
  std::deque<std::shared_ptr<PushUnderWay>> waiting_ ABSL_GUARDED_BY(mutex_);

  NewestCut newest_cut_;
  AcknowledgedPushes acknowledged_;

  // Last: their threads run callbacks into the rest. The first is null where
  // the queue is another's.
  const std::unique_ptr<CompletionThread> own_completions_;
  DataPlane data_plane_;
};

}  // namespace oarlock::client

#endif  // OARLOCK_CLIENT_GRPC_PARAMETER_CLIENT_H_
