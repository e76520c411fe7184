#include <google/protobuf/io/coded_stream.h>

#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "wire/wire_codec.h"

namespace oarlock::wire {
namespace {

using google::protobuf::io::CodedOutputStream;

// Collects slices: framing in small ones of its own, arrays by reference.
class WireWriter {
 public:
  void Message(int field, const google::protobuf::MessageLite& value) {
    StartRun(field, value.ByteSizeLong());
    value.AppendToString(&framing_);
  }

  // Scalars: zero is omitted.
  void Varint(int field, uint64_t value) {
    if (value == 0) return;
    Tag(field, kVarint);
    AppendVarint(value);
  }

  // Packed varints get(items[0]), get(items[1]) ...
  template <typename T, typename Get>
  void PackedVarints(int field, absl::Span<const T> items, Get get) {
    if (items.empty()) return;
    size_t size = 0;
    for (const T& item : items) {
      size += CodedOutputStream::VarintSize64(get(item));
    }
    StartRun(field, size);
    const size_t begin = framing_.size();
    framing_.resize(begin + size);
    uint8_t* at = reinterpret_cast<uint8_t*>(framing_.data()) + begin;
    for (const T& item : items) {
      at = CodedOutputStream::WriteVarint64ToArray(get(item), at);
    }
  }

  // An array whose bytes are the concatenation of `pieces`.
  void Array(int field, size_t element_bytes,
             absl::Span<const grpc::Slice> pieces) {
    size_t size = 0;
    for (const grpc::Slice& piece : pieces) size += piece.size();
    if (size == 0) return;
    OARLOCK_CHECK(size % element_bytes == 0);
    StartRun(field, size);
    FlushFraming();
    for (const grpc::Slice& piece : pieces) {
      if (piece.size() > 0) slices_.push_back(piece);
    }
  }
  void Array(int field, size_t element_bytes, const grpc::Slice& bytes) {
    Array(field, element_bytes, absl::MakeConstSpan(&bytes, 1));
  }

  grpc::ByteBuffer Finish() {
    FlushFraming();
    return grpc::ByteBuffer(slices_.data(), slices_.size());
  }

 private:
  enum WireType { kVarint = 0, kLengthDelimited = 2 };

  void Tag(int field, WireType type) {
    AppendVarint(static_cast<uint64_t>(field) << 3 | type);
  }
  void AppendVarint(uint64_t value) {
    uint8_t bytes[10];
    const uint8_t* end = CodedOutputStream::WriteVarint64ToArray(value, bytes);
    framing_.append(reinterpret_cast<const char*>(bytes), end - bytes);
  }
  void StartRun(int field, size_t size) {
    Tag(field, kLengthDelimited);
    AppendVarint(size);
  }
  void FlushFraming() {
    if (framing_.empty()) return;
    slices_.emplace_back(framing_.data(), framing_.size());
    framing_.clear();
  }

  std::string framing_;
  std::vector<grpc::Slice> slices_;
};

uint64_t PartitionNumber(const KeyGroup& group) {
  return group.partition.value();
}
uint64_t NumKeys(const KeyGroup& group) { return group.num_keys; }
uint64_t BlockNumber(BlockIndex block) { return block.value(); }
template <typename T>
uint64_t Itself(T value) {
  return value;
}

// `values` or `values16`, whichever `format` asks for.
void WriteValues(WireWriter* writer, int field, int field16,
                 v1::ValueFormat format, absl::Span<const grpc::Slice> values) {
  if (format == v1::FLOAT32) {
    writer->Array(field, sizeof(float), values);
  } else {
    writer->Array(field16, sizeof(uint16_t), values);
  }
}

}  // namespace

grpc::ByteBuffer EncodePullSparseRequest(const v1::RequestHeader& header,
                                         TableId table,
                                         absl::Span<const KeyGroup> groups,
                                         v1::ValueFormat format,
                                         bool with_statistics,
                                         const grpc::Slice& keys) {
  WireWriter writer;
  writer.Message(1, header);
  writer.Varint(2, table.value());
  writer.PackedVarints(3, groups, PartitionNumber);
  writer.PackedVarints(4, groups, NumKeys);
  writer.Varint(5, format);
  writer.Varint(6, with_statistics);
  writer.Array(7, sizeof(Key), keys);
  return writer.Finish();
}

grpc::ByteBuffer EncodePullSparseResponse(
    const v1::ResponseHeader& header, uint32_t dim,
    absl::Span<const uint64_t> group_versions, const grpc::Slice& values,
    const grpc::Slice& shows, const grpc::Slice& clicks,
    v1::ValueFormat format) {
  WireWriter writer;
  writer.Message(1, header);
  writer.Varint(2, dim);
  writer.Varint(3, format);
  writer.PackedVarints(4, group_versions, Itself<uint64_t>);
  WriteValues(&writer, 5, 6, format, absl::MakeConstSpan(&values, 1));
  writer.Array(7, sizeof(float), shows);
  writer.Array(8, sizeof(float), clicks);
  return writer.Finish();
}

grpc::ByteBuffer EncodePushSparseRequest(
    const v1::RequestHeader& header, TableId table,
    absl::Span<const KeyGroup> groups, const grpc::Slice& keys,
    const grpc::Slice& values, const grpc::Slice& shows,
    const grpc::Slice& clicks, absl::Span<const uint32_t> counts,
    v1::ValueFormat format) {
  WireWriter writer;
  writer.Message(1, header);
  writer.Varint(2, table.value());
  writer.PackedVarints(3, groups, PartitionNumber);
  writer.PackedVarints(4, groups, NumKeys);
  writer.Varint(5, format);
  writer.Array(6, sizeof(Key), keys);
  WriteValues(&writer, 7, 8, format, absl::MakeConstSpan(&values, 1));
  writer.Array(9, sizeof(float), shows);
  writer.Array(10, sizeof(float), clicks);
  writer.PackedVarints(11, counts, Itself<uint32_t>);
  return writer.Finish();
}

grpc::ByteBuffer EncodePullDenseRequest(
    const v1::RequestHeader& header, TableId table,
    absl::Span<const BlockIndex> blocks,
    absl::Span<const uint64_t> known_versions, v1::ValueFormat format) {
  WireWriter writer;
  writer.Message(1, header);
  writer.Varint(2, table.value());
  writer.PackedVarints(3, blocks, BlockNumber);
  writer.PackedVarints(4, known_versions, Itself<uint64_t>);
  writer.Varint(5, format);
  return writer.Finish();
}

grpc::ByteBuffer EncodeDenseResponse(const v1::ResponseHeader& header,
                                     absl::Span<const BlockIndex> blocks,
                                     absl::Span<const uint64_t> versions,
                                     absl::Span<const grpc::Slice> values,
                                     v1::ValueFormat format,
                                     uint32_t duplicate_groups) {
  WireWriter writer;
  writer.Message(1, header);
  writer.PackedVarints(2, blocks, BlockNumber);
  writer.PackedVarints(3, versions, Itself<uint64_t>);
  writer.Varint(4, format);
  WriteValues(&writer, 5, 6, format, values);
  writer.Varint(7, duplicate_groups);
  return writer.Finish();
}

grpc::ByteBuffer EncodePushDenseRequest(
    const v1::RequestHeader& header, TableId table,
    absl::Span<const BlockIndex> blocks, absl::Span<const grpc::Slice> values,
    uint32_t num_steps, bool with_values,
    absl::Span<const uint64_t> known_versions, v1::ValueFormat format,
    v1::ValueFormat response_format) {
  WireWriter writer;
  writer.Message(1, header);
  writer.Varint(2, table.value());
  writer.PackedVarints(3, blocks, BlockNumber);
  writer.Varint(4, format);
  WriteValues(&writer, 5, 6, format, values);
  writer.Varint(7, num_steps);
  writer.Varint(8, with_values);
  writer.Varint(9, response_format);
  writer.PackedVarints(10, known_versions, Itself<uint64_t>);
  return writer.Finish();
}

grpc::ByteBuffer EncodePushResponse(const v1::PushResponse& response) {
  const grpc::Slice bytes(response.SerializeAsString());
  return grpc::ByteBuffer(&bytes, 1);
}

}  // namespace oarlock::wire
