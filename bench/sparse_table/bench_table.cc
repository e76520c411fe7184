#include "bench/sparse_table/bench_table.h"

#include <utility>

#include "absl/status/statusor.h"
#include "base/check.h"
#include "bench/common/workload.h"
#include "proto/v1/table.pb.h"

namespace oarlock_bench {

std::unique_ptr<oarlock::sparse_table::SparseTable> EmptyTable() {
  oarlock::v1::TableConfig config;
  config.set_id(1);
  config.set_name("bench");
  config.mutable_optimizer()->set_learning_rate(kLearningRate);
  config.mutable_optimizer()->mutable_adagrad();
  config.mutable_sparse()->set_dim(kDim);
  config.mutable_sparse()->mutable_initializer()->set_uniform_range(0.01f);
  absl::StatusOr<std::unique_ptr<oarlock::sparse_table::SparseTable>> table =
      oarlock::sparse_table::SparseTable::Create(config, kPartitionBits);
  OARLOCK_CHECK(table.ok());
  return *std::move(table);
}

}  // namespace oarlock_bench
