// What one message of the data plane may hold. The limits are part of the
// protocol: a client splits what is larger, and a decoder refuses it.

#ifndef OARLOCK_WIRE_WIRE_LIMITS_H_
#define OARLOCK_WIRE_WIRE_LIMITS_H_

#include <cstddef>

namespace oarlock::wire {

// Any message, on either plane.
inline constexpr size_t kMaxMessageBytes = size_t{64} << 20;
// Groups of keys or blocks of a dense table.
inline constexpr size_t kMaxGroupsPerMessage = 65536;
inline constexpr size_t kMaxKeysPerMessage = size_t{4} << 20;
// Calls of a batch.
inline constexpr size_t kMaxCallsPerBatch = 4096;
// Encoded RequestHeader or ResponseHeader.
inline constexpr size_t kMaxHeaderBytes = size_t{1} << 20;
// Larger messages are not refused, but they slow one connection down: clients
// stay below this size.
inline constexpr size_t kPreferredMessageBytes = size_t{1} << 20;

}  // namespace oarlock::wire

#endif  // OARLOCK_WIRE_WIRE_LIMITS_H_
