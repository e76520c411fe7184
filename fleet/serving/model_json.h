// What an exported model is, as model.json says it (docs/export_format.md).

#ifndef OARLOCK_FLEET_SERVING_MODEL_JSON_H_
#define OARLOCK_FLEET_SERVING_MODEL_JSON_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "data/data_options.h"
#include "fleet/serving/exported_parameters.h"
#include "models/model.h"
#include "proto/v1/table.pb.h"

namespace oarlock {

// The version that this program writes.
inline constexpr int kExportFormatVersion = 1;

// A sparse table of the export.
struct ExportedTable {
  v1::TableConfig config;
  uint64_t num_rows = 0;
  // Names in the folder.
  std::string keys_file;
  std::string values_file;
};

struct ExportedModel {
  const models::Model* model = nullptr;
  data::DataOptions data;
  std::string job_id;
  uint64_t cut = 0;
  // One per sparse input of the model, but for that of statistics, which is the
  // last.
  std::vector<ExportedTable> tables;
  // Of a model that is a network.
  ExportedParameters parameters;
};

// FailedPrecondition when something in it has no place in the format yet: a
// layer, or rows with an extended part.
absl::StatusOr<nlohmann::ordered_json> ModelJson(const ExportedModel& exported);

}  // namespace oarlock

#endif  // OARLOCK_FLEET_SERVING_MODEL_JSON_H_
