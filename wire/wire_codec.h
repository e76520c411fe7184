// Frames the data plane's messages around raw memory.
//
// Encoding puts arrays that the caller owns (as reference-counted slices)
// between a few bytes of protobuf framing: nothing is copied, and the bytes
// are those that generated code would send. Decoding finds the arrays inside
// the received slices and leaves them there. A valid encoding that is unusual
// (split packed fields, unknown fields, fields out of order) is handed to the
// generated parser and its arrays are copied.
//
// Every decoder checks what a table relies on: group sizes sum to the number
// of keys, array lengths agree, indices ascend, limits (wire/wire_limits.h)
// are kept. What does not hold is InvalidArgument in one line that names the
// message and the field. Whether table, worker and generations are the right
// ones is not known here.

#ifndef OARLOCK_WIRE_WIRE_CODEC_H_
#define OARLOCK_WIRE_WIRE_CODEC_H_

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/key_group.h"
#include "base/types.h"
#include "proto/v1/parameter.pb.h"
#include "wire/received_floats.h"
#include "wire/sliced_bytes.h"

namespace oarlock::wire {

// Decoded requests and responses. `header`, small fields: parsed; arrays: in
// place. 16-bit values are widened when somebody takes them.

struct PullSparseRequestView {
  v1::RequestHeader header;
  TableId table;
  std::vector<KeyGroup> groups;
  v1::ValueFormat format = v1::FLOAT32;
  bool with_statistics = false;
  size_t num_keys = 0;
  SlicedBytes keys;  // fixed64 [num_keys]
  // Reserved, see proto/v1/parameter.proto. None, or as many as groups.
  std::vector<uint64_t> held_versions;
  uint64_t held_generation = 0;
};

struct PullSparseResponseView {
  v1::ResponseHeader header;
  uint32_t dim = 0;
  std::vector<uint64_t> group_versions;
  size_t num_values = 0;
  ReceivedFloats values;  // [num_values]
  SlicedBytes shows;      // float [num_keys] or empty
  SlicedBytes clicks;
};

struct PushSparseRequestView {
  v1::RequestHeader header;
  TableId table;
  std::vector<KeyGroup> groups;
  size_t num_keys = 0;
  SlicedBytes keys;  // fixed64 [num_keys]
  size_t num_values = 0;
  ReceivedFloats values;  // [num_values]; the table knows its dim
  SlicedBytes shows;      // float [num_keys] or empty
  SlicedBytes clicks;
  std::vector<uint32_t> counts;
  // Not on the wire: the logical time with which a server's log has the push.
  std::optional<uint32_t> logical_time;
};

struct PullDenseRequestView {
  v1::RequestHeader header;
  TableId table;
  std::vector<BlockIndex> blocks;
  std::vector<uint64_t> known_versions;  // as many as blocks
  v1::ValueFormat format = v1::FLOAT32;
};

struct DenseResponseView {
  v1::ResponseHeader header;
  std::vector<BlockIndex> blocks;
  std::vector<uint64_t> versions;
  size_t num_values = 0;
  ReceivedFloats values;  // [num_values]
  uint32_t duplicate_groups = 0;
};

struct PushDenseRequestView {
  v1::RequestHeader header;
  TableId table;
  std::vector<BlockIndex> blocks;
  size_t num_values = 0;
  ReceivedFloats values;  // [num_values]
  uint32_t num_steps = 0;
  bool with_values = false;
  v1::ValueFormat response_format = v1::FLOAT32;
  std::vector<uint64_t> known_versions;  // none, or as many as blocks
};

absl::StatusOr<PullSparseRequestView> DecodePullSparseRequest(
    const grpc::ByteBuffer& buffer);
absl::StatusOr<PullSparseResponseView> DecodePullSparseResponse(
    const grpc::ByteBuffer& buffer);
absl::StatusOr<PushSparseRequestView> DecodePushSparseRequest(
    const grpc::ByteBuffer& buffer);
absl::StatusOr<PullDenseRequestView> DecodePullDenseRequest(
    const grpc::ByteBuffer& buffer);
absl::StatusOr<DenseResponseView> DecodeDenseResponse(
    const grpc::ByteBuffer& buffer);
absl::StatusOr<PushDenseRequestView> DecodePushDenseRequest(
    const grpc::ByteBuffer& buffer);
absl::StatusOr<v1::PushResponse> DecodePushResponse(
    const grpc::ByteBuffer& buffer);

// Encoders. A slice holds the array's bytes in memory order (little-endian)
// and is sent as it is; an empty slice omits the field. Zero scalars are
// omitted, as generated code does; the header is always sent. `values` are
// floats, or with another `format` 16-bit values (wire/value_format.h).
// REQUIRES: a slice's size is a multiple of its elements'.

grpc::ByteBuffer EncodePullSparseRequest(const v1::RequestHeader& header,
                                         TableId table,
                                         absl::Span<const KeyGroup> groups,
                                         v1::ValueFormat format,
                                         bool with_statistics,
                                         const grpc::Slice& keys);
grpc::ByteBuffer EncodePullSparseResponse(
    const v1::ResponseHeader& header, uint32_t dim,
    absl::Span<const uint64_t> group_versions, const grpc::Slice& values,
    const grpc::Slice& shows = grpc::Slice(),
    const grpc::Slice& clicks = grpc::Slice(),
    v1::ValueFormat format = v1::FLOAT32);
grpc::ByteBuffer EncodePushSparseRequest(
    const v1::RequestHeader& header, TableId table,
    absl::Span<const KeyGroup> groups, const grpc::Slice& keys,
    const grpc::Slice& values, const grpc::Slice& shows = grpc::Slice(),
    const grpc::Slice& clicks = grpc::Slice(),
    absl::Span<const uint32_t> counts = {},
    v1::ValueFormat format = v1::FLOAT32);
grpc::ByteBuffer EncodePullDenseRequest(
    const v1::RequestHeader& header, TableId table,
    absl::Span<const BlockIndex> blocks,
    absl::Span<const uint64_t> known_versions, v1::ValueFormat format);
// `values`: one slice per block, or any other cut of the same bytes.
grpc::ByteBuffer EncodeDenseResponse(const v1::ResponseHeader& header,
                                     absl::Span<const BlockIndex> blocks,
                                     absl::Span<const uint64_t> versions,
                                     absl::Span<const grpc::Slice> values,
                                     v1::ValueFormat format = v1::FLOAT32,
                                     uint32_t duplicate_groups = 0);
grpc::ByteBuffer EncodePushDenseRequest(
    const v1::RequestHeader& header, TableId table,
    absl::Span<const BlockIndex> blocks, absl::Span<const grpc::Slice> values,
    uint32_t num_steps, bool with_values,
    absl::Span<const uint64_t> known_versions = {},
    v1::ValueFormat format = v1::FLOAT32,
    v1::ValueFormat response_format = v1::FLOAT32);
grpc::ByteBuffer EncodePushResponse(const v1::PushResponse& response);

}  // namespace oarlock::wire

#endif  // OARLOCK_WIRE_WIRE_CODEC_H_
