// What a worker asks of the parameter servers. One implementation speaks gRPC
// to any number of them (grpc_parameter_client.h); a local run is served by
// one in the same process (fleet/local_cluster.h).

#ifndef OARLOCK_CLIENT_PARAMETER_CLIENT_H_
#define OARLOCK_CLIENT_PARAMETER_CLIENT_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/push_stamp.h"
#include "base/types.h"
#include "client/key_batch.h"
#include "data/batch.h"
#include "proto/v1/table.pb.h"

namespace oarlock::client {

// Versions of a table, one per server: how many pushes it had applied.
using TableVersions = std::vector<uint64_t>;

// How far a worker knows what others have changed of a geo table, by server:
// the server's incarnation and a position in it. Empty at first.
struct ChangeMarks {
  struct Mark {
    uint64_t server_generation = 0;
    uint64_t position = 0;
  };
  std::vector<Mark> servers;
};

struct ChangedRows {
  // Keys whose rows others have pushed to; one may be there twice.
  std::vector<Key> keys;
  // Some server no longer knows: any row may have changed.
  bool any = false;
  // At least the changes that are told.
  TableVersions versions;
};

// A copy of a dense table. Blocks that did not change since `block_versions`
// are not sent again; a version belongs to one incarnation of a server
// (base/dense_version.h), so a restarted one sends all.
struct DenseReplica {
  std::vector<float> values;
  std::vector<uint64_t> block_versions;
};

// Gradients of the rows of one sparse table.
struct SparseGradients {
  TableId table;
  const KeyBatch* keys = nullptr;
  // [keys, dim], in the order of the key batch.
  const float* gradients = nullptr;
  // [keys] each or null: what a table with statistics adds to its rows'.
  const float* shows = nullptr;
  const float* clicks = nullptr;
};

// Gradients of a whole dense table.
struct DenseGradients {
  TableId table;
  const float* gradients = nullptr;
  // Steps summed into them.
  uint32_t num_steps = 1;
  // Where the parameters go as they are after this push, when it is done; null:
  // not wanted. Saves the pull that would follow.
  DenseReplica* updated = nullptr;
  // By block, the versions that the gradients were computed from, for a table
  // with a staleness_power. Empty: not known.
  absl::Span<const uint64_t> known_versions = {};
};

// One push: whatever tables it touches, it has one name and is applied once.
struct PushRequest {
  std::vector<SparseGradients> sparse;
  std::vector<DenseGradients> dense;
  // The examples whose gradients of rows these are.
  std::vector<data::ExampleRange> examples;
  // Those whose gradients of dense parameters they are: of all steps since the
  // exchange before. The same in a job without dense parameters. Sync mode:
  // empty.
  std::vector<data::ExampleRange> dense_examples;
  uint32_t epoch = 0;
  // Sync mode: the round it contributes to, from 1. 0: no rounds.
  uint64_t round = 0;
  // The cut that it belongs after; 0 before the first, and in sync mode, where
  // rounds tell.
  uint64_t cut = 0;
  // The push of a worker that is gone and may have made some messages of it,
  // which is completed here under its name; not set: the push is the sender's
  // own. REQUIRES: round == 0.
  std::optional<PushStamp> completes;
};

// Thread-safe. Calls return at once; `done` is called once, from a thread of
// the client, and must not block. `memory` keeps everything that the call
// points to alive: shared by the caller and by gRPC's send buffers, which may
// outlive a failed call.
class ParameterClient {
 public:
  using Done = absl::AnyInvocable<void(absl::Status)>;
  // Told the newest cut that responses have named. Must not block.
  using CutObserver = std::function<void(uint64_t cut)>;

  virtual ~ParameterClient() = default;

  // Creates this job's table on all servers, or makes sure that it is the
  // same as theirs. Blocks. AlreadyExists when it differs.
  virtual absl::Status CreateTable(const v1::TableConfig& config) = 0;

  // `observer` is called whenever the number grows, from any thread; the one
  // before it is not called any more. Null: nobody. Where there are no cuts it
  // is never called.
  virtual void SetCutObserver(CutObserver observer) = 0;

  // Whether calls cost no more than the copies that they make.
  virtual bool in_process() const { return false; }

  // Partitions of every table are 2^partition_bits; for KeyBatch::Build.
  virtual int partition_bits() const = 0;

  // Fills `rows`, [keys, dim], and `versions` (null: not wanted).
  virtual void PullSparse(TableId table, const KeyBatch& keys, float* rows,
                          TableVersions* versions,
                          std::shared_ptr<const void> memory, Done done) = 0;

  // The same for rows that are not needed yet: they may wait for the next push,
  // which saves a message, or for Flush(memory).
  virtual void EnqueuePullSparse(TableId table, const KeyBatch& keys,
                                 float* rows, TableVersions* versions,
                                 std::shared_ptr<const void> memory,
                                 Done done) {
    PullSparse(table, keys, rows, versions, std::move(memory), std::move(done));
  }
  // Whatever was asked for with this memory is now needed.
  virtual void Flush(const void* memory) {}

  // Brings `replica` up to date; an empty one is filled.
  virtual void PullDense(TableId table, DenseReplica* replica,
                         std::shared_ptr<const void> memory, Done done) = 0;

  // Geo mode: what other workers have changed since `marks`, which are moved
  // on; a pull that is made after the response sees all of it. Blocks. Errors
  // are those of the servers; Unimplemented where there is no geo mode.
  virtual absl::StatusOr<ChangedRows> ListChanges(TableId table,
                                                  ChangeMarks* marks) {
    return absl::UnimplementedError("this client lists no changes");
  }

  // `versions` (null: not wanted) belong to the first sparse table.
  virtual void Push(const PushRequest& push, TableVersions* versions,
                    std::shared_ptr<const void> memory, Done done) = 0;
};

}  // namespace oarlock::client

#endif  // OARLOCK_CLIENT_PARAMETER_CLIENT_H_
