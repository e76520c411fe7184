#include "storage/checkpoint_record.h"

// For a state that lies on the stack.
#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

#include <bit>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace oarlock::storage {
namespace {

constexpr uint64_t Swapped(uint64_t x, bool swap) {
  return swap ? __builtin_bswap64(x) : x;
}

constexpr bool kBigEndianHost = std::endian::native == std::endian::big;

template <typename Int>
char* PutBigEndian(char* to, Int x) {
  for (size_t i = 0; i < sizeof(Int); ++i) {
    *to++ = static_cast<char>(x >> (8 * (sizeof(Int) - 1 - i)));
  }
  return to;
}

template <typename Int>
Int TakeBigEndian(absl::string_view& from) {
  Int x = 0;
  for (size_t i = 0; i < sizeof(Int); ++i) {
    x = static_cast<Int>(x << 8) | static_cast<unsigned char>(from[i]);
  }
  from.remove_prefix(sizeof(Int));
  return x;
}

bool IsLegal(RecordKind kind) {
  return kind == RecordKind::kRows || kind == RecordKind::kErased ||
         kind == RecordKind::kState;
}

uint64_t SumOf(absl::string_view encoded_name, absl::string_view bytes) {
  XXH3_state_t state;
  XXH3_64bits_reset(&state);
  XXH3_64bits_update(&state, encoded_name.data(), encoded_name.size());
  XXH3_64bits_update(&state, bytes.data(), bytes.size());
  return XXH3_64bits_digest(&state);
}

}  // namespace

absl::string_view RecordKindName(RecordKind kind) {
  switch (kind) {
    case RecordKind::kRows:
      return "rows";
    case RecordKind::kErased:
      return "erased";
    case RecordKind::kState:
      return "state";
  }
  return "unknown";
}

std::string ToString(const RecordName& name) {
  return absl::StrCat("cut ", name.cut, " table ", name.table.value(), " unit ",
                      name.unit, " ", RecordKindName(name.kind), " ",
                      name.number);
}

std::array<char, RecordName::kBytes> EncodeRecordName(const RecordName& name) {
  OARLOCK_CHECK(IsLegal(name.kind));
  std::array<char, RecordName::kBytes> bytes;
  char* to = PutBigEndian(bytes.data(), name.cut);
  to = PutBigEndian(to, name.table.value());
  to = PutBigEndian(to, name.unit);
  to = PutBigEndian(to, static_cast<uint8_t>(name.kind));
  PutBigEndian(to, name.number);
  return bytes;
}

std::optional<RecordName> DecodeRecordName(absl::string_view bytes) {
  if (bytes.size() != RecordName::kBytes) return std::nullopt;
  RecordName name;
  name.cut = TakeBigEndian<uint64_t>(bytes);
  name.table = TableId(TakeBigEndian<uint32_t>(bytes));
  name.unit = TakeBigEndian<uint32_t>(bytes);
  name.kind = static_cast<RecordKind>(TakeBigEndian<uint8_t>(bytes));
  name.number = TakeBigEndian<uint32_t>(bytes);
  if (!IsLegal(name.kind)) return std::nullopt;
  return name;
}

void SealRecord(absl::string_view encoded_name, std::string& bytes) {
  const uint64_t sum = Swapped(SumOf(encoded_name, bytes), kBigEndianHost);
  bytes.append(reinterpret_cast<const char*>(&sum), sizeof(sum));
}

std::optional<absl::string_view> OpenRecord(absl::string_view encoded_name,
                                            absl::string_view value) {
  if (value.size() < kRecordSumBytes) return std::nullopt;
  const absl::string_view bytes =
      value.substr(0, value.size() - kRecordSumBytes);
  uint64_t sum;
  std::memcpy(&sum, value.data() + bytes.size(), sizeof(sum));
  if (Swapped(sum, kBigEndianHost) != SumOf(encoded_name, bytes)) {
    return std::nullopt;
  }
  return bytes;
}

}  // namespace oarlock::storage
