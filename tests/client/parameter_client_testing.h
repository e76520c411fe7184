// Tables, keys and rows for the tests of the parameter client.

#ifndef OARLOCK_TESTS_CLIENT_PARAMETER_CLIENT_TESTING_H_
#define OARLOCK_TESTS_CLIENT_PARAMETER_CLIENT_TESTING_H_

#include <cstdint>
#include <vector>

#include "base/random.h"
#include "base/types.h"
#include "client/parameter_client.h"
#include "proto/v1/table.pb.h"
#include "tests/client/blocking_calls.h"
#include "wire/value_format.h"

namespace oarlock::client {

inline constexpr TableId kRows(1);
inline constexpr TableId kVector(2);
inline constexpr uint32_t kPartitions = 64;

inline v1::TableConfig SparseTableOf(uint32_t dim) {
  v1::TableConfig table;
  table.set_id(kRows.value());
  table.set_name("embedding");
  table.set_mode(v1::ASYNC);
  table.set_reduction(v1::SUM);
  table.set_seed(99);
  table.mutable_optimizer()->set_learning_rate(.5f);
  table.mutable_optimizer()->mutable_adagrad()->set_initial_accumulator(.1f);
  table.mutable_sparse()->set_dim(dim);
  table.mutable_sparse()->set_accessor(v1::PLAIN);
  table.mutable_sparse()->mutable_initializer()->set_uniform_range(.5f);
  return table;
}

inline v1::TableConfig DenseTableOf(uint64_t size, uint32_t block_size) {
  v1::TableConfig table = SparseTableOf(1);
  table.set_id(kVector.value());
  table.set_name("dense");
  table.mutable_dense()->set_size(size);
  table.mutable_dense()->set_block_size(block_size);
  v1::DenseParameter* parameter = table.mutable_dense()->add_parameters();
  parameter->set_name("all");
  parameter->add_shape(size);
  parameter->mutable_initializer()->set_normal_stddev(1);
  return table;
}

inline std::vector<Key> RandomKeys(RandomSequence& random, size_t count,
                                   uint64_t range) {
  std::vector<Key> keys(count);
  for (Key& key : keys) key = Key{random.Below(range)};
  return keys;
}

inline RowBatch RandomRows(RandomSequence& random, const std::vector<Key>& keys,
                           size_t dim, int partition_bits) {
  RowBatch rows;
  rows.keys.Build(keys, partition_bits);
  rows.values.resize(rows.keys.keys().size() * dim);
  for (float& value : rows.values) {
    value = static_cast<float>(random.Uniform() - .5);
  }
  return rows;
}

// What arrives of `values` that travel in `format`.
inline std::vector<float> Rounded(v1::ValueFormat format,
                                  std::vector<float> values) {
  if (format == v1::FLOAT32) return values;
  std::vector<uint16_t> narrow(values.size());
  wire::NarrowValues(format, values, absl::MakeSpan(narrow));
  wire::WidenValues(format, narrow.data(), absl::MakeSpan(values));
  return values;
}

}  // namespace oarlock::client

#endif  // OARLOCK_TESTS_CLIENT_PARAMETER_CLIENT_TESTING_H_
