// What an opened checkpoint says about a table: rows of a partition with all
// deltas applied, floats of a dense block. For restoring and for tools.

#ifndef OARLOCK_CHECKPOINT_CHECKPOINT_ROWS_H_
#define OARLOCK_CHECKPOINT_CHECKPOINT_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/types.h"
#include "checkpoint/manifest.h"
#include "proto/state/unit_state.pb.h"
#include "sparse_table/rows/packed_rows.h"

namespace oarlock::checkpoint {

// How rows of the manifest's sparse table at `place` are packed. DataLoss when
// its configuration is not legal.
absl::StatusOr<sparse_table::PackedRows> PackedRowsOf(
    const v1::CheckpointManifest& manifest, size_t place);

// Place in the manifest of the sparse table `name`, empty: of the only one.
// InvalidArgument, with the names that there are, when there is none or several
// could be meant.
absl::StatusOr<size_t> FindSparseTable(const v1::CheckpointManifest& manifest,
                                       const std::string& name);
// What a partition of the manifest's table at `place` is besides its rows.
// DataLoss.
absl::StatusOr<v1::SparsePartitionState> ReadPartitionState(
    const OpenCheckpoint& open, size_t place, PartitionIndex partition);

// All rows of one partition, in memory.
class PartitionRows {
 public:
  // Of the manifest's table at `place`. DataLoss, naming the server's folder,
  // when records are not what their state says: sizes, keys of other
  // partitions, number of rows, digest.
  static absl::StatusOr<PartitionRows> Read(const OpenCheckpoint& open,
                                            size_t place,
                                            PartitionIndex partition);

  const v1::SparsePartitionState& state() const { return state_; }
  // Packed, in no order.
  const absl::flat_hash_map<Key, const std::byte*>& rows() const {
    return rows_;
  }
  // Sum of the digests of the rows.
  uint64_t digest() const { return digest_; }

 private:
  PartitionRows() = default;

  absl::Status Load(const storage::CheckpointReader& reader,
                    const sparse_table::PackedRows& format,
                    const storage::RecordName& state);
  absl::Status Erase(absl::string_view keys);
  absl::Status Put(const sparse_table::PackedRows& format,
                   absl::string_view rows);

  v1::SparsePartitionState state_;
  // Records of rows; rows_ points into them.
  std::vector<std::unique_ptr<std::string>> records_;
  absl::flat_hash_map<Key, const std::byte*> rows_;
  uint64_t digest_ = 0;
};

struct DenseBlock {
  v1::DenseBlockState state;
  // Little-endian floats: values, then optimizer state.
  std::string floats;
};

// Of the manifest's dense table at `place`. DataLoss as above.
absl::StatusOr<DenseBlock> ReadDenseBlock(const OpenCheckpoint& open,
                                          size_t place, BlockIndex block);

// Reads all rows and blocks: DataLoss when any is not what its state and the
// manifest say.
absl::Status VerifyTables(const OpenCheckpoint& open);

}  // namespace oarlock::checkpoint

#endif  // OARLOCK_CHECKPOINT_CHECKPOINT_ROWS_H_
