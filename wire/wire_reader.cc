#include "wire/wire_reader.h"

#include <algorithm>

#include "base/check.h"

namespace oarlock::wire {
namespace {

// Reads a varint at `*at`, moves `*at` behind it. False when it does not end
// before `end` or has bits beyond the 64th, which parsers treat differently.
bool ReadVarint(const char** at, const char* end, uint64_t* value) {
  uint64_t result = 0;
  const char* p = *at;
  for (int shift = 0; shift < 70 && p < end; shift += 7) {
    const uint8_t byte = static_cast<uint8_t>(*p++);
    if (shift == 63 && byte > 1) return false;
    result |= uint64_t{byte & 0x7fu} << shift;
    if (byte < 0x80) {
      *at = p;
      *value = result;
      return true;
    }
  }
  return false;
}

}  // namespace

uint8_t WireReader::Peek() {
  // Enough for the tag and the length of a field.
  constexpr size_t kWindowBytes = 16;
  if (position_ - window_begin_ >= window_.size()) {
    window_begin_ = position_;
    window_ = message_.View(position_,
                            std::min(kWindowBytes, message_.size() - position_),
                            &window_scratch_);
  }
  return static_cast<uint8_t>(window_[position_ - window_begin_]);
}

WireReader::Next WireReader::TakeTag(int field, WireType type) {
  // All fields of the data plane's messages have one-byte tags.
  OARLOCK_CHECK(field >= 1 && field <= 15);
  if (AtEnd()) return Next::kOther;
  const uint8_t tag = Peek();
  if (tag >> 3 != field) return Next::kOther;
  if ((tag & 7) != type) return Next::kUnusual;
  ++position_;
  return Next::kThisField;
}

bool WireReader::TakeVarint(uint64_t* value) {
  char bytes[10];
  size_t size = 0;
  while (size < sizeof(bytes) && !AtEnd()) {
    bytes[size] = static_cast<char>(Peek());
    ++position_;
    if ((bytes[size++] & 0x80) == 0) break;
  }
  const char* at = bytes;
  return ReadVarint(&at, bytes + size, value);
}

bool WireReader::TakeRun(size_t* begin, size_t* size) {
  // The generated parser takes no longer ones either.
  constexpr size_t kMaxLengthBytes = 5;
  const size_t start = position_;
  uint64_t length;
  if (!TakeVarint(&length) || position_ - start > kMaxLengthBytes) return false;
  if (length > message_.size() - position_) return false;
  *begin = position_;
  *size = length;
  position_ += length;
  return true;
}

bool WireReader::Message(int field, size_t max_bytes,
                         google::protobuf::MessageLite* value) {
  const Next next = TakeTag(field, kLengthDelimited);
  if (next != Next::kThisField) return next == Next::kOther;
  size_t begin, size;
  if (!TakeRun(&begin, &size) || size > max_bytes) return false;
  std::string scratch;
  const std::string_view bytes = message_.View(begin, size, &scratch);
  return value->ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
}

bool WireReader::Varint(int field, uint64_t* value, bool* present) {
  const Next next = TakeTag(field, kVarint);
  *present = next == Next::kThisField;
  return *present ? TakeVarint(value) : next == Next::kOther;
}

bool WireReader::Uint32(int field, uint32_t* value) {
  uint64_t varint;
  bool present;
  if (!Varint(field, &varint, &present)) return false;
  if (present) *value = static_cast<uint32_t>(varint);
  return true;
}

bool WireReader::Uint64(int field, uint64_t* value) {
  uint64_t varint;
  bool present;
  if (!Varint(field, &varint, &present)) return false;
  if (present) *value = varint;
  return true;
}

bool WireReader::Bool(int field, bool* value) {
  uint64_t varint;
  bool present;
  if (!Varint(field, &varint, &present)) return false;
  if (present) *value = varint != 0;
  return true;
}

bool WireReader::Enum(int field, int* value) {
  uint64_t varint;
  bool present;
  if (!Varint(field, &varint, &present)) return false;
  if (present) *value = static_cast<int>(varint);
  return true;
}

template <typename T>
bool WireReader::PackedVarints(int field, size_t max_size,
                               std::vector<T>* values) {
  const Next next = TakeTag(field, kLengthDelimited);
  if (next != Next::kThisField) return next == Next::kOther;
  size_t begin, size;
  if (!TakeRun(&begin, &size)) return false;
  std::string scratch;
  const std::string_view bytes = message_.View(begin, size, &scratch);
  // An element has at least one byte.
  values->reserve(std::min(size, max_size));
  const char* at = bytes.data();
  const char* const end = at + bytes.size();
  while (at < end) {
    uint64_t value;
    if (values->size() == max_size || !ReadVarint(&at, end, &value)) {
      return false;
    }
    values->push_back(static_cast<T>(value));
  }
  return true;
}

bool WireReader::PackedUint32(int field, size_t max_size,
                              std::vector<uint32_t>* values) {
  return PackedVarints(field, max_size, values);
}

bool WireReader::PackedUint64(int field, size_t max_size,
                              std::vector<uint64_t>* values) {
  return PackedVarints(field, max_size, values);
}

bool WireReader::FixedArray(int field, size_t element_bytes,
                            SlicedBytes* values) {
  return Bytes(field, values) && values->size() % element_bytes == 0;
}

bool WireReader::Bytes(int field, SlicedBytes* value) {
  const Next next = TakeTag(field, kLengthDelimited);
  if (next != Next::kThisField) return next == Next::kOther;
  size_t begin, size;
  if (!TakeRun(&begin, &size)) return false;
  *value = message_.Part(begin, size);
  return true;
}

}  // namespace oarlock::wire
