#include "wire/received_bytes.h"

#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "wire/wire_limits.h"

namespace oarlock::wire {

absl::StatusOr<SlicedBytes> ReceivedBytes(absl::string_view name,
                                          const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  if (!buffer.Valid() || !buffer.Dump(&slices).ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": no readable message was received"));
  }
  SlicedBytes bytes(std::move(slices));
  if (bytes.size() > kMaxMessageBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": has ", bytes.size(), " bytes; at most ",
                     kMaxMessageBytes, " are legal; split it"));
  }
  return bytes;
}

}  // namespace oarlock::wire
