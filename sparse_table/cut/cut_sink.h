// Where a partition's rows go when it is saved.

#ifndef OARLOCK_SPARSE_TABLE_CUT_CUT_SINK_H_
#define OARLOCK_SPARSE_TABLE_CUT_CUT_SINK_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "base/types.h"
#include "proto/state/unit_state.pb.h"

namespace oarlock::sparse_table {

// What a cut is to write of a table.
enum class SaveKind {
  kFull,
  // What has changed since the previous cut, where that is known.
  kChanges,
};

// Called by the one thread that saves a partition, without any lock. An error
// ends the saving of the partition and is what it returns.
class CutSink {
 public:
  static constexpr size_t kRecordBytes = 64 << 10;

  virtual ~CutSink() = default;

  // Most bytes of a call; a single row or key may be larger.
  virtual size_t record_bytes() const { return kRecordBytes; }

  // Rows as sparse_table/rows/packed_rows.h says; a key comes once in a cut. At
  // least one row.
  virtual absl::Status Rows(absl::Span<const std::byte> packed,
                            size_t num_rows) = 0;
  // Keys whose rows were evicted since the previous cut, to be erased before
  // the rows of this one are put in. Ascending, each once, at least one. Not
  // called where all rows are saved.
  virtual absl::Status Erased(absl::Span<const Key> keys) = 0;
};

struct SavedPartition {
  // base_cut and delta_cuts are left to the caller. The digest is that of all
  // rows if they were saved, else 0: not known.
  v1::SparsePartitionState state;
  // All rows were saved.
  bool full = false;
  // Handed to the sink.
  uint64_t saved_rows = 0;
  uint64_t erased_keys = 0;
};

}  // namespace oarlock::sparse_table

#endif  // OARLOCK_SPARSE_TABLE_CUT_CUT_SINK_H_
