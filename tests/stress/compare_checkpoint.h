// Whether a checkpoint has, bit by bit, what the models of a job's oracle
// threads have.

#ifndef OARLOCK_TESTS_STRESS_COMPARE_CHECKPOINT_H_
#define OARLOCK_TESTS_STRESS_COMPARE_CHECKPOINT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "proto/v1/table.pb.h"
#include "tests/stress/oracle_thread.h"

namespace oarlock {

struct ComparedCheckpoint {
  uint64_t rows = 0;
  uint64_t extended_rows = 0;
  uint64_t blocks = 0;
  // Pushes to the partition or block that has had the fewest.
  uint64_t min_pushes = 0;
  // The first differences, a line each; empty: there is none.
  std::vector<std::string> differences;
};

// Of the current checkpoint in `directory`: all rows with their values,
// optimizer state, statistics and extended parts, and no others; how many
// pushes each partition, and where one thread pushes there each row's last one,
// counts; blocks of dense tables with their state and steps. Why there is no
// result: what reading a checkpoint says.
absl::StatusOr<ComparedCheckpoint> CompareCheckpoint(
    const std::string& directory, absl::Span<const v1::TableConfig> tables,
    absl::Span<const OracleThread> oracle_threads);

}  // namespace oarlock

#endif  // OARLOCK_TESTS_STRESS_COMPARE_CHECKPOINT_H_
