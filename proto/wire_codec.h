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
// of keys, array lengths agree, indices ascend. What does not hold is
// InvalidArgument in one line.

#ifndef OARLOCK_PROTO_WIRE_CODEC_H_
#define OARLOCK_PROTO_WIRE_CODEC_H_

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/key_group.h"
#include "base/types.h"
#include "proto/parameter.pb.h"

namespace oarlock {

// A run of bytes of a received message. It may straddle slices and start at
// any address. Shares ownership of the slices.
class SlicedBytes {
 public:
  SlicedBytes() = default;
  // Bytes [begin, begin + size) of the concatenation of `slices`.
  // REQUIRES: they exist.
  SlicedBytes(absl::Span<const grpc::Slice> slices, size_t begin, size_t size);
  // Owns `bytes`: what the generated parser had to copy.
  explicit SlicedBytes(std::vector<char> bytes);

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

  // Copies bytes [begin, begin + size) to `to`.
  void CopyTo(size_t begin, size_t size, void* to) const;

  // The elements [begin, begin + count) of an array of T: the received memory
  // where it is contiguous and aligned, else a copy in `scratch`, which is
  // grown as needed. Valid while both this and `scratch` are.
  template <typename T>
  const T* Elements(size_t begin, size_t count, std::vector<T>* scratch) const;

 private:
  // The memory of [begin, begin + size) if one piece holds it, else null.
  const char* Contiguous(size_t begin, size_t size) const;

  struct Piece {
    size_t begin = 0;  // of this run
    const char* data = nullptr;
    size_t size = 0;
  };
  std::vector<Piece> pieces_;
  std::vector<grpc::Slice> slices_;
  std::shared_ptr<const std::vector<char>> owned_;
  size_t size_ = 0;
};

// Decoded requests and responses. `header`, small fields: parsed; arrays: in
// place. 16-bit values arrive widened to float by the decoder (in a copy).

struct PullSparseRequestView {
  v1::RequestHeader header;
  TableId table;
  std::vector<KeyGroup> groups;
  v1::ValueFormat format = v1::FLOAT32;
  bool with_statistics = false;
  size_t num_keys = 0;
  SlicedBytes keys;  // fixed64 [num_keys]
};

struct PullSparseResponseView {
  v1::ResponseHeader header;
  uint32_t dim = 0;
  std::vector<uint64_t> group_versions;
  size_t num_values = 0;
  SlicedBytes values;  // float [num_values]
  SlicedBytes shows;   // float [num_keys] or empty
  SlicedBytes clicks;
};

struct PushSparseRequestView {
  v1::RequestHeader header;
  TableId table;
  std::vector<KeyGroup> groups;
  size_t num_keys = 0;
  SlicedBytes keys;    // fixed64 [num_keys]
  size_t num_values = 0;
  SlicedBytes values;  // float [num_values]; the table knows its dim
  SlicedBytes shows;   // float [num_keys] or empty
  SlicedBytes clicks;
  std::vector<uint32_t> counts;
};

struct PullDenseRequestView {
  v1::RequestHeader header;
  TableId table;
  std::vector<BlockIndex> blocks;
  std::vector<uint64_t> known_versions;  // as many as blocks
  v1::ValueFormat format = v1::FLOAT32;
};

struct PullDenseResponseView {
  v1::ResponseHeader header;
  std::vector<BlockIndex> blocks;
  std::vector<uint64_t> versions;
  size_t num_values = 0;
  SlicedBytes values;
};

struct PushDenseRequestView {
  v1::RequestHeader header;
  TableId table;
  std::vector<BlockIndex> blocks;
  size_t num_values = 0;
  SlicedBytes values;
  uint32_t num_steps = 0;
};

absl::StatusOr<PullSparseRequestView> DecodePullSparseRequest(
    const grpc::ByteBuffer& buffer);
absl::StatusOr<PullSparseResponseView> DecodePullSparseResponse(
    const grpc::ByteBuffer& buffer);
absl::StatusOr<PushSparseRequestView> DecodePushSparseRequest(
    const grpc::ByteBuffer& buffer);
absl::StatusOr<PullDenseRequestView> DecodePullDenseRequest(
    const grpc::ByteBuffer& buffer);
absl::StatusOr<PullDenseResponseView> DecodePullDenseResponse(
    const grpc::ByteBuffer& buffer);
absl::StatusOr<PushDenseRequestView> DecodePushDenseRequest(
    const grpc::ByteBuffer& buffer);
absl::StatusOr<v1::PushResponse> DecodePushResponse(
    const grpc::ByteBuffer& buffer);

// Encoders. A slice holds the array's bytes in memory order (little-endian)
// and is sent as it is; an empty slice omits the field. Zero scalars are
// omitted, as generated code does.

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
    const grpc::Slice& clicks = grpc::Slice());
grpc::ByteBuffer EncodePushSparseRequest(
    const v1::RequestHeader& header, TableId table,
    absl::Span<const KeyGroup> groups, const grpc::Slice& keys,
    const grpc::Slice& values, const grpc::Slice& shows = grpc::Slice(),
    const grpc::Slice& clicks = grpc::Slice(),
    absl::Span<const uint32_t> counts = {});
grpc::ByteBuffer EncodePullDenseRequest(
    const v1::RequestHeader& header, TableId table,
    absl::Span<const BlockIndex> blocks,
    absl::Span<const uint64_t> known_versions, v1::ValueFormat format);
// `values`: one slice per block, or any other cut of the same bytes.
grpc::ByteBuffer EncodePullDenseResponse(const v1::ResponseHeader& header,
                                         absl::Span<const BlockIndex> blocks,
                                         absl::Span<const uint64_t> versions,
                                         absl::Span<const grpc::Slice> values);
grpc::ByteBuffer EncodePushDenseRequest(const v1::RequestHeader& header,
                                        TableId table,
                                        absl::Span<const BlockIndex> blocks,
                                        absl::Span<const grpc::Slice> values,
                                        uint32_t num_steps);
grpc::ByteBuffer EncodePushResponse(const v1::PushResponse& response);

template <typename T>
const T* SlicedBytes::Elements(size_t begin, size_t count,
                               std::vector<T>* scratch) const {
  const char* memory = Contiguous(begin * sizeof(T), count * sizeof(T));
  if (memory != nullptr &&
      reinterpret_cast<uintptr_t>(memory) % alignof(T) == 0) {
    return reinterpret_cast<const T*>(memory);
  }
  if (scratch->size() < count) scratch->resize(count);
  CopyTo(begin * sizeof(T), count * sizeof(T), scratch->data());
  return scratch->data();
}

}  // namespace oarlock

#endif  // OARLOCK_PROTO_WIRE_CODEC_H_
