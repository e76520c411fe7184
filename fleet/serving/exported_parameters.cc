#include "fleet/serving/exported_parameters.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "checkpoint/checkpoint_rows.h"
#include "nn/layer.h"
#include "sparse_table/rows/packed_rows.h"

namespace oarlock {
namespace {

// Which of the network's parameters, which ascend by their offsets, begins at
// `offset`.
size_t ParameterAt(const nn::Network& network, size_t offset) {
  const std::vector<nn::ParameterSpec>& all = network.parameters();
  const auto it = std::lower_bound(
      all.begin(), all.end(), offset,
      [](const nn::ParameterSpec& spec, size_t o) { return spec.offset < o; });
  OARLOCK_CHECK(it != all.end() && it->offset == offset);
  return static_cast<size_t>(it - all.begin());
}

}  // namespace

ExportedParameters ExportedParametersOf(const nn::Network& network,
                                        absl::Span<const float> statistics) {
  OARLOCK_CHECK(statistics.size() == network.num_statistics());
  ExportedParameters exported;
  exported.specs = network.parameters();
  for (const nn::Network::Node& node : network.nodes()) {
    std::vector<size_t>& own = exported.of_node.emplace_back();
    for (const size_t offset : node.parameter_offsets) {
      own.push_back(ParameterAt(network, offset));
    }
    std::vector<const float*> learned;
    for (const size_t offset : node.statistic_offsets) {
      learned.push_back(&statistics[offset]);
    }
    for (nn::ExportedMoments& moments :
         node.layer->MomentsOf(node.input_shapes, learned)) {
      own.push_back(exported.specs.size());
      nn::ParameterSpec& spec = exported.specs.emplace_back();
      spec.name = absl::StrCat(node.name, "/", moments.name);
      spec.shape = {moments.values.size()};
      spec.offset = network.num_parameters() + exported.moments.size();
      exported.moments.insert(exported.moments.end(), moments.values.begin(),
                              moments.values.end());
    }
  }
  return exported;
}

absl::Status AddStatisticsRow(Key key, absl::Span<const float> row,
                              const models::StatisticsTable& table,
                              absl::Span<float> statistics) {
  const std::vector<size_t>& numbers = table.statistics;
  const size_t num_rows = (numbers.size() + row.size() - 1) / row.size();
  const auto place = static_cast<uint64_t>(key);
  if (place >= num_rows) {
    return absl::DataLossError(
        absl::StrCat("the table of what norms learn has a row of key ", place,
                     "; legal for this model are keys below ", num_rows,
                     "; use another checkpoint"));
  }
  const size_t first = place * row.size();
  for (size_t i = 0; i < row.size() && first + i < numbers.size(); ++i) {
    statistics[numbers[first + i]] += row[i];
  }
  return absl::OkStatus();
}

absl::Status AddStatistics(const checkpoint::OpenCheckpoint& open, size_t place,
                           const models::StatisticsTable& table,
                           absl::Span<float> statistics) {
  const v1::CheckpointManifest& manifest = open.loaded.manifest;
  std::vector<float> row(
      manifest.tables(static_cast<int>(place)).sparse().dim());
  for (uint32_t p = 0; p < manifest.num_partitions(); ++p) {
    OARLOCK_ASSIGN_OR_RETURN(
        const checkpoint::PartitionRows rows,
        checkpoint::PartitionRows::Read(open, place, PartitionIndex(p)));
    for (const auto& [key, packed] : rows.rows()) {
      std::memcpy(row.data(), packed + sparse_table::PackedRows::kHeaderBytes,
                  row.size() * sizeof(float));
      OARLOCK_RETURN_IF_ERROR(Annotate(
          AddStatisticsRow(key, row, table, statistics), open.loaded.folder));
    }
  }
  return absl::OkStatus();
}

}  // namespace oarlock
