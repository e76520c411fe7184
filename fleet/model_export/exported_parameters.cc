#include "fleet/model_export/exported_parameters.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "base/types.h"
#include "pserver/checkpoint/checkpoint_rows.h"
#include "sparse_table/packed_rows.h"
#include "worker/nn/layer.h"
#include "worker/nn/tensor.h"

namespace oarlock {

ExportedParameters ExportedParametersOf(const Network& network,
                                        absl::Span<const float> statistics) {
  OARLOCK_CHECK(statistics.size() == network.num_statistics());
  ExportedParameters exported;
  exported.specs = network.parameters();
  for (const Network::Node& node : network.nodes()) {
    std::vector<size_t>& own = exported.of_node.emplace_back();
    for (const size_t offset : node.parameter_offsets) {
      for (size_t i = 0; i < network.parameters().size(); ++i) {
        if (network.parameters()[i].offset == offset) own.push_back(i);
      }
    }
    std::vector<const float*> learned;
    for (const size_t offset : node.statistic_offsets) {
      learned.push_back(&statistics[offset]);
    }
    for (ExportedMoments& moments :
         node.layer->MomentsOf(node.input_shapes, learned)) {
      own.push_back(exported.specs.size());
      ParameterSpec& spec = exported.specs.emplace_back();
      spec.name = absl::StrCat(node.name, "/", moments.name);
      spec.shape = {moments.values.size()};
      spec.offset = network.num_parameters() + exported.moments.size();
      exported.moments.insert(exported.moments.end(), moments.values.begin(),
                              moments.values.end());
    }
  }
  return exported;
}

absl::StatusOr<std::vector<float>> ReadStatistics(const OpenCheckpoint& open,
                                                  size_t place,
                                                  const Network& network) {
  // Statistic i is its start and float i of the rows.
  std::vector<float> statistics = network.InitialStatistics();
  const v1::CheckpointManifest& manifest = open.loaded.manifest;
  const size_t row_floats =
      manifest.tables(static_cast<int>(place)).sparse().dim();
  for (uint32_t p = 0; p < manifest.num_partitions(); ++p) {
    OARLOCK_ASSIGN_OR_RETURN(
        const PartitionRows rows,
        PartitionRows::Read(open, place, PartitionIndex(p)));
    for (const auto& [key, packed] : rows.rows()) {
      const auto row = static_cast<uint64_t>(key);
      // There are no such rows.
      if (row > statistics.size() / row_floats) continue;
      const size_t begin = row * row_floats;
      const size_t end = std::min(begin + row_floats, statistics.size());
      for (size_t i = begin; i < end; ++i) {
        float value;
        std::memcpy(
            &value,
            packed + PackedRows::kHeaderBytes + (i - begin) * sizeof(float),
            sizeof(float));
        statistics[i] += value;
      }
    }
  }
  return statistics;
}

}  // namespace oarlock
