// Names and bytes of a checkpoint's records; docs/checkpoint_format.md.
//
//   name   cut 8 | table 4 | unit 4 | kind 1 | number 4      big endian
//   value  bytes | XXH3-64 of name and bytes, 8 little endian
//
// A unit is a partition of a sparse table or a block of a dense one. A record
// is written once and never changed: a later cut writes under its own number.

#ifndef OARLOCK_STORAGE_CHECKPOINT_RECORD_H_
#define OARLOCK_STORAGE_CHECKPOINT_RECORD_H_

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "base/types.h"

namespace oarlock::storage {

// In the order in which a unit's records lie.
enum class RecordKind : uint8_t {
  // Packed rows; floats of a dense block.
  kRows = 1,
  // Keys of rows that are gone.
  kErased = 2,
  // What the unit is besides its rows; it names the cuts that these are in.
  // Number 0 alone.
  kState = 3,
};

// The legal kinds, spelled "rows", "erased", "state".
absl::string_view RecordKindName(RecordKind kind);

struct RecordName {
  static constexpr size_t kBytes = 21;

  uint64_t cut = 0;
  TableId table{};
  uint32_t unit = 0;
  RecordKind kind = RecordKind::kRows;
  uint32_t number = 0;

  friend auto operator<=>(const RecordName&, const RecordName&) = default;
};

// "cut 42 table 1 unit 7 rows 3".
std::string ToString(const RecordName& name);

// Names compare as their bytes do.
std::array<char, RecordName::kBytes> EncodeRecordName(const RecordName& name);
// None unless it is the encoding of a name.
std::optional<RecordName> DecodeRecordName(absl::string_view bytes);

// Bytes of a record without its sum, at most.
constexpr uint64_t kMaxRecordBytes = uint64_t{256} << 20;
constexpr size_t kRecordSumBytes = 8;

// Makes a value of a record's bytes: appends the sum.
void SealRecord(absl::string_view encoded_name, std::string& bytes);
// The bytes of a sealed value; none when the sum does not fit.
std::optional<absl::string_view> OpenRecord(absl::string_view encoded_name,
                                            absl::string_view value);

// A file of a published folder, as a manifest lists it.
struct StoredFile {
  std::string name;
  uint64_t bytes = 0;
  // XXH3-64 of the contents.
  uint64_t xxh3 = 0;

  friend bool operator==(const StoredFile&, const StoredFile&) = default;
};

}  // namespace oarlock::storage

#endif  // OARLOCK_STORAGE_CHECKPOINT_RECORD_H_
