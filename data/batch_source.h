// The source of the batches of a compute thread.

#ifndef OARLOCK_DATA_BATCH_SOURCE_H_
#define OARLOCK_DATA_BATCH_SOURCE_H_

#include <cstddef>

#include "absl/status/statusor.h"
#include "data/batch.h"

namespace oarlock::data {

// Thread-compatible.
class BatchSource {
 public:
  virtual ~BatchSource() = default;
  // Clears `batch` and fills it with up to `batch_size` examples (at least 1).
  // True: the batch has at least one example. False: the phase is over and the
  // batch is empty. After an error, every later call returns the same error.
  virtual absl::StatusOr<bool> Next(size_t batch_size, Batch* batch) = 0;
};

}  // namespace oarlock::data

#endif  // OARLOCK_DATA_BATCH_SOURCE_H_
