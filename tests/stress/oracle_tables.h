// Tables of every kind for jobs whose outcome a model tells bit by bit
// (replay_oracle.cc): every update rule that there is, plain and with
// everything that may stand around it.

#ifndef OARLOCK_TESTS_STRESS_ORACLE_TABLES_H_
#define OARLOCK_TESTS_STRESS_ORACLE_TABLES_H_

#include <cstdint>
#include <vector>

#include "proto/v1/table.pb.h"

namespace oarlock {

// For each rule of OptimizerConfig, asked of its description so that a new rule
// is here without being named: a sparse table with the rule alone, one with all
// options around it that the rule takes, and a dense table, every other one
// with options. Then a sparse table of which `cold_memory_bytes` stay in
// memory. The same for the same seed. Async, sums; no eviction and no decay of
// statistics, which follow the clock, and no admission by chance, which follows
// the sequence.
std::vector<v1::TableConfig> OracleTables(uint64_t seed,
                                          uint64_t cold_memory_bytes);

// The update of a row depends on how many pushes its partition has seen, or
// what becomes of a key on the partition's other keys: a model must know the
// order of all pushes to a partition, not of those to a key alone.
bool IsOrderedByPartition(const v1::TableConfig& sparse);

}  // namespace oarlock

#endif  // OARLOCK_TESTS_STRESS_ORACLE_TABLES_H_
