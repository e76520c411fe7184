// What dense.bin of an exported model holds (docs/export_format.md): the
// network's parameters, then mean and deviation of each norm, which are fixed
// once nothing is learned any more.

#ifndef OARLOCK_FLEET_SERVING_EXPORTED_PARAMETERS_H_
#define OARLOCK_FLEET_SERVING_EXPORTED_PARAMETERS_H_

#include <cstddef>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/types.h"
#include "checkpoint/manifest.h"
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

// Adds the row of a fixed key of the table of statistics
// (models/network_model.h) to the statistics that lie in it. DataLoss
// when none does. REQUIRES: a row that is not empty.
absl::Status AddStatisticsRow(Key key, absl::Span<const float> row,
                              absl::Span<float> statistics);

// What the norms of `network` have learned by the checkpoint, starts included:
// out of the manifest's table of statistics, at `place`. DataLoss as
// AddStatisticsRow and PartitionRows::Read.
absl::StatusOr<std::vector<float>> ReadStatistics(
    const checkpoint::OpenCheckpoint& open, size_t place,
    const nn::Network& network);

}  // namespace oarlock

#endif  // OARLOCK_FLEET_SERVING_EXPORTED_PARAMETERS_H_
