#include "client/messages/split_messages.h"

#include <algorithm>

namespace oarlock::client {

std::vector<BlockIndex> BlockRun::blocks() const {
  std::vector<BlockIndex> blocks;
  for (uint32_t b = block_begin; b < block_end; ++b) {
    blocks.push_back(BlockIndex(b));
  }
  return blocks;
}

size_t BlockRun::num_values(const v1::DenseTableConfig& dense) const {
  return BlockOffset(dense, block_end) - BlockOffset(dense, block_begin);
}

std::vector<GroupRun> SplitGroups(const cluster::PartitionMap& map,
                                  const KeyBatch& keys, size_t bytes_per_key) {
  std::vector<GroupRun> runs;
  size_t key = 0;
  for (size_t g = 0; g < keys.groups().size(); ++g) {
    const KeyGroup& group = keys.groups()[g];
    const ServerIndex owner = map.Owner(group.partition);
    const bool fits = !runs.empty() && runs.back().server == owner &&
                      (runs.back().num_keys + group.num_keys) * bytes_per_key <=
                          kMessageBytesTarget;
    if (!fits) runs.push_back({owner, g, g, key, 0});
    runs.back().group_end = g + 1;
    runs.back().num_keys += group.num_keys;
    key += group.num_keys;
  }
  return runs;
}

std::vector<BlockRun> SplitBlocks(const cluster::PartitionMap& map,
                                  const v1::DenseTableConfig& dense,
                                  size_t bytes_per_value) {
  const uint32_t num_blocks = NumBlocks(dense);
  const uint32_t blocks_per_message = static_cast<uint32_t>(std::max<size_t>(
      1, kMessageBytesTarget / (dense.block_size() * bytes_per_value)));
  std::vector<BlockRun> runs;
  for (uint32_t block = 0; block < num_blocks; ++block) {
    const ServerIndex owner =
        map.Owner(map.PartitionOfBlock(BlockIndex(block), num_blocks));
    const bool fits = !runs.empty() && runs.back().server == owner &&
                      block - runs.back().block_begin < blocks_per_message;
    if (!fits) runs.push_back({owner, block, block});
    runs.back().block_end = block + 1;
  }
  return runs;
}

uint32_t NumBlocks(const v1::DenseTableConfig& dense) {
  return static_cast<uint32_t>((dense.size() + dense.block_size() - 1) /
                               dense.block_size());
}

size_t BlockOffset(const v1::DenseTableConfig& dense, uint32_t block) {
  return std::min<size_t>(size_t{block} * dense.block_size(), dense.size());
}

}  // namespace oarlock::client
