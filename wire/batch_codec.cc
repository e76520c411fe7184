#include "wire/batch_codec.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "wire/received_bytes.h"
#include "wire/sliced_bytes.h"
#include "wire/wire_limits.h"

namespace oarlock::wire {
namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedOutputStream;

std::vector<grpc::Slice> SlicesOf(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  // A buffer that was made here, or taken from gRPC whole.
  OARLOCK_CHECK(buffer.Dump(&slices).ok());
  return slices;
}

// "field, length": what precedes a run of `size` bytes.
void AppendRunStart(int field, size_t size, std::string* framing) {
  uint8_t bytes[20];
  uint8_t* end = WireFormatLite::WriteTagToArray(
      field, WireFormatLite::WIRETYPE_LENGTH_DELIMITED, bytes);
  end = CodedOutputStream::WriteVarint64ToArray(size, end);
  framing->append(reinterpret_cast<const char*>(bytes), end - bytes);
}

// Appends `head` followed by the bytes of `body` as field 1 of a batch.
void AppendEntry(const std::string& head, const grpc::ByteBuffer* body,
                 std::vector<grpc::Slice>* slices) {
  std::string framing;
  AppendRunStart(1, head.size() + (body != nullptr ? body->Length() : 0),
                 &framing);
  framing += head;
  slices->emplace_back(framing);
  if (body == nullptr) return;
  for (grpc::Slice& slice : SlicesOf(*body))
    slices->push_back(std::move(slice));
}

// What precedes the value of a field.
struct Tag {
  int field;
  WireFormatLite::WireType type;
};

// Reads a batch's framing byte by byte; the runs in it are left where they are.
class BatchReader {
 public:
  BatchReader(absl::string_view name, SlicedBytes bytes)
      : name_(name), bytes_(std::move(bytes)) {}

  bool AtEnd(size_t end) const { return position_ >= end; }
  size_t size() const { return bytes_.size(); }
  size_t position() const { return position_; }
  void Skip(size_t num_bytes) { position_ += num_bytes; }

  // A varint that lies before `end`.
  absl::StatusOr<uint64_t> Varint(size_t end) {
    uint64_t value = 0;
    for (int shift = 0; shift < 64 && position_ < end; shift += 7) {
      uint8_t byte;
      bytes_.CopyTo(position_++, 1, &byte);
      value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    return Malformed();
  }
  // The end of a run whose length comes next and which lies before `end`.
  absl::StatusOr<size_t> RunEnd(size_t end) {
    OARLOCK_ASSIGN_OR_RETURN(const uint64_t size, Varint(end));
    if (size > end - position_) return Malformed();
    return position_ + size;
  }
  // The tag of a field that begins before `end`.
  absl::StatusOr<Tag> NextTag(size_t end) {
    OARLOCK_ASSIGN_OR_RETURN(const uint64_t tag, Varint(end));
    const uint64_t field = tag >> 3;
    if (field < 1 || field > kMaxField) return Malformed();
    return Tag{static_cast<int>(field),
               static_cast<WireFormatLite::WireType>(tag & 7)};
  }
  // The end of the run of a field whose tag was read.
  absl::StatusOr<size_t> RunEnd(Tag tag, size_t end) {
    if (tag.type != WireFormatLite::WIRETYPE_LENGTH_DELIMITED)
      return Malformed();
    return RunEnd(end);
  }
  // Skips the value of a field whose tag was read, and which only a
  // newer peer knows. Groups, which nobody sends, are malformed.
  absl::Status SkipValue(Tag tag, size_t end) {
    switch (tag.type) {
      case WireFormatLite::WIRETYPE_VARINT:
        return Varint(end).status();
      case WireFormatLite::WIRETYPE_FIXED64:
        return SkipBytes(8, end);
      case WireFormatLite::WIRETYPE_FIXED32:
        return SkipBytes(4, end);
      case WireFormatLite::WIRETYPE_LENGTH_DELIMITED: {
        OARLOCK_ASSIGN_OR_RETURN(position_, RunEnd(end));
        return absl::OkStatus();
      }
      default:
        return Malformed();
    }
  }
  SlicedBytes Part(size_t begin, size_t end) const {
    return bytes_.Part(begin, end - begin);
  }
  absl::Status Malformed() const {
    return absl::InvalidArgumentError(
        absl::StrCat(name_, ": ", bytes_.size(),
                     " bytes are not a valid message of this type; see "
                     "proto/v1/parameter.proto"));
  }
  absl::Status CheckCount(size_t num_calls) const {
    if (num_calls <= kMaxCallsPerBatch) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        name_, ": holds more than ", kMaxCallsPerBatch, " calls; split it"));
  }

 private:
  static constexpr uint64_t kMaxField = (uint64_t{1} << 29) - 1;

  absl::Status SkipBytes(size_t num_bytes, size_t end) {
    if (num_bytes > end - position_) return Malformed();
    position_ += num_bytes;
    return absl::OkStatus();
  }

  const absl::string_view name_;
  const SlicedBytes bytes_;
  size_t position_ = 0;
};

// BatchCall.after_pushes, which is reserved.
constexpr int kAfterPushesField = 5;

// Reads a BatchCall that ends at `end`.
absl::Status ReadCall(BatchReader* in, size_t end,
                      std::vector<BatchedCall>* calls) {
  const size_t num_before = calls->size();
  while (!in->AtEnd(end)) {
    OARLOCK_ASSIGN_OR_RETURN(const Tag tag, in->NextTag(end));
    if (tag.field == kAfterPushesField &&
        tag.type == WireFormatLite::WIRETYPE_VARINT) {
      OARLOCK_ASSIGN_OR_RETURN(const uint64_t after_pushes, in->Varint(end));
      if (after_pushes == 0) continue;
      return absl::UnimplementedError(
          absl::StrCat("call ", num_before + 1,
                       " of the batch waits for pushes, which this server does "
                       "not do; pull after their answers"));
    }
    if (tag.field > static_cast<int>(BatchMethod::kPushDense)) {
      OARLOCK_RETURN_IF_ERROR(in->SkipValue(tag, end));
      continue;
    }
    // A oneof that is set twice is no encoding that anybody sends.
    if (calls->size() > num_before) return in->Malformed();
    OARLOCK_ASSIGN_OR_RETURN(const size_t run_end, in->RunEnd(tag, end));
    calls->push_back({static_cast<BatchMethod>(tag.field),
                      in->Part(in->position(), run_end).ToByteBuffer()});
    in->Skip(run_end - in->position());
  }
  // A call of a method that this version does not know cannot be answered.
  return calls->size() > num_before ? absl::OkStatus() : in->Malformed();
}

// Reads a BatchResult that ends at `end`.
absl::Status ReadResponse(
    BatchReader* in, size_t end,
    std::vector<absl::StatusOr<grpc::ByteBuffer>>* responses) {
  uint64_t code = 0;
  std::string message;
  grpc::ByteBuffer response(nullptr, 0);
  while (!in->AtEnd(end)) {
    OARLOCK_ASSIGN_OR_RETURN(const Tag tag, in->NextTag(end));
    if (tag.field == 1 && tag.type == WireFormatLite::WIRETYPE_VARINT) {
      OARLOCK_ASSIGN_OR_RETURN(code, in->Varint(end));
      continue;
    }
    if (tag.field > 3) {
      OARLOCK_RETURN_IF_ERROR(in->SkipValue(tag, end));
      continue;
    }
    if (tag.field == 1) return in->Malformed();
    OARLOCK_ASSIGN_OR_RETURN(const size_t run_end, in->RunEnd(tag, end));
    const SlicedBytes run = in->Part(in->position(), run_end);
    in->Skip(run.size());
    if (tag.field == 2) {
      message.resize(run.size());
      run.CopyTo(0, run.size(), message.data());
    } else {
      response = run.ToByteBuffer();
    }
  }
  if (code != 0) {
    responses->emplace_back(
        absl::Status(static_cast<absl::StatusCode>(code), message));
  } else {
    responses->emplace_back(std::move(response));
  }
  return absl::OkStatus();
}

}  // namespace

grpc::ByteBuffer EncodeBatchRequest(absl::Span<const BatchedCall> calls) {
  std::vector<grpc::Slice> slices;
  for (const BatchedCall& call : calls) {
    std::string head;
    AppendRunStart(static_cast<int>(call.method), call.request.Length(), &head);
    AppendEntry(head, &call.request, &slices);
  }
  return grpc::ByteBuffer(slices.data(), slices.size());
}

grpc::ByteBuffer EncodeBatchResponse(
    absl::Span<const absl::StatusOr<grpc::ByteBuffer>> responses) {
  std::vector<grpc::Slice> slices;
  for (const absl::StatusOr<grpc::ByteBuffer>& response : responses) {
    std::string head;
    if (response.ok()) {
      if (response->Length() > 0) AppendRunStart(3, response->Length(), &head);
      AppendEntry(head, &*response, &slices);
      continue;
    }
    uint8_t code[20];
    uint8_t* const end = WireFormatLite::WriteUInt32ToArray(
        1, static_cast<uint32_t>(response.status().code()), code);
    head.append(reinterpret_cast<const char*>(code), end - code);
    const absl::string_view message = response.status().message();
    if (!message.empty()) {
      AppendRunStart(2, message.size(), &head);
      head.append(message.data(), message.size());
    }
    AppendEntry(head, nullptr, &slices);
  }
  return grpc::ByteBuffer(slices.data(), slices.size());
}

absl::StatusOr<std::vector<BatchedCall>> DecodeBatchRequest(
    const grpc::ByteBuffer& buffer) {
  constexpr absl::string_view kName = "BatchRequest";
  OARLOCK_ASSIGN_OR_RETURN(SlicedBytes bytes, ReceivedBytes(kName, buffer));
  BatchReader in(kName, std::move(bytes));
  std::vector<BatchedCall> calls;
  while (!in.AtEnd(in.size())) {
    OARLOCK_ASSIGN_OR_RETURN(const Tag tag, in.NextTag(in.size()));
    if (tag.field != 1) {
      OARLOCK_RETURN_IF_ERROR(in.SkipValue(tag, in.size()));
      continue;
    }
    OARLOCK_RETURN_IF_ERROR(in.CheckCount(calls.size() + 1));
    OARLOCK_ASSIGN_OR_RETURN(const size_t end, in.RunEnd(tag, in.size()));
    OARLOCK_RETURN_IF_ERROR(ReadCall(&in, end, &calls));
  }
  return calls;
}

absl::StatusOr<std::vector<absl::StatusOr<grpc::ByteBuffer>>>
DecodeBatchResponse(const grpc::ByteBuffer& buffer) {
  constexpr absl::string_view kName = "BatchResponse";
  OARLOCK_ASSIGN_OR_RETURN(SlicedBytes bytes, ReceivedBytes(kName, buffer));
  BatchReader in(kName, std::move(bytes));
  std::vector<absl::StatusOr<grpc::ByteBuffer>> responses;
  while (!in.AtEnd(in.size())) {
    OARLOCK_ASSIGN_OR_RETURN(const Tag tag, in.NextTag(in.size()));
    if (tag.field != 1) {
      OARLOCK_RETURN_IF_ERROR(in.SkipValue(tag, in.size()));
      continue;
    }
    OARLOCK_RETURN_IF_ERROR(in.CheckCount(responses.size() + 1));
    OARLOCK_ASSIGN_OR_RETURN(const size_t end, in.RunEnd(tag, in.size()));
    OARLOCK_RETURN_IF_ERROR(ReadResponse(&in, end, &responses));
  }
  return responses;
}

}  // namespace oarlock::wire
