// Frames several calls of the data plane as one message, around their bytes:
// neither side copies them.

#ifndef OARLOCK_WIRE_BATCH_CODEC_H_
#define OARLOCK_WIRE_BATCH_CODEC_H_

#include <grpcpp/support/byte_buffer.h>

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace oarlock::wire {

// The calls that a batch may hold; the numbers are those of BatchCall.
enum class BatchMethod {
  kPullSparse = 1,
  kPushSparse = 2,
  kPullDense = 3,
  kPushDense = 4,
};

// A call: its method and its encoded request.
struct BatchedCall {
  BatchMethod method;
  grpc::ByteBuffer request;
};

// As BatchRequest and BatchResponse of proto/v1/parameter.proto; what generated
// code would send.
grpc::ByteBuffer EncodeBatchRequest(absl::Span<const BatchedCall> calls);
// A failed call has its status instead of an encoded response.
grpc::ByteBuffer EncodeBatchResponse(
    absl::Span<const absl::StatusOr<grpc::ByteBuffer>> responses);

// Parts share the received memory. InvalidArgument in one line that names the
// message when it is no batch, holds more than kMaxCallsPerBatch calls, or a
// call of no known method. Unimplemented when a call has after_pushes,
// which is reserved. Unknown fields, which a newer peer may send, are
// skipped. What a part holds is checked by its own decoder.
absl::StatusOr<std::vector<BatchedCall>> DecodeBatchRequest(
    const grpc::ByteBuffer& buffer);
absl::StatusOr<std::vector<absl::StatusOr<grpc::ByteBuffer>>>
DecodeBatchResponse(const grpc::ByteBuffer& buffer);

}  // namespace oarlock::wire

#endif  // OARLOCK_WIRE_BATCH_CODEC_H_
