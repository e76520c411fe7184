// How a batch of keys or a dense table is cut into messages.

#ifndef OARLOCK_CLIENT_SPLIT_MESSAGES_H_
#define OARLOCK_CLIENT_SPLIT_MESSAGES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/types.h"
#include "client/key_batch.h"
#include "cluster/partition_map.h"
#include "proto/v1/table.pb.h"

namespace oarlock::client {

// A message carries at most about this many bytes of arrays: larger ones slow
// a connection down (HTTP/2 flow control), so batches are split.
inline constexpr size_t kMessageBytesTarget = size_t{1} << 20;

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

  std::vector<BlockIndex> blocks() const;
  size_t num_values(const v1::DenseTableConfig& dense) const;
};

// Cut where the server changes, and at about kMessageBytesTarget.
std::vector<GroupRun> SplitGroups(const cluster::PartitionMap& map,
                                  const KeyBatch& keys, size_t bytes_per_key);
std::vector<BlockRun> SplitBlocks(const cluster::PartitionMap& map,
                                  const v1::DenseTableConfig& dense,
                                  size_t bytes_per_value);

uint32_t NumBlocks(const v1::DenseTableConfig& dense);
// The first float of a block; the table's size for the block after the last.
size_t BlockOffset(const v1::DenseTableConfig& dense, uint32_t block);

}  // namespace oarlock::client

#endif  // OARLOCK_CLIENT_SPLIT_MESSAGES_H_
