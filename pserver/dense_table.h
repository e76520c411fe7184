// A dense table's share of one server: those blocks of the vector that the
// partition map gives it, each with its version, optimizer state and push
// windows.

#ifndef OARLOCK_PSERVER_DENSE_TABLE_H_
#define OARLOCK_PSERVER_DENSE_TABLE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/push_stamp.h"
#include "base/types.h"
#include "cluster/partition_map.h"
#include "proto/table.pb.h"

namespace oarlock {

// Thread-safe: one lock per block, shared by pulls.
class DenseTable {
 public:
  // Floats in a block: one must fit into a message.
  static constexpr uint32_t kMaxBlockFloats = 4u << 20;
  // Blocks in a table: as many as a message may name.
  static constexpr uint32_t kMaxBlocks = 65536;

  // Initial values come from (seed, table, position): the same on any number
  // of servers. Without parameters all are zero. InvalidArgument when `config`
  // is not that of a dense table, a limit above is exceeded, or the parameters
  // do not cover the vector.
  static absl::StatusOr<std::unique_ptr<DenseTable>> Create(
      const v1::TableConfig& config, const PartitionMap& map,
      ServerIndex server);
  virtual ~DenseTable() = default;

  // Blocks of the whole vector, on all servers.
  virtual uint32_t num_blocks() const = 0;
  // Floats in a block: block_size, less in the last.
  virtual size_t BlockSize(BlockIndex block) const = 0;
  // Whether this server holds it.
  virtual bool Owns(BlockIndex block) const = 0;

  // Copies the block to `values` ([BlockSize(block)]) unless its version is
  // `known_version`; returns its version. Versions start at 1.
  // REQUIRES: Owns(block).
  virtual uint64_t Pull(BlockIndex block, uint64_t known_version,
                        float* values) const = 0;

  // Applies the update rule once to gradients [BlockSize(block)], unless the
  // block has applied all of `stamps`; false in that case. Afterwards it has
  // applied them all. `num_steps`: how many steps' gradients these are, summed,
  // at least 1; the learning rate warms up by steps.
  // REQUIRES: Owns(block), sequences of at least 1.
  virtual bool Push(BlockIndex block, const float* gradients,
                    absl::Span<const PushStamp> stamps,
                    uint32_t num_steps = 1) = 0;

  virtual bool HasApplied(BlockIndex block, const PushStamp& stamp) const = 0;

  // Memory of values and optimizer state.
  virtual uint64_t bytes() const = 0;
  virtual uint32_t num_owned_blocks() const = 0;
  virtual const v1::TableConfig& config() const = 0;
};

}  // namespace oarlock

#endif  // OARLOCK_PSERVER_DENSE_TABLE_H_
