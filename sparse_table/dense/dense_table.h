// A dense table's share of one server: those blocks of the vector that the
// partition map gives it, each with its version, optimizer state and push
// windows.

#ifndef OARLOCK_SPARSE_TABLE_DENSE_DENSE_TABLE_H_
#define OARLOCK_SPARSE_TABLE_DENSE_DENSE_TABLE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/push_stamp.h"
#include "base/types.h"
#include "cluster/partition_map.h"
#include "proto/v1/checkpoint.pb.h"
#include "proto/v1/table.pb.h"

namespace oarlock::sparse_table {

// A block as a cut found it.
struct DenseBlockCut {
  v1::DenseBlockState state;
  // Values, then optimizer state. Empty when the block has not changed since
  // the cut that state.base_cut names, whose floats are these.
  std::vector<float> floats;
};

// Thread-safe: one lock per block, shared by pulls.
//
// A cut: Freeze, SaveBlock for every block of this server, Thaw; pulls and
// pushes go on all the while. Invariants:
// 1. What SaveBlock gives is the block at the instant of Freeze.
// 2. A push to a frozen block that is not saved yet sets the block aside
//    first, once, and so does forgetting a worker that has pushed to it; the
//    copy is gone when it is saved. Nothing else is copied, so a cut takes at
//    most the table's memory once more, and while nobody pushes none.
// 3. A version is never used twice, in no incarnation of the server: see
//    base/dense_version.h.
class DenseTable {
 public:
  // Floats in a block: one must fit into a message.
  static constexpr uint32_t kMaxBlockFloats = 4u << 20;
  // Blocks in a table: as many as a message may name.
  static constexpr uint32_t kMaxBlocks = 65536;

  // Initial values come from (seed, table, position): the same on any number
  // of servers. Without parameters all are zero. Versions count from
  // `first_version`. InvalidArgument when `config` is not that of a dense
  // table, a limit above is exceeded, or the parameters do not cover the
  // vector.
  static absl::StatusOr<std::unique_ptr<DenseTable>> Create(
      const v1::TableConfig& config, const cluster::PartitionMap& map,
      ServerIndex server, uint64_t first_version = 1);

  virtual ~DenseTable() = default;

  // Blocks of the whole vector, on all servers.
  virtual uint32_t num_blocks() const = 0;
  // Floats in a block: block_size, less in the last.
  virtual size_t BlockSize(BlockIndex block) const = 0;
  // Whether this server holds it.
  virtual bool Owns(BlockIndex block) const = 0;

  // Copies the block to `values` ([BlockSize(block)]) unless its version is
  // `known_version`; returns its version, which is never 0.
  // REQUIRES: Owns(block).
  virtual uint64_t Pull(BlockIndex block, uint64_t known_version,
                        float* values) const = 0;

  // Applies the update rule once to gradients [BlockSize(block)], unless the
  // block has applied all of `stamps`; false in that case. Afterwards it has
  // applied them all. `num_steps`: how many steps' gradients these are, summed,
  // at least 1; the learning rate warms up by steps. `known_version`: the
  // block's when they were computed, for staleness_power; 0: not known.
  // REQUIRES: Owns(block), sequences of at least 1.
  virtual bool Push(BlockIndex block, const float* gradients,
                    absl::Span<const PushStamp> stamps, uint32_t num_steps = 1,
                    uint64_t known_version = 0) = 0;

  // As Push, but the gradients are only added to what the block holds. Such a
  // push counts as applied; values and version do not know it until ApplyHeld,
  // or a Freeze, whose cut has it.
  // REQUIRES: Owns(block), a sequence of at least 1.
  virtual bool Hold(BlockIndex block, const float* gradients,
                    const PushStamp& stamp, uint32_t num_steps) = 0;
  // In every block that holds something: one update by its sum.
  virtual void ApplyHeld() = 0;

  virtual bool HasApplied(BlockIndex block, const PushStamp& stamp) const = 0;
  // Forgets which pushes of the worker's incarnations up to `last` have been
  // applied. The caller sees to it that no such push comes any more.
  virtual void ForgetWorker(WorkerIndex worker, Generation last) = 0;

  // Cut `cut` is now, for all blocks of this server: one lock at a time, so
  // the caller sees to it that no push runs that is to be wholly on one side.
  // REQUIRES: not frozen; cut at least 1, above all that were published.
  virtual void Freeze(uint64_t cut) = 0;
  // The block at the freeze. With `full` the floats are there in any case. Its
  // digest is XXH3-64 of block index and steps (8 bytes each, little endian)
  // and all floats. Different blocks may be saved at once.
  // REQUIRES: Owns(block), frozen, not saved since the freeze.
  virtual DenseBlockCut SaveBlock(BlockIndex block, bool full) = 0;
  // The cut is over. `published`: all that SaveBlock gave is on disk for good,
  // and later cuts may refer to it.
  // REQUIRES: frozen; if published, every block was saved.
  virtual void Thaw(bool published) = 0;

  // Makes the block what SaveBlock gave, with floats. It gets the table's first
  // version, and the next cut saves it as changed. DataLoss, the block
  // untouched, when the floats are of another size or digest or the windows are
  // none. For a table that nobody has pushed to.
  // REQUIRES: Owns(block), not frozen.
  virtual absl::Status RestoreBlock(BlockIndex block,
                                    const v1::DenseBlockState& state,
                                    absl::Span<const float> floats) = 0;

  // Memory of values and optimizer state.
  virtual uint64_t bytes() const = 0;
  virtual uint32_t num_owned_blocks() const = 0;
  virtual const v1::TableConfig& config() const = 0;
  // Goes on under another configuration, which says the same of what blocks
  // hold. InvalidArgument for one that is none. Pushes that run go by the old
  // one; what config() gave stays valid.
  virtual absl::Status Reconfigure(const v1::TableConfig& config) = 0;
};

}  // namespace oarlock::sparse_table

#endif  // OARLOCK_SPARSE_TABLE_DENSE_DENSE_TABLE_H_
