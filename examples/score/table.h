// Rows of a sparse table of an exported model.

#ifndef OARLOCK_EXAMPLES_SCORE_TABLE_H_
#define OARLOCK_EXAMPLES_SCORE_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <string>

namespace oarlock::score {

// Points into mapped files.
struct Table {
  size_t dim = 0;
  size_t num_rows = 0;
  const uint64_t* keys = nullptr;  // [num_rows], ascending
  const float* values = nullptr;   // [num_rows, dim]
  // Of rows that are not there: "constant", "uniform", "normal".
  std::string initial_kind;
  float initial_value = 0;
  uint64_t initial_stream = 0;

  // Adds `weight` times the key's row to sum[dim].
  void AddRow(uint64_t key, float weight, float* sum) const;

 private:
  float InitialValue(uint64_t stream, uint64_t i) const;
};

}  // namespace oarlock::score

#endif  // OARLOCK_EXAMPLES_SCORE_TABLE_H_
