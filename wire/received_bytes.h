// A message as gRPC received it.

#ifndef OARLOCK_WIRE_RECEIVED_BYTES_H_
#define OARLOCK_WIRE_RECEIVED_BYTES_H_

#include <grpcpp/support/byte_buffer.h>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "wire/sliced_bytes.h"

namespace oarlock::wire {

// All bytes of `buffer`, where they are. InvalidArgument in one line that
// begins with `name` when it is unreadable or larger than kMaxMessageBytes.
absl::StatusOr<SlicedBytes> ReceivedBytes(absl::string_view name,
                                          const grpc::ByteBuffer& buffer);

}  // namespace oarlock::wire

#endif  // OARLOCK_WIRE_RECEIVED_BYTES_H_
