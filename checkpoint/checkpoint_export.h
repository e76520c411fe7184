// Rows of a checkpoint as text, in PaddlePaddle's form.

#ifndef OARLOCK_CHECKPOINT_CHECKPOINT_EXPORT_H_
#define OARLOCK_CHECKPOINT_CHECKPOINT_EXPORT_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "checkpoint/manifest.h"

namespace oarlock::checkpoint {

// Writes a line (checkpoint/row_text.h) for every row of the sparse
// table `name` (empty: the only one), ascending by partition and key, to `path`
// (base/output/output_file.h). How many rows. InvalidArgument when the table is
// not there or not sparse.
absl::StatusOr<uint64_t> ExportRows(const OpenCheckpoint& open,
                                    const std::string& name,
                                    const std::string& path);

}  // namespace oarlock::checkpoint

#endif  // OARLOCK_CHECKPOINT_CHECKPOINT_EXPORT_H_
