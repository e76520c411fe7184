// What tables must be after a history of pushes: plain maps and vectors to
// which the update rules are applied one push, one row after the other, by the
// rules' own loops. Those are the definition of a rule; the server's vector
// code promises their bits (optim/rules.h).
//
// Nothing here knows partitions under locks, tiers, cuts, logs or windows: what
// those do must not be seen in rows.

#ifndef OARLOCK_TESTS_STRESS_TABLE_MODEL_H_
#define OARLOCK_TESTS_STRESS_TABLE_MODEL_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "base/key_group.h"
#include "base/types.h"
#include "optim/rules.h"
#include "proto/v1/parameter.pb.h"
#include "proto/v1/table.pb.h"
#include "sparse_table/rules/count_sketch.h"
#include "sparse_table/rules/row_rules.h"

namespace oarlock {

// What arrives of values that travel in this format.
std::vector<float> AsOnTheWire(v1::ValueFormat format,
                               absl::Span<const float> values);

// What a push does to one sparse table. Arrays as in SparseGradients.
struct ModelPush {
  absl::Span<const KeyGroup> groups;
  absl::Span<const Key> keys;
  const float* gradients = nullptr;
  const float* shows = nullptr;
  const float* clicks = nullptr;
};

struct ModelRow {
  // Number of the partition's push that was the row's last.
  uint64_t version = 0;
  bool extended = false;
  float show = 0;
  float click = 0;
  // Embedding part, extended part.
  std::vector<float> values;
  // Optimizer state, of the same.
  std::vector<float> state;
};

// Rows of a sparse table, all or those that one pusher has to itself.
class SparseModel {
 public:
  SparseModel(const v1::TableConfig& config, int partition_bits);

  void Apply(const ModelPush& push);

  const std::map<Key, ModelRow>& rows() const { return rows_; }
  // Pushes that named the partition.
  uint64_t num_pushes(PartitionIndex partition) const {
    return partitions_[partition.value()].num_pushes;
  }
  // What a pull returns: [dim].
  std::vector<float> Pull(Key key) const;
  // The row as it lies in a checkpoint (sparse_table/rows/packed_rows.h) from
  // its key on.
  std::vector<std::byte> Pack(Key key, const ModelRow& row) const;

 private:
  struct Partition {
    uint64_t num_pushes = 0;
    // Null where every key is admitted.
    std::unique_ptr<sparse_table::CountSketch> sketch;
  };

  void Apply(Partition* partition, const ModelPush& push, size_t index);
  ModelRow NewRow(Key key) const;
  void CreateExtended(Key key, ModelRow* row) const;
  size_t dim() const { return rules_.layout().dim(); }
  size_t embedding_state() const {
    return rules_.rule().StateSize(rules_.embedding_dim());
  }

  const sparse_table::RowRules rules_;
  // The same table with extended parts from the start: how they begin.
  const sparse_table::RowRules extended_rules_;
  std::vector<Partition> partitions_;
  std::map<Key, ModelRow> rows_;
};

// A dense table: of each block its values and their optimizer state.
class DenseModel {
 public:
  struct Block {
    uint64_t steps = 0;
    std::vector<float> values;
    std::vector<float> state;
  };

  explicit DenseModel(const v1::TableConfig& config);

  // Gradients of the whole table, those of `num_steps` steps.
  void Apply(absl::Span<const float> gradients, uint32_t num_steps);

  const std::vector<Block>& blocks() const { return blocks_; }
  // The whole vector.
  std::vector<float> Pull() const;

 private:
  const optim::UpdateRule rule_;
  std::vector<Block> blocks_;
};

}  // namespace oarlock

#endif  // OARLOCK_TESTS_STRESS_TABLE_MODEL_H_
