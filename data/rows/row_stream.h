// Rows of columnar files, in whatever order they stand for who reads them.

#ifndef OARLOCK_DATA_ROWS_ROW_STREAM_H_
#define OARLOCK_DATA_ROWS_ROW_STREAM_H_

#include <cstdint>

#include "absl/status/status.h"
#include "data/batch.h"

namespace oarlock::data {

// Not thread-safe.
class RowStream {
 public:
  virtual ~RowStream() = default;
  // Appends the examples at positions [begin, end) of `source`, in their order;
  // bad rows are left out and counted. The ranges of the batch stay as they
  // are. It is cheap where `begin` is the end of what was taken last.
  virtual absl::Status Take(uint32_t source, uint64_t begin, uint64_t end,
                            Batch* batch) = 0;
};

}  // namespace oarlock::data

#endif  // OARLOCK_DATA_ROWS_ROW_STREAM_H_
