// Rows of a checkpoint as text, in PaddlePaddle's form.

#ifndef OARLOCK_PSERVER_CHECKPOINT_CHECKPOINT_EXPORT_H_
#define OARLOCK_PSERVER_CHECKPOINT_CHECKPOINT_EXPORT_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "pserver/checkpoint/manifest.h"
#include "storage/file_system.h"

namespace oarlock {

// Writes "key v v ...\n" for every row of the sparse table `name` (empty: the
// only one), ascending by partition and key: the key as an unsigned decimal,
// show and click where the table has them, the embedding, the optimizer state;
// floats with the nine digits that give back their bits. How many rows.
// InvalidArgument when the table is not there or not sparse.
absl::StatusOr<uint64_t> ExportRows(const OpenCheckpoint& open,
                                    const std::string& name, FileSystem* files,
                                    const std::string& path);

}  // namespace oarlock

#endif  // OARLOCK_PSERVER_CHECKPOINT_CHECKPOINT_EXPORT_H_
