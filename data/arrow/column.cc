#include "data/arrow/column.h"

#include <cmath>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace oarlock::data {
namespace {

// The types without parameters, as the interface writes them.
struct Format {
  const char* format;
  ArrowKind kind;
  const char* name;
};
constexpr Format kFormats[] = {
    {"n", ArrowKind::kNull, "null"},
    {"b", ArrowKind::kBool, "bool"},
    {"c", ArrowKind::kInt8, "int8"},
    {"C", ArrowKind::kUint8, "uint8"},
    {"s", ArrowKind::kInt16, "int16"},
    {"S", ArrowKind::kUint16, "uint16"},
    {"i", ArrowKind::kInt32, "int32"},
    {"I", ArrowKind::kUint32, "uint32"},
    {"l", ArrowKind::kInt64, "int64"},
    {"L", ArrowKind::kUint64, "uint64"},
    {"e", ArrowKind::kHalf, "half_float"},
    {"f", ArrowKind::kFloat, "float"},
    {"g", ArrowKind::kDouble, "double"},
    {"u", ArrowKind::kText, "string"},
    {"U", ArrowKind::kLargeText, "large_string"},
    {"z", ArrowKind::kText, "binary"},
    {"Z", ArrowKind::kLargeText, "large_binary"},
    {"vu", ArrowKind::kTextView, "string_view"},
    {"vz", ArrowKind::kTextView, "binary_view"},
    {"+l", ArrowKind::kList, "list"},
    {"+L", ArrowKind::kLargeList, "large_list"},
    {"+vl", ArrowKind::kListView, "list_view"},
    {"+vL", ArrowKind::kLargeListView, "large_list_view"},
    {"+s", ArrowKind::kStruct, "struct"},
    {"+m", ArrowKind::kOther, "map"},
    {"+r", ArrowKind::kOther, "run_end_encoded"},
};
// Those with parameters, by how they begin, the longer ones first.
constexpr Format kPrefixes[] = {
    {"w:", ArrowKind::kFixedText, "fixed_size_binary"},
    {"+w:", ArrowKind::kFixedList, "fixed_size_list"},
    {"+ud:", ArrowKind::kOther, "union"},
    {"+us:", ArrowKind::kOther, "union"},
    {"d:", ArrowKind::kOther, "decimal"},
    {"td", ArrowKind::kOther, "date"},
    {"tt", ArrowKind::kOther, "time"},
    {"ts", ArrowKind::kOther, "timestamp"},
    {"tD", ArrowKind::kOther, "duration"},
    {"ti", ArrowKind::kOther, "interval"},
};

// A view of 16 bytes: its length, then up to 12 bytes of text, or the first
// four of them, the number of a buffer and the place in it.
struct View {
  int32_t length;
  char inlined[4];
  int32_t buffer;
  int32_t offset;
};
constexpr int32_t kMaxInlined = 12;

float HalfToFloat(uint16_t half) {
  const int exponent = (half >> 10) & 31;
  const int fraction = half & 1023;
  const float sign = (half >> 15) != 0 ? -1.0f : 1.0f;
  if (exponent == 31) {
    return fraction != 0 ? NAN : sign * INFINITY;
  }
  if (exponent == 0)
    return sign * std::ldexp(static_cast<float>(fraction), -24);
  return sign * std::ldexp(static_cast<float>(fraction + 1024), exponent - 25);
}

}  // namespace

ArrowType TypeOf(const ArrowSchema& schema) {
  if (schema.dictionary != nullptr) return TypeOf(*schema.dictionary);
  const absl::string_view format = schema.format;
  for (const Format& each : kFormats) {
    if (format == each.format) return {each.kind, 0};
  }
  for (const Format& each : kPrefixes) {
    if (!absl::StartsWith(format, each.format)) continue;
    ArrowType type{each.kind, 0};
    if (type.kind != ArrowKind::kOther &&
        !absl::SimpleAtoi(format.substr(std::strlen(each.format)),
                          &type.size)) {
      type.kind = ArrowKind::kOther;
    }
    return type;
  }
  return {};
}

std::string NameOfType(const ArrowSchema& schema) {
  if (schema.dictionary != nullptr) {
    return absl::StrCat("dictionary of ", NameOfType(*schema.dictionary));
  }
  const absl::string_view format = schema.format;
  std::string name = std::string(format);
  for (const Format& each : kFormats) {
    if (format == each.format) name = each.name;
  }
  for (const Format& each : kPrefixes) {
    if (absl::StartsWith(format, each.format)) name = each.name;
  }
  if (TypeOf(schema).is_list() && schema.n_children == 1) {
    absl::StrAppend(&name, " of ", NameOfType(*schema.children[0]));
  }
  return name;
}

ArrowValues::ArrowValues(const ArrowType& type, const ArrowArray& array)
    : type_(type), offset_(array.offset) {
  if (type.kind == ArrowKind::kNull) {
    all_null_ = true;
    return;
  }
  if (array.null_count != 0) {
    validity_ = static_cast<const uint8_t*>(array.buffers[0]);
  }
  data_ = array.buffers[1];
  if (type.kind == ArrowKind::kText || type.kind == ArrowKind::kLargeText) {
    bytes_ = static_cast<const char*>(array.buffers[2]);
  }
  if (type.kind == ArrowKind::kTextView) view_buffers_ = array.buffers + 2;
}

int64_t ArrowValues::IntegerAt(int64_t i) const {
  int64_t value = 0;
  WithIntegers([&](auto read) { value = read(i); });
  return value;
}

double ArrowValues::NumberAt(int64_t i) const {
  switch (type_.kind) {
    case ArrowKind::kHalf:
      return HalfToFloat(data<uint16_t>()[i]);
    case ArrowKind::kFloat:
      return data<float>()[i];
    case ArrowKind::kDouble:
      return data<double>()[i];
    case ArrowKind::kUint64:
      return static_cast<double>(data<uint64_t>()[i]);
    default:
      return static_cast<double>(IntegerAt(i));
  }
}

std::string_view ArrowValues::TextAt(int64_t i) const {
  std::string_view text;
  WithTexts([&](auto read) { text = read(i); });
  return text;
}

std::string_view ArrowValues::ViewAt(int64_t i) const {
  static_assert(sizeof(View) == 16);
  const View& view = data<View>()[i];
  if (view.length <= kMaxInlined) {
    return {view.inlined, static_cast<size_t>(view.length)};
  }
  return {static_cast<const char*>(view_buffers_[view.buffer]) + view.offset,
          static_cast<size_t>(view.length)};
}

ArrowLists::ArrowLists(const ArrowType& type, const ArrowArray& array)
    : type_(type), offset_(array.offset) {
  if (array.null_count != 0) {
    validity_ = static_cast<const uint8_t*>(array.buffers[0]);
  }
  if (type.kind == ArrowKind::kFixedList) return;
  offsets_ = array.buffers[1];
  if (type.kind == ArrowKind::kListView ||
      type.kind == ArrowKind::kLargeListView) {
    sizes_ = array.buffers[2];
  }
}

ArrowLists::Range ArrowLists::At(int64_t i) const {
  const int64_t place = i + offset_;
  if (validity_ != nullptr &&
      ((validity_[place >> 3] >> (place & 7)) & 1) == 0) {
    return {};
  }
  const auto of = [&](const auto* offsets, const auto* sizes) -> Range {
    const int64_t begin = offsets[place];
    return {begin, sizes == nullptr ? int64_t{offsets[place + 1]}
                                    : begin + sizes[place]};
  };
  switch (type_.kind) {
    case ArrowKind::kFixedList:
      return {place * type_.size, (place + 1) * type_.size};
    case ArrowKind::kList:
    case ArrowKind::kListView:
      return of(static_cast<const int32_t*>(offsets_),
                static_cast<const int32_t*>(sizes_));
    default:
      return of(static_cast<const int64_t*>(offsets_),
                static_cast<const int64_t*>(sizes_));
  }
}

}  // namespace oarlock::data
