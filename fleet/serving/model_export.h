// A trained model as one folder that programs without Oarlock score with
// (docs/export_format.md).

#ifndef OARLOCK_FLEET_SERVING_MODEL_EXPORT_H_
#define OARLOCK_FLEET_SERVING_MODEL_EXPORT_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "checkpoint/manifest.h"
#include "proto/config/job_config.pb.h"
#include "storage/file_system.h"

namespace oarlock {

struct ModelExportOptions {
  // Made; must not be there.
  std::string folder;
  // Flags of the job that count instead of what the checkpoint says.
  v1::JobConfig job;
  // For rows that are sorted; more go through files in the folder.
  uint64_t memory_bytes = uint64_t{256} << 20;
  storage::FileSystem* files = storage::FileSystem::Real();
};

struct ModelExportReport {
  std::string model;
  uint64_t num_rows = 0;
  uint64_t num_parameters = 0;
  uint64_t bytes = 0;
};

// AlreadyExists when there is such a folder; InvalidArgument when the tables
// are not those of the model; FailedPrecondition when the model cannot be
// exported; DataLoss as of the checkpoint. After an error there is no folder.
absl::StatusOr<ModelExportReport> ExportModel(
    const checkpoint::OpenCheckpoint& open, const ModelExportOptions& options);

}  // namespace oarlock

#endif  // OARLOCK_FLEET_SERVING_MODEL_EXPORT_H_
