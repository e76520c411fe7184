// What the configuration of a dense table has to be.

#ifndef OARLOCK_SPARSE_TABLE_DENSE_DENSE_TABLE_CONFIG_H_
#define OARLOCK_SPARSE_TABLE_DENSE_DENSE_TABLE_CONFIG_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "proto/v1/table.pb.h"

namespace oarlock::sparse_table {

// How messages name the table: "dense table 2 'net'".
std::string DenseTableName(const v1::TableConfig& config);

// InvalidArgument when it is not that of a dense table, a number is beyond its
// limits, or the parameters do not cover the vector. Optimizer and initializers
// are left to those who make them.
absl::Status CheckDenseTable(const v1::TableConfig& config);

// The number of floats of `parameter`, or more than `limit`.
uint64_t FloatsOf(const v1::DenseParameter& parameter, uint64_t limit);

}  // namespace oarlock::sparse_table

#endif  // OARLOCK_SPARSE_TABLE_DENSE_DENSE_TABLE_CONFIG_H_
