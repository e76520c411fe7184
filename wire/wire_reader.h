// Reads the usual encoding of a message in place: each field at most once, in
// ascending order, packed arrays in one run, no unknown fields. That is what
// generated code and wire/wire_codec.h send. Anything else, right or wrong,
// is left to the generated parser.

#ifndef OARLOCK_WIRE_WIRE_READER_H_
#define OARLOCK_WIRE_WIRE_READER_H_

#include <google/protobuf/message_lite.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "wire/sliced_bytes.h"

namespace oarlock::wire {

// Each method reads field number `field` if it comes next and otherwise leaves
// its output alone; ask for fields in ascending order, then for AtEnd(). False:
// the encoding is unusual, and the reader and all outputs are to be dropped.
class WireReader {
 public:
  // `message` must outlive this.
  explicit WireReader(const SlicedBytes& message) : message_(message) {}
  WireReader(const WireReader&) = delete;
  WireReader& operator=(const WireReader&) = delete;

  // Unusual as well when it has more than `max_bytes`.
  bool Message(int field, size_t max_bytes,
               google::protobuf::MessageLite* value);
  bool Uint32(int field, uint32_t* value);
  bool Uint64(int field, uint64_t* value);
  bool Bool(int field, bool* value);
  bool Enum(int field, int* value);
  // Unusual as well when there are more than `max_size` elements.
  bool PackedUint32(int field, size_t max_size, std::vector<uint32_t>* values);
  bool PackedUint64(int field, size_t max_size, std::vector<uint64_t>* values);
  // A packed array of fixed32, fixed64, float; left in place.
  bool FixedArray(int field, size_t element_bytes, SlicedBytes* values);
  bool Bytes(int field, SlicedBytes* value);

  bool AtEnd() const { return position_ == message_.size(); }

 private:
  enum WireType : uint8_t { kVarint = 0, kLengthDelimited = 2 };
  enum class Next { kThisField, kOther, kUnusual };

  // Consumes the tag of `field` if it comes next.
  Next TakeTag(int field, WireType type);
  bool TakeVarint(uint64_t* value);
  // Consumes a length and the bytes it counts, which begin at `*begin`.
  bool TakeRun(size_t* begin, size_t* size);
  // The byte at `position_`. REQUIRES: !AtEnd().
  uint8_t Peek();
  bool Varint(int field, uint64_t* value, bool* present);
  template <typename T>
  bool PackedVarints(int field, size_t max_size, std::vector<T>* values);

  const SlicedBytes& message_;
  size_t position_ = 0;
  // The bytes around position_, so that single bytes are read quickly.
  size_t window_begin_ = 0;
  std::string_view window_;
  std::string window_scratch_;
};

}  // namespace oarlock::wire

#endif  // OARLOCK_WIRE_WIRE_READER_H_
