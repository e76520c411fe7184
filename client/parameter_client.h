// A worker's client of the parameter servers. One implementation reaches any
// number of them over gRPC (grpc_parameter_client.h). A local run has another,
// which does the servers' work in the same process (fleet/local_cluster.h).

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

// Up to where a worker has seen what others changed in a geo table. By server:
// the server's incarnation and a position in its changes. Empty at first.
struct ChangeMarks {
  struct Mark {
    uint64_t server_generation = 0;
    uint64_t position = 0;
  };
  std::vector<Mark> servers;
};

struct ChangedRows {
  // Keys whose rows others have pushed to; a key may occur twice.
  std::vector<Key> keys;
  // Some server no longer has these changes: any row may have changed.
  bool any = false;
  // Pushes that the table had applied, at least those whose keys are listed.
  TableVersions versions;
};

// A copy of a dense table. Blocks that did not change since `block_versions`
// are not sent again. A version belongs to one incarnation of a server
// (base/dense_version.h), so a restarted server sends all blocks.
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
  // [keys] each, or null. A table with statistics adds them to those of its
  // rows.
  const float* shows = nullptr;
  const float* clicks = nullptr;
  // The caller has looked: all of these are finite.
  bool known_finite = false;
};

// Gradients of a whole dense table.
struct DenseGradients {
  TableId table;
  // Null: none, which only a push of a round may have.
  const float* gradients = nullptr;
  // Number of steps whose gradients are summed up.
  uint32_t num_steps = 1;
  // Receives the parameters as they are after this push, when the push is done.
  // Null: not needed. Saves the pull that would follow.
  DenseReplica* updated = nullptr;
  // By block, the versions that the gradients were computed from, for a table
  // with a staleness_power. Empty: not known.
  absl::Span<const uint64_t> known_versions = {};
  // As above.
  bool known_finite = false;
};

// One push: whatever tables it touches, it has one name and is applied once.
struct PushRequest {
  std::vector<SparseGradients> sparse;
  std::vector<DenseGradients> dense;
  // The examples whose gradients of rows the push carries.
  std::vector<data::ExampleRange> examples;
  // The examples whose gradients of dense parameters it carries: those of all
  // steps since the exchange before. The same as `examples` in a job without
  // dense parameters. Sync mode: empty.
  std::vector<data::ExampleRange> dense_examples;
  uint32_t epoch = 0;
  // Sync mode: the round to which the push contributes, from 1. 0: no rounds.
  uint64_t round = 0;
  // The push belongs after this cut. 0: before the first cut, and in sync mode,
  // where rounds decide it.
  uint64_t cut = 0;
  // The push of a dead worker that is completed here under its name. That
  // worker may have sent some messages of it. Not set: the push is the sender's
  // own. REQUIRES: round == 0.
  std::optional<PushStamp> completes;
};

// Thread-safe. Calls return at once. `done` is called once, from a thread of
// the client, and must not block. `memory` keeps everything alive that the call
// points to. The caller and gRPC's send buffers share it; the buffers may
// outlive a failed call. The call itself lets go of it before `done` is called.
//
// REQUIRES of all calls that name a table: this client has created it.
class ParameterClient {
 public:
  using Done = absl::AnyInvocable<void(absl::Status)>;
  // Gets the newest cut that responses have named. Must not block.
  using CutObserver = std::function<void(uint64_t cut)>;

  virtual ~ParameterClient() = default;

  // Creates this job's table on all servers, or makes sure that it is the
  // same as theirs. Blocks. AlreadyExists when it differs.
  virtual absl::Status CreateTable(const v1::TableConfig& config) = 0;

  // `observer` is called whenever the number grows, from any thread; an earlier
  // observer is not called any more. Null: none. It is never called where there
  // are no cuts.
  virtual void SetCutObserver(CutObserver observer) = 0;

  // Whether calls cost no more than the copies that they make.
  virtual bool in_process() const { return false; }

  // Partitions of every table are 2^partition_bits; for KeyBatch::Build.
  virtual int partition_bits() const = 0;

  // Fills `rows`, [keys, dim], and `versions` (null: not needed).
  virtual void PullSparse(TableId table, const KeyBatch& keys, float* rows,
                          TableVersions* versions,
                          std::shared_ptr<const void> memory, Done done) = 0;

  // The same for rows that are not needed yet. They may wait for the next push,
  // which saves a message, or for Flush(memory).
  virtual void EnqueuePullSparse(TableId table, const KeyBatch& keys,
                                 float* rows, TableVersions* versions,
                                 std::shared_ptr<const void> memory,
                                 Done done) {
    PullSparse(table, keys, rows, versions, std::move(memory), std::move(done));
  }
  // The rows that were enqueued with this memory are needed now.
  virtual void Flush(const void* memory) {}

  // Brings `replica` up to date; an empty one is filled.
  virtual void PullDense(TableId table, DenseReplica* replica,
                         std::shared_ptr<const void> memory, Done done) = 0;

  // Geo mode: returns what other workers have changed since `marks`, and
  // advances `marks`. A pull that is made after the response sees all of these
  // changes. Blocks. Errors are those of the servers; Unimplemented where there
  // is no geo mode.
  virtual absl::StatusOr<ChangedRows> ListChanges(TableId table,
                                                  ChangeMarks* marks) {
    return absl::UnimplementedError("this client lists no changes");
  }

  // `versions` (null: not needed) belong to the first sparse table.
  virtual void Push(const PushRequest& push, TableVersions* versions,
                    std::shared_ptr<const void> memory, Done done) = 0;
};

}  // namespace oarlock::client

#endif  // OARLOCK_CLIENT_PARAMETER_CLIENT_H_
