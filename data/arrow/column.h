// Columns of a record batch, as values of a kind that Oarlock takes.

#ifndef OARLOCK_DATA_ARROW_COLUMN_H_
#define OARLOCK_DATA_ARROW_COLUMN_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "data/arrow/c_data.h"

namespace oarlock::data {

enum class ArrowKind {
  kNull,
  kBool,
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kUint8,
  kUint16,
  kUint32,
  kUint64,
  kHalf,
  kFloat,
  kDouble,
  // UTF-8 or bytes: with 32- or 64-bit offsets, as views, or of one length.
  kText,
  kLargeText,
  kTextView,
  kFixedText,
  kList,
  kLargeList,
  kFixedList,
  kListView,
  kLargeListView,
  kStruct,
  // All others, among them timestamps, decimals and maps.
  kOther,
};

struct ArrowType {
  ArrowKind kind = ArrowKind::kOther;
  // Bytes of kFixedText, elements of kFixedList.
  int64_t size = 0;

  bool is_integer() const {
    return kind >= ArrowKind::kBool && kind <= ArrowKind::kUint64;
  }
  bool is_number() const {
    return kind >= ArrowKind::kBool && kind <= ArrowKind::kDouble;
  }
  bool is_text() const {
    return kind >= ArrowKind::kText && kind <= ArrowKind::kFixedText;
  }
  bool is_list() const {
    return kind >= ArrowKind::kList && kind <= ArrowKind::kLargeListView;
  }
};

// Of the values; of a dictionary, those in it.
ArrowType TypeOf(const ArrowSchema& schema);
// As a person calls it: "int64", "dictionary of string", "list of float".
std::string NameOfType(const ArrowSchema& schema);

// The values of an array whose buffers stay while this is used. Value i is that
// of row i of the array, its offset included.
class ArrowValues {
 public:
  // Of numbers, text or nulls. REQUIRES: the array is of that type, and no
  // dictionary.
  ArrowValues(const ArrowType& type, const ArrowArray& array);

  const ArrowType& type() const { return type_; }
  bool has_nulls() const { return validity_ != nullptr || all_null_; }
  bool IsNull(int64_t i) const {
    if (validity_ == nullptr) return all_null_;
    return ((validity_[(i + offset_) >> 3] >> ((i + offset_) & 7)) & 1) == 0;
  }

  // Value i of an integer type, in two's complement.
  int64_t IntegerAt(int64_t i) const;
  // Value i of a number type.
  double NumberAt(int64_t i) const;
  // Value i of a text type.
  std::string_view TextAt(int64_t i) const;

  // Calls f(read), where read(i) is IntegerAt or TextAt without a look at the
  // type for each value. REQUIRES: an integer or a text type.
  template <typename F>
  void WithIntegers(F f) const;
  template <typename F>
  void WithTexts(F f) const;

 private:
  template <typename T>
  const T* data() const {
    return static_cast<const T*>(data_) + offset_;
  }
  bool BitAt(int64_t i) const {
    const auto* const bits = static_cast<const uint8_t*>(data_);
    return ((bits[(i + offset_) >> 3] >> ((i + offset_) & 7)) & 1) != 0;
  }
  std::string_view ViewAt(int64_t i) const;

  const ArrowType type_;
  const int64_t offset_;
  bool all_null_ = false;
  const uint8_t* validity_ = nullptr;
  const void* data_ = nullptr;
  // Bytes of text; of views, the buffers after the views.
  const char* bytes_ = nullptr;
  const void* const* view_buffers_ = nullptr;
};

// Where the elements of each list lie in the child.
class ArrowLists {
 public:
  struct Range {
    int64_t begin = 0;
    int64_t end = 0;
  };
  // REQUIRES: a list type.
  ArrowLists(const ArrowType& type, const ArrowArray& array);

  // Of a list that is null: nothing.
  Range At(int64_t i) const;

 private:
  const ArrowType type_;
  const int64_t offset_;
  const uint8_t* validity_ = nullptr;
  const void* offsets_ = nullptr;
  const void* sizes_ = nullptr;
};

template <typename F>
void ArrowValues::WithIntegers(F f) const {
  const auto of = [&](const auto* values) {
    f([values](int64_t i) { return static_cast<int64_t>(values[i]); });
  };
  switch (type_.kind) {
    case ArrowKind::kInt8:
      return of(data<int8_t>());
    case ArrowKind::kInt16:
      return of(data<int16_t>());
    case ArrowKind::kInt32:
      return of(data<int32_t>());
    case ArrowKind::kInt64:
      return of(data<int64_t>());
    case ArrowKind::kUint8:
      return of(data<uint8_t>());
    case ArrowKind::kUint16:
      return of(data<uint16_t>());
    case ArrowKind::kUint32:
      return of(data<uint32_t>());
    case ArrowKind::kUint64:
      return of(data<uint64_t>());
    default:
      return f([this](int64_t i) { return int64_t{BitAt(i)}; });
  }
}

template <typename F>
void ArrowValues::WithTexts(F f) const {
  switch (type_.kind) {
    case ArrowKind::kText: {
      const int32_t* const offsets = data<int32_t>();
      return f([offsets, bytes = bytes_](int64_t i) {
        return std::string_view(bytes + offsets[i],
                                offsets[i + 1] - offsets[i]);
      });
    }
    case ArrowKind::kLargeText: {
      const int64_t* const offsets = data<int64_t>();
      return f([offsets, bytes = bytes_](int64_t i) {
        return std::string_view(bytes + offsets[i],
                                offsets[i + 1] - offsets[i]);
      });
    }
    case ArrowKind::kTextView:
      return f([this](int64_t i) { return ViewAt(i); });
    default: {
      const char* const first =
          static_cast<const char*>(data_) + offset_ * type_.size;
      return f([first, size = type_.size](int64_t i) {
        return std::string_view(first + i * size, size);
      });
    }
  }
}

}  // namespace oarlock::data

#endif  // OARLOCK_DATA_ARROW_COLUMN_H_
