// Tables and pushes for the tests of aggregators, and the naive arithmetic
// that they are compared with.

#ifndef OARLOCK_TESTS_PSERVER_SERVICE_PUSH_TESTING_H_
#define OARLOCK_TESTS_PSERVER_SERVICE_PUSH_TESTING_H_

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "base/push_stamp.h"
#include "base/types.h"
#include "proto/v1/table.pb.h"
#include "sparse_table/dense/dense_table.h"
#include "sparse_table/sparse_table.h"
#include "wire/wire_codec.h"

namespace oarlock::pserver {

inline constexpr int kTestPartitionBits = 4;

// Table 1, SGD with this learning rate, initial values zero.
v1::TableConfig SparseConfig(uint32_t dim, float learning_rate,
                             v1::UpdateMode mode = v1::ASYNC,
                             v1::GradientReduction reduction = v1::SUM);
// Table 2, the same for a vector.
v1::TableConfig DenseConfig(uint64_t size, uint32_t block_size,
                            float learning_rate,
                            v1::UpdateMode mode = v1::ASYNC,
                            v1::GradientReduction reduction = v1::SUM);
std::unique_ptr<sparse_table::SparseTable> MakeSparse(
    const v1::TableConfig& config);
// The share of one server of `num_servers`.
std::unique_ptr<sparse_table::DenseTable> MakeDense(
    const v1::TableConfig& config, uint32_t num_servers = 1,
    uint32_t server = 0);

// Gradient per key, each [dim]; and per block.
using SparseGradients = std::map<Key, std::vector<float>>;
using DenseGradients = std::map<BlockIndex, std::vector<float>>;

// The header of a push of one message.
v1::RequestHeader PushHeader(uint32_t worker, uint64_t generation,
                             uint64_t sequence, uint64_t round = 0);
wire::PushSparseRequestView SparsePushOf(const v1::RequestHeader& header,
                                         const SparseGradients& gradients);
wire::PushDenseRequestView DensePushOf(const v1::RequestHeader& header,
                                       const DenseGradients& gradients);

// Cuts gradients into `num_messages` messages, whole partitions each; some may
// be empty.
std::vector<SparseGradients> CutByPartition(const SparseGradients& gradients,
                                            uint32_t num_messages);

// Random gradients for about `num_keys` of the keys below `key_bound`.
SparseGradients RandomGradients(uint64_t seed, uint32_t num_keys,
                                uint64_t key_bound, uint32_t dim);

// Every row of the table.
SparseGradients RowsOf(const sparse_table::SparseTable& table);
// The values of a block.
std::vector<float> BlockOf(const sparse_table::DenseTable& table,
                           BlockIndex block);

// Rows under SGD with the learning rate, each update in single precision.
class SgdModel {
 public:
  explicit SgdModel(float learning_rate) : learning_rate_(learning_rate) {}
  void Apply(const SparseGradients& gradients);
  // ((g1 + g2) + ...) / divisor, then Apply.
  void ApplyRound(const std::vector<const SparseGradients*>& contributions,
                  uint32_t divisor);
  const SparseGradients& rows() const { return rows_; }

 private:
  const float learning_rate_;
  SparseGradients rows_;
};

}  // namespace oarlock::pserver

#endif  // OARLOCK_TESTS_PSERVER_SERVICE_PUSH_TESTING_H_
