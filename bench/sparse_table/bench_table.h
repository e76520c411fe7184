// The sparse table of the benches that work in memory: kTableRows rows of kDim
// floats under adagrad (bench/common/workload.h).

#ifndef OARLOCK_BENCH_SPARSE_TABLE_BENCH_TABLE_H_
#define OARLOCK_BENCH_SPARSE_TABLE_BENCH_TABLE_H_

#include <memory>

#include "sparse_table/sparse_table.h"

namespace oarlock_bench {

inline constexpr int kPartitionBits = 8;

// Without rows; the room for them is asked of the system as they come.
std::unique_ptr<oarlock::sparse_table::SparseTable> EmptyTable();

}  // namespace oarlock_bench

#endif  // OARLOCK_BENCH_SPARSE_TABLE_BENCH_TABLE_H_
