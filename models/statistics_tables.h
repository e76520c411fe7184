// Where the statistics of a network's norm layers lie in tables.

#ifndef OARLOCK_MODELS_STATISTICS_TABLES_H_
#define OARLOCK_MODELS_STATISTICS_TABLES_H_

#include <cstddef>
#include <string>
#include <vector>

#include "nn/network.h"

namespace oarlock::models {

inline constexpr size_t kStatisticsRow = 64;

// A table of those statistics of norm layers that decay alike. A statistic is
// the sum of its start, which does not decay, and of its place in the rows of
// fixed keys, which have kStatisticsRow floats each.
struct StatisticsTable {
  // "statistics", the next one "statistics_2".
  std::string name;
  // Of a round; see SparseInputSpec.
  float decay = 1;
  // Numbers of the statistics (nn::Network::statistics), by place.
  std::vector<size_t> statistics;

  size_t num_rows() const {
    return (statistics.size() + kStatisticsRow - 1) / kStatisticsRow;
  }
};
// In the order in which the network has them.
std::vector<StatisticsTable> StatisticsTablesOf(const nn::Network& network);

}  // namespace oarlock::models

#endif  // OARLOCK_MODELS_STATISTICS_TABLES_H_
