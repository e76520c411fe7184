// What dense.bin of an exported model holds (docs/export_format.md): the
// network's parameters, then mean and deviation of each norm, which are fixed
// once nothing is learned any more.

#ifndef OARLOCK_FLEET_SERVING_EXPORTED_PARAMETERS_H_
#define OARLOCK_FLEET_SERVING_EXPORTED_PARAMETERS_H_

#include <cstddef>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "base/types.h"
#include "checkpoint/manifest.h"
#include "models/statistics_tables.h"
#include "nn/network.h"
#include "nn/parameter.h"

namespace oarlock {

struct ExportedParameters {
  // All of them; offsets are floats of dense.bin.
  std::vector<nn::ParameterSpec> specs;
  // Of each node of the network: which, in the order in which it reads them.
  std::vector<std::vector<size_t>> of_node;
  // The values that stand behind those of the network.
  std::vector<float> moments;
};

// `statistics`: what the network's norms have learned, [num_statistics()].
ExportedParameters ExportedParametersOf(const nn::Network& network,
                                        absl::Span<const float> statistics);

// Adds the row of a fixed key of a table of statistics to those that lie in it.
// `statistics` are all of the network. DataLoss when none does. REQUIRES: a row
// that is not empty.
absl::Status AddStatisticsRow(Key key, absl::Span<const float> row,
                              const models::StatisticsTable& table,
                              absl::Span<float> statistics);

// Adds what norms have learned by the checkpoint to the starts of their
// statistics: those of `table`, which is number `place` in the manifest.
// DataLoss as AddStatisticsRow and PartitionRows::Read.
absl::Status AddStatistics(const checkpoint::OpenCheckpoint& open, size_t place,
                           const models::StatisticsTable& table,
                           absl::Span<float> statistics);

}  // namespace oarlock

#endif  // OARLOCK_FLEET_SERVING_EXPORTED_PARAMETERS_H_
