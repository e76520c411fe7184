// Gives a reader the ranges of examples to read: from a static split decided
// beforehand, or from leases of the coordinator.

#ifndef OARLOCK_DATA_RANGE_SOURCE_H_
#define OARLOCK_DATA_RANGE_SOURCE_H_

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"

namespace oarlock::data {

// A run of examples of one input file. Examples are numbered by line, from 0;
// a malformed line has a number too.
struct DataRange {
  uint32_t source = 0;
  uint64_t begin = 0;
  // Exclusive; 0: to the end of the source, whose length is not known.
  uint64_t end = 0;
  // Offset in an uncompressed file at which line `begin - skip_lines` starts. 0
  // with begin > skip_lines: the offset is not known, and the reader counts
  // lines from the file's start.
  uint64_t byte_offset = 0;
  uint64_t skip_lines = 0;
  // Number of the lease, for the source that gave it out.
  uint64_t lease = 0;
  // A batch ends with this item even when the batch is not full. A static split
  // sets it so that a malformed line in one block does not shift all later
  // rounds.
  bool ends_batch = false;
};

// Thread-safe: several readers may share one.
class RangeSource {
 public:
  virtual ~RangeSource() = default;
  // The next item to read; nothing when the phase is over. May wait.
  virtual absl::StatusOr<std::optional<DataRange>> Next() = 0;
  // The reader calls this when its caller has finished all examples of `item`.
  virtual void Done(const DataRange& item) = 0;
};

}  // namespace oarlock::data

#endif  // OARLOCK_DATA_RANGE_SOURCE_H_
