// The parameter client that speaks gRPC to the servers of a job.

#ifndef OARLOCK_WORKER_CLIENT_GRPC_PARAMETER_CLIENT_H_
#define OARLOCK_WORKER_CLIENT_GRPC_PARAMETER_CLIENT_H_

#include <grpcpp/support/slice.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "base/types.h"
#include "proto/parameter.pb.h"
#include "worker/client/data_plane.h"
#include "worker/client/newest_cut.h"
#include "worker/client/parameter_client.h"
#include "worker/client/server_connections.h"

namespace oarlock {

// A message carries at most about this many bytes of arrays: larger ones slow
// a connection down (HTTP/2 flow control), so batches are split.
inline constexpr size_t kMessageBytesTarget = size_t{1} << 20;

// How values travel, those of sparse rows and of dense blocks alike. Callers
// and tables have floats in any case.
struct ValueFormats {
  // Of pulled values, and of those that a push returns.
  v1::ValueFormat pull = v1::FLOAT32;
  // Of pushed gradients.
  v1::ValueFormat push = v1::FLOAT32;
};

class GrpcParameterClient : public ParameterClient {
 public:
  // `connections` outlives this. A worker pushes under its generation; a
  // reader (generation 0) only pulls.
  GrpcParameterClient(const ServerConnections* connections,
                      WorkerIndex worker_index, Generation worker_generation,
                      const ValueFormats& formats = {});

  absl::Status CreateTable(const v1::TableConfig& config) override;
  void SetCutObserver(CutObserver observer) override {
    newest_cut_.SetObserver(std::move(observer));
  }
  int partition_bits() const override;
  void PullSparse(TableId table, const KeyBatch& keys, float* rows,
                  TableVersions* versions, std::shared_ptr<const void> memory,
                  Done done) override;
  void PullSparseLater(TableId table, const KeyBatch& keys, float* rows,
                       TableVersions* versions,
                       std::shared_ptr<const void> memory, Done done) override;
  void Hurry(const void* memory) override { data_plane_.Hurry(memory); }
  void PullDense(TableId table, DenseReplica* replica,
                 std::shared_ptr<const void> memory, Done done) override;
  void Push(const PushRequest& push, TableVersions* versions,
            std::shared_ptr<const void> memory, Done done) override;

 private:
  // A run of groups of a key batch that travels in one message.
  struct GroupRun {
    ServerIndex server;
    size_t group_begin = 0;
    size_t group_end = 0;
    size_t key_begin = 0;
    size_t num_keys = 0;
  };
  // A run of blocks of a dense table that travels in one message.
  struct BlockRun {
    ServerIndex server;
    uint32_t block_begin = 0;
    uint32_t block_end = 0;
  };
  // A message of a push, before it is sent.
  struct PushMessage {
    const SparseGradients* sparse = nullptr;
    const DenseGradients* dense = nullptr;
    GroupRun groups;
    BlockRun blocks;
  };
  class Operation;

  const v1::TableConfig& TableOf(TableId table) const;
  // Whether calls wait for company.
  enum class When { kNow, kLater };
  void PullSparse(TableId table, const KeyBatch& keys, float* rows,
                  TableVersions* versions, std::shared_ptr<const void> memory,
                  Done done, When when);
  v1::RequestHeader HeaderFor(ServerIndex server) const;
  // Cuts the batch at servers' borders and at about kMessageBytesTarget.
  std::vector<GroupRun> SplitGroups(const KeyBatch& keys,
                                    size_t bytes_per_key) const;
  std::vector<BlockRun> SplitBlocks(const v1::DenseTableConfig& dense,
                                    size_t bytes_per_value) const;
  std::vector<PushMessage> SplitPush(const PushRequest& push) const;
  // `done` is called with the outcome when the answer, if there is one, has
  // been taken: into `versions` (may be null), or the replica of the message.
  DataPlane::Call CallOf(const PushMessage& message, grpc::ByteBuffer request,
                         TableVersions* versions,
                         std::shared_ptr<const void> memory, Done done);
  grpc::ByteBuffer EncodePushMessage(
      const PushMessage& message, const v1::RequestHeader& header,
      const std::shared_ptr<const void>& memory) const;

  const ServerConnections* const connections_;
  const WorkerIndex worker_index_;
  const Generation worker_generation_;
  const ValueFormats formats_;

  mutable absl::Mutex mutex_;
  // Entries stay as they are once they are there.
  absl::flat_hash_map<TableId, std::unique_ptr<const v1::TableConfig>> tables_
      ABSL_GUARDED_BY(mutex_);
  // The sequence that the last push got.
  uint64_t last_sequence_ ABSL_GUARDED_BY(mutex_) = 0;

  NewestCut newest_cut_;

  // Last: its thread runs callbacks into the rest.
  DataPlane data_plane_;
};

}  // namespace oarlock

#endif  // OARLOCK_WORKER_CLIENT_GRPC_PARAMETER_CLIENT_H_
