// What the tests of the sparse table share.

#ifndef OARLOCK_TESTS_SPARSE_TABLE_TABLE_TESTING_H_
#define OARLOCK_TESTS_SPARSE_TABLE_TABLE_TESTING_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "base/key_group.h"
#include "base/mix.h"
#include "base/push_stamp.h"
#include "base/types.h"
#include "proto/v1/table.pb.h"
#include "sparse_table/sparse_table.h"

namespace oarlock::sparse_table {

inline v1::TableConfig SparseConfig(uint32_t dim,
                                    const v1::OptimizerConfig& optimizer,
                                    v1::Accessor accessor = v1::PLAIN) {
  v1::TableConfig config;
  config.set_id(3);
  config.set_name("embedding");
  config.set_seed(17);
  *config.mutable_optimizer() = optimizer;
  config.mutable_sparse()->set_dim(dim);
  config.mutable_sparse()->set_accessor(accessor);
  config.mutable_sparse()->mutable_initializer()->set_uniform_range(0.5f);
  return config;
}

inline v1::OptimizerConfig SgdOptimizer(float learning_rate) {
  v1::OptimizerConfig config;
  config.set_learning_rate(learning_rate);
  config.mutable_sgd();
  return config;
}
inline v1::OptimizerConfig AdagradOptimizer() {
  v1::OptimizerConfig config;
  config.set_learning_rate(0.05f);
  config.mutable_adagrad()->set_initial_accumulator(0.1f);
  return config;
}
inline v1::OptimizerConfig AdamOptimizer() {
  v1::OptimizerConfig config;
  config.set_learning_rate(0.01f);
  config.mutable_adam();
  return config;
}

inline v1::OptimizerConfig FtrlOptimizer() {
  v1::OptimizerConfig config;
  config.set_learning_rate(0.1f);
  config.set_l1(0.2f);
  config.mutable_ftrl();
  return config;
}
// A rule that depends on the step, and everything that may stand around it.
inline v1::OptimizerConfig LazyAdamWithOptions() {
  v1::OptimizerConfig config;
  config.set_learning_rate(0.05f);
  config.set_warmup_steps(10);
  config.mutable_lazy_adam();
  config.set_l2(0.01f);
  config.mutable_weight_bounds()->set_lower(-0.4f);
  config.mutable_weight_bounds()->set_upper(0.4f);
  config.mutable_schedule()->mutable_cosine()->set_steps(50);
  return config;
}

// Gives a table a memory budget, and room for `memory_rows` rows of a partition
// in memory; 0: neither.
inline SparseTableOptions WithTiers(size_t memory_rows,
                                    v1::TableConfig* config) {
  SparseTableOptions options;
  options.memory_bytes_max = uint64_t{1} << 30;
  if (memory_rows == 0) return options;
  config->mutable_sparse()->set_memory_budget_bytes(1 << 20);
  static std::atomic<int> num_directories{0};
  options.tier_directory =
      testing::TempDir() + "/tier_" + std::to_string(num_directories++);
  options.partition_memory_rows = memory_rows;
  return options;
}

inline PushStamp Stamp(uint32_t worker, uint64_t generation,
                       uint64_t sequence) {
  return {WorkerIndex(worker), Generation(generation), Sequence(sequence)};
}

// Keys in the order of their partitions, and the groups.
struct GroupedKeys {
  std::vector<Key> keys;
  std::vector<KeyGroup> groups;
};

inline GroupedKeys Grouped(std::vector<Key> keys, int partition_bits) {
  const auto partition = [&](Key key) {
    return PartitionOfMix(Mix(key), partition_bits);
  };
  std::stable_sort(keys.begin(), keys.end(),
                   [&](Key a, Key b) { return partition(a) < partition(b); });
  GroupedKeys grouped;
  for (const Key key : keys) {
    if (grouped.groups.empty() ||
        grouped.groups.back().partition != partition(key)) {
      grouped.groups.push_back({partition(key), 0});
    }
    ++grouped.groups.back().num_keys;
  }
  grouped.keys = std::move(keys);
  return grouped;
}

}  // namespace oarlock::sparse_table

#endif  // OARLOCK_TESTS_SPARSE_TABLE_TABLE_TESTING_H_
