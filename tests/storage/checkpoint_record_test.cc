#include "storage/checkpoint_record.h"

#include <gtest/gtest.h>

#include <limits>

#include "absl/strings/escaping.h"
#include "base/random.h"

namespace oarlock::storage {
namespace {

constexpr uint64_t kSeed = 3;

absl::string_view View(const std::array<char, RecordName::kBytes>& bytes) {
  return {bytes.data(), bytes.size()};
}

RecordName RandomName(RandomSequence& random) {
  constexpr uint32_t kMax = std::numeric_limits<uint32_t>::max();
  const auto number = [&] {
    const uint32_t x =
        static_cast<uint32_t>(random.Below(3) << random.Below(31));
    return random.Below(2) == 0 ? x : kMax - x;
  };
  return {.cut = uint64_t{number()} << random.Below(33) | random.Below(3),
          .table = TableId(number()),
          .unit = number(),
          .kind = static_cast<RecordKind>(1 + random.Below(3)),
          .number = number()};
}

TEST(CheckpointRecordTest, BytesAreThoseOfTheDocument) {
  const RecordName name{.cut = 42,
                        .table = TableId(1),
                        .unit = 7,
                        .kind = RecordKind::kRows,
                        .number = 3};
  EXPECT_EQ(absl::BytesToHexString(View(EncodeRecordName(name))),
            "000000000000002a"
            "00000001"
            "00000007"
            "01"
            "00000003");
  EXPECT_EQ(ToString(name), "cut 42 table 1 unit 7 rows 3");
  std::string value = "row";
  SealRecord(View(EncodeRecordName(name)), value);
  EXPECT_EQ(absl::BytesToHexString(value), "726f77f8dbfbfa6d667494");
}

TEST(CheckpointRecordTest, NamesCompareAsTheirBytesAndComeBack) {
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  RandomSequence random(kSeed);
  for (int i = 0; i < 20'000; ++i) {
    const RecordName a = RandomName(random), b = RandomName(random);
    const auto a_bytes = EncodeRecordName(a), b_bytes = EncodeRecordName(b);
    EXPECT_EQ(a < b, View(a_bytes) < View(b_bytes));
    EXPECT_EQ(DecodeRecordName(View(a_bytes)), a);
  }
}

TEST(CheckpointRecordTest, BytesThatAreNoNameAreRefused) {
  const auto bytes = EncodeRecordName({.cut = 1, .table = TableId(1)});
  EXPECT_FALSE(DecodeRecordName("").has_value());
  EXPECT_FALSE(DecodeRecordName(View(bytes).substr(1)).has_value());
  EXPECT_FALSE(DecodeRecordName(std::string(View(bytes)) + "x").has_value());
  for (int kind = 0; kind < 256; ++kind) {
    std::string other(View(bytes));
    other[16] = static_cast<char>(kind);
    EXPECT_EQ(DecodeRecordName(other).has_value(), kind >= 1 && kind <= 3);
  }
}

TEST(CheckpointRecordTest, AValueOpensWithItsOwnNameAndBytesAlone) {
  const auto name = EncodeRecordName({.cut = 1, .table = TableId(1)});
  const auto other = EncodeRecordName({.cut = 2, .table = TableId(1)});
  for (const std::string& bytes : {std::string(), std::string(1000, 'x')}) {
    std::string value = bytes;
    SealRecord(View(name), value);
    EXPECT_EQ(OpenRecord(View(name), value), bytes);
    EXPECT_FALSE(OpenRecord(View(other), value).has_value());
    for (size_t i = 0; i < value.size(); ++i) {
      std::string damaged = value;
      damaged[i] ^= 4;
      EXPECT_FALSE(OpenRecord(View(name), damaged).has_value());
      EXPECT_FALSE(OpenRecord(View(name), value.substr(0, i)).has_value());
    }
  }
}

}  // namespace
}  // namespace oarlock::storage
