// What a decoded message of the data plane must satisfy beyond being protobuf.
// Internal to the codec.

#ifndef OARLOCK_WIRE_WIRE_CHECK_H_
#define OARLOCK_WIRE_WIRE_CHECK_H_

#include <vector>

#include "absl/status/status.h"
#include "wire/sliced_bytes.h"
#include "wire/wire_codec.h"

namespace oarlock::wire {

// Fields as they were received, that a view shows in another form.
struct RawFields {
  std::vector<uint32_t> indices;  // partitions, blocks or changed rows
  std::vector<uint32_t> group_sizes;
  int format = v1::FLOAT32;
  int response_format = v1::FLOAT32;
  SlicedBytes values;
  SlicedBytes values16;
  bool changed_only = false;
};

// Each checks `raw` and what `view` has already, and fills in the rest of
// `view`: groups or blocks, counts of elements, values of either format.
// InvalidArgument names the message and the field.
absl::Status CheckAndComplete(const RawFields& raw,
                              PullSparseRequestView* view);
absl::Status CheckAndComplete(const RawFields& raw,
                              PullSparseResponseView* view);
absl::Status CheckAndComplete(const RawFields& raw,
                              PushSparseRequestView* view);
absl::Status CheckAndComplete(const RawFields& raw, PullDenseRequestView* view);
absl::Status CheckAndComplete(const RawFields& raw, DenseResponseView* view);
absl::Status CheckAndComplete(const RawFields& raw, PushDenseRequestView* view);

}  // namespace oarlock::wire

#endif  // OARLOCK_WIRE_WIRE_CHECK_H_
