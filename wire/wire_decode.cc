#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "wire/received_bytes.h"
#include "wire/wire_check.h"
#include "wire/wire_codec.h"
#include "wire/wire_limits.h"
#include "wire/wire_reader.h"

namespace oarlock::wire {
namespace {

// The usual encoding, in place. False: unusual.

bool ReadInPlace(WireReader& in, PullSparseRequestView* view, RawFields* raw) {
  uint32_t table = 0;
  const bool usual =
      in.Message(1, kMaxHeaderBytes, &view->header) && in.Uint32(2, &table) &&
      in.PackedUint32(3, kMaxGroupsPerMessage, &raw->indices) &&
      in.PackedUint32(4, kMaxGroupsPerMessage, &raw->group_sizes) &&
      in.Enum(5, &raw->format) && in.Bool(6, &view->with_statistics) &&
      in.FixedArray(7, sizeof(Key), &view->keys) &&
      in.PackedUint64(8, kMaxGroupsPerMessage, &view->held_versions) &&
      in.Uint64(9, &view->held_generation) && in.AtEnd();
  view->table = TableId(table);
  return usual;
}

bool ReadInPlace(WireReader& in, PullSparseResponseView* view, RawFields* raw) {
  return in.Message(1, kMaxHeaderBytes, &view->header) &&
         in.Uint32(2, &view->dim) && in.Enum(3, &raw->format) &&
         in.PackedUint64(4, kMaxGroupsPerMessage, &view->group_versions) &&
         in.FixedArray(5, sizeof(float), &raw->values) &&
         in.Bytes(6, &raw->values16) &&
         in.FixedArray(7, sizeof(float), &view->shows) &&
         in.FixedArray(8, sizeof(float), &view->clicks) &&
         in.Bool(9, &raw->changed_only) &&
         in.PackedUint32(10, kMaxKeysPerMessage, &raw->indices) && in.AtEnd();
}

bool ReadInPlace(WireReader& in, PushSparseRequestView* view, RawFields* raw) {
  uint32_t table = 0;
  const bool usual =
      in.Message(1, kMaxHeaderBytes, &view->header) && in.Uint32(2, &table) &&
      in.PackedUint32(3, kMaxGroupsPerMessage, &raw->indices) &&
      in.PackedUint32(4, kMaxGroupsPerMessage, &raw->group_sizes) &&
      in.Enum(5, &raw->format) && in.FixedArray(6, sizeof(Key), &view->keys) &&
      in.FixedArray(7, sizeof(float), &raw->values) &&
      in.Bytes(8, &raw->values16) &&
      in.FixedArray(9, sizeof(float), &view->shows) &&
      in.FixedArray(10, sizeof(float), &view->clicks) &&
      in.PackedUint32(11, kMaxKeysPerMessage, &view->counts) && in.AtEnd();
  view->table = TableId(table);
  return usual;
}

bool ReadInPlace(WireReader& in, PullDenseRequestView* view, RawFields* raw) {
  uint32_t table = 0;
  const bool usual =
      in.Message(1, kMaxHeaderBytes, &view->header) && in.Uint32(2, &table) &&
      in.PackedUint32(3, kMaxGroupsPerMessage, &raw->indices) &&
      in.PackedUint64(4, kMaxGroupsPerMessage, &view->known_versions) &&
      in.Enum(5, &raw->format) && in.AtEnd();
  view->table = TableId(table);
  return usual;
}

bool ReadInPlace(WireReader& in, DenseResponseView* view, RawFields* raw) {
  return in.Message(1, kMaxHeaderBytes, &view->header) &&
         in.PackedUint32(2, kMaxGroupsPerMessage, &raw->indices) &&
         in.PackedUint64(3, kMaxGroupsPerMessage, &view->versions) &&
         in.Enum(4, &raw->format) &&
         in.FixedArray(5, sizeof(float), &raw->values) &&
         in.Bytes(6, &raw->values16) && in.Uint32(7, &view->duplicate_groups) &&
         in.AtEnd();
}

bool ReadInPlace(WireReader& in, PushDenseRequestView* view, RawFields* raw) {
  uint32_t table = 0;
  const bool usual =
      in.Message(1, kMaxHeaderBytes, &view->header) && in.Uint32(2, &table) &&
      in.PackedUint32(3, kMaxGroupsPerMessage, &raw->indices) &&
      in.Enum(4, &raw->format) &&
      in.FixedArray(5, sizeof(float), &raw->values) &&
      in.Bytes(6, &raw->values16) && in.Uint32(7, &view->num_steps) &&
      in.Bool(8, &view->with_values) && in.Enum(9, &raw->response_format) &&
      in.PackedUint64(10, kMaxGroupsPerMessage, &view->known_versions) &&
      in.AtEnd();
  view->table = TableId(table);
  return usual;
}

// Any other encoding, from what the generated parser made of it.

template <typename T>
std::vector<T> ToVector(const google::protobuf::RepeatedField<T>& field) {
  return std::vector<T>(field.begin(), field.end());
}

template <typename T>
SlicedBytes CopyArray(const google::protobuf::RepeatedField<T>& field) {
  std::vector<char> bytes(field.size() * sizeof(T));
  if (!bytes.empty()) std::memcpy(bytes.data(), field.data(), bytes.size());
  return SlicedBytes(std::move(bytes));
}

SlicedBytes CopyBytes(const std::string& bytes) {
  return SlicedBytes(std::vector<char>(bytes.begin(), bytes.end()));
}

void CopyParsed(const v1::PullSparseRequest& message,
                PullSparseRequestView* view, RawFields* raw) {
  view->header = message.header();
  view->table = TableId(message.table());
  raw->indices = ToVector(message.partitions());
  raw->group_sizes = ToVector(message.group_sizes());
  raw->format = message.format();
  view->with_statistics = message.with_statistics();
  view->keys = CopyArray(message.keys());
  view->held_versions = ToVector(message.held_versions());
  view->held_generation = message.held_generation();
}

void CopyParsed(const v1::PullSparseResponse& message,
                PullSparseResponseView* view, RawFields* raw) {
  view->header = message.header();
  view->dim = message.dim();
  raw->format = message.format();
  view->group_versions = ToVector(message.group_versions());
  raw->values = CopyArray(message.values());
  raw->values16 = CopyBytes(message.values16());
  view->shows = CopyArray(message.shows());
  view->clicks = CopyArray(message.clicks());
  raw->changed_only = message.changed_only();
  raw->indices = ToVector(message.changed());
}

void CopyParsed(const v1::PushSparseRequest& message,
                PushSparseRequestView* view, RawFields* raw) {
  view->header = message.header();
  view->table = TableId(message.table());
  raw->indices = ToVector(message.partitions());
  raw->group_sizes = ToVector(message.group_sizes());
  raw->format = message.format();
  view->keys = CopyArray(message.keys());
  raw->values = CopyArray(message.values());
  raw->values16 = CopyBytes(message.values16());
  view->shows = CopyArray(message.shows());
  view->clicks = CopyArray(message.clicks());
  view->counts = ToVector(message.counts());
}

void CopyParsed(const v1::PullDenseRequest& message, PullDenseRequestView* view,
                RawFields* raw) {
  view->header = message.header();
  view->table = TableId(message.table());
  raw->indices = ToVector(message.blocks());
  view->known_versions = ToVector(message.known_versions());
  raw->format = message.format();
}

void CopyParsed(const v1::DenseResponse& message, DenseResponseView* view,
                RawFields* raw) {
  view->header = message.header();
  raw->indices = ToVector(message.blocks());
  view->versions = ToVector(message.versions());
  raw->format = message.format();
  raw->values = CopyArray(message.values());
  raw->values16 = CopyBytes(message.values16());
  view->duplicate_groups = message.duplicate_groups();
}

void CopyParsed(const v1::PushDenseRequest& message, PushDenseRequestView* view,
                RawFields* raw) {
  view->header = message.header();
  view->table = TableId(message.table());
  raw->indices = ToVector(message.blocks());
  raw->format = message.format();
  raw->values = CopyArray(message.values());
  raw->values16 = CopyBytes(message.values16());
  view->num_steps = message.num_steps();
  view->with_values = message.with_values();
  raw->response_format = message.response_format();
  view->known_versions = ToVector(message.known_versions());
}

// Bytes of all headers in `message`, which the generated parser would merge
// and which take many times their size in memory. As far as it is well-formed.
size_t HeaderBytes(std::string_view message) {
  using google::protobuf::internal::WireFormatLite;
  constexpr uint32_t kHeaderTag =
      WireFormatLite::MakeTag(1, WireFormatLite::WIRETYPE_LENGTH_DELIMITED);
  google::protobuf::io::CodedInputStream in(
      reinterpret_cast<const uint8_t*>(message.data()),
      static_cast<int>(message.size()));
  size_t header_bytes = 0;
  while (const uint32_t tag = in.ReadTag()) {
    const int begin = in.CurrentPosition();
    if (!WireFormatLite::SkipField(&in, tag)) break;
    if (tag == kHeaderTag) header_bytes += in.CurrentPosition() - begin;
  }
  return header_bytes;
}

template <typename Message>
absl::StatusOr<Message> ParseGenerated(absl::string_view name,
                                       const SlicedBytes& bytes) {
  std::string scratch;
  const std::string_view flat = bytes.View(0, bytes.size(), &scratch);
  if (const size_t header_bytes = HeaderBytes(flat);
      header_bytes > kMaxHeaderBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ".header: has ", header_bytes, " bytes; at most ",
                     kMaxHeaderBytes, " are legal"));
  }
  Message message;
  if (!message.ParseFromArray(flat.data(), static_cast<int>(flat.size()))) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": ", flat.size(),
                     " bytes are not a valid message of this type; see "
                     "proto/v1/parameter.proto"));
  }
  return message;
}

template <typename Message, typename View>
absl::StatusOr<View> Decode(absl::string_view name,
                            const grpc::ByteBuffer& buffer) {
  OARLOCK_ASSIGN_OR_RETURN(const SlicedBytes bytes,
                           ReceivedBytes(name, buffer));
  {
    View view;
    RawFields raw;
    WireReader reader(bytes);
    if (ReadInPlace(reader, &view, &raw)) {
      OARLOCK_RETURN_IF_ERROR(CheckAndComplete(raw, &view));
      return view;
    }
  }
  OARLOCK_ASSIGN_OR_RETURN(const Message message,
                           ParseGenerated<Message>(name, bytes));
  View view;
  RawFields raw;
  CopyParsed(message, &view, &raw);
  OARLOCK_RETURN_IF_ERROR(CheckAndComplete(raw, &view));
  return view;
}

}  // namespace

absl::StatusOr<PullSparseRequestView> DecodePullSparseRequest(
    const grpc::ByteBuffer& buffer) {
  return Decode<v1::PullSparseRequest, PullSparseRequestView>(
      "PullSparseRequest", buffer);
}

absl::StatusOr<PullSparseResponseView> DecodePullSparseResponse(
    const grpc::ByteBuffer& buffer) {
  return Decode<v1::PullSparseResponse, PullSparseResponseView>(
      "PullSparseResponse", buffer);
}

absl::StatusOr<PushSparseRequestView> DecodePushSparseRequest(
    const grpc::ByteBuffer& buffer) {
  return Decode<v1::PushSparseRequest, PushSparseRequestView>(
      "PushSparseRequest", buffer);
}

absl::StatusOr<PullDenseRequestView> DecodePullDenseRequest(
    const grpc::ByteBuffer& buffer) {
  return Decode<v1::PullDenseRequest, PullDenseRequestView>("PullDenseRequest",
                                                            buffer);
}

absl::StatusOr<DenseResponseView> DecodeDenseResponse(
    const grpc::ByteBuffer& buffer) {
  return Decode<v1::DenseResponse, DenseResponseView>("DenseResponse", buffer);
}

absl::StatusOr<PushDenseRequestView> DecodePushDenseRequest(
    const grpc::ByteBuffer& buffer) {
  return Decode<v1::PushDenseRequest, PushDenseRequestView>("PushDenseRequest",
                                                            buffer);
}

absl::StatusOr<v1::PushResponse> DecodePushResponse(
    const grpc::ByteBuffer& buffer) {
  constexpr absl::string_view kName = "PushResponse";
  OARLOCK_ASSIGN_OR_RETURN(const SlicedBytes bytes,
                           ReceivedBytes(kName, buffer));
  return ParseGenerated<v1::PushResponse>(kName, bytes);
}

}  // namespace oarlock::wire
