#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "absl/base/attributes.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/feature_hasher.h"
#include "base/mix.h"
#include "data/parse/line_parsers.h"
#include "data/parse/text_fields.h"

namespace oarlock::data {
namespace {

using Transform = DataOptions::DenseTransform;

// More digits could overflow an int64.
constexpr int kMaxIntegerDigits = 18;
// Tables hold the log and the bucket of integers below this.
constexpr int64_t kSmallIntegers = 4096;
// Number of codes of kBucket: 0 is missing, 1 to 3 are the integers 0 to 2.
// Then come the buckets, up to floor(log(4095)^2) = 69.
constexpr int kBucketCodes = 4 + 70;

int64_t BucketOf(int64_t x) {
  const double log_x = std::log(static_cast<double>(x));
  return static_cast<int64_t>(log_x * log_x);
}

constexpr uint64_t kEachByte = 0x0101010101010101u;

uint64_t Load8(const char* p) {
  static_assert(std::endian::native == std::endian::little);
  uint64_t bytes;
  std::memcpy(&bytes, p, 8);
  return bytes;
}

// Sets the high bit of each byte of `x` that is 0. Bytes above the lowest zero
// byte may have a wrong result. So the lowest set bit is exact, and so is a
// result of 0: no byte is 0.
constexpr uint64_t ZeroBytes(uint64_t x) {
  return (x - kEachByte) & ~x & (kEachByte << 7);
}

// The number with the 8 decimal digits in `digits`; the first digit is in the
// lowest byte. Digits are joined to pairs, then to fours, then to all eight,
// each by one multiplication.
constexpr uint64_t NumberOf8Digits(uint64_t digits) {
  digits = (digits & 0x0f0f0f0f0f0f0f0fu) * (10 * 256 + 1) >> 8;
  digits = (digits & 0x00ff00ff00ff00ffu) * (100 * 65536 + 1) >> 16;
  return (digits & 0x0000ffff0000ffffu) * (10000 * (uint64_t{1} << 32) + 1) >>
         32;
}

// Whether all bytes of `text` are '0' to '9'.
constexpr bool AllDigits(uint64_t text) {
  return ((text & (kEachByte * 0xf0)) |
          (((text + kEachByte * 0x06) & (kEachByte * 0xf0)) >> 4)) ==
         kEachByte * 0x33;
}

// Says why Parse returned false. It is slow, which does not matter because
// malformed lines are rare.
std::string Explain(std::string_view line) {
  if (line.empty()) return "the line is empty";
  if (HasNul(line)) return "the line contains a NUL byte";
  constexpr int kFields = 1 + kCriteoIntegers + kCriteoCategories;
  std::vector<std::string_view> fields;
  for (size_t begin = 0; begin <= line.size();) {
    const size_t end = std::min(line.find('\t', begin), line.size());
    fields.push_back(line.substr(begin, end - begin));
    begin = end + 1;
  }
  if (fields.size() != kFields) {
    return absl::StrCat(fields.size(), " fields, a Criteo line has ", kFields,
                        " (label, 13 integers, 26 categories) between tabs");
  }
  if (fields[0] != "0" && fields[0] != "1") {
    return absl::StrCat("the label is ", Shown(fields[0]), ", not 0 or 1");
  }
  for (int i = 1; i <= kCriteoIntegers; ++i) {
    std::string_view digits = fields[i];
    if (digits.empty()) continue;
    if (digits[0] == '-') digits.remove_prefix(1);
    if (digits.empty() || digits.size() > kMaxIntegerDigits ||
        digits.find_first_not_of("0123456789") != std::string_view::npos) {
      return absl::StrCat("integer I", i, " is ", Shown(fields[i]),
                          ", not a number of at most ", kMaxIntegerDigits,
                          " digits");
    }
  }
  return "the line is malformed";
}

// An integer column of a line.
struct Integer {
  int64_t value = 0;  // 0 when it is missing
  bool missing = false;
};

// Reads the integer field at *p and moves *p past the tab that ends it. False
// when the field is malformed.
ABSL_ATTRIBUTE_ALWAYS_INLINE inline bool ReadInteger(const char** p,
                                                     const char* end,
                                                     Integer* integer) {
  const char* digits = *p;
  if (end - digits > 8) {
    // The usual case, in one load: up to 7 bytes and the tab.
    const uint64_t bytes = Load8(digits);
    const uint64_t tabs = ZeroBytes(bytes ^ (kEachByte * '\t'));
    if (tabs != 0 && digits[0] != '-') {
      const int length = std::countr_zero(tabs) >> 3;
      // The field, with zeros in front and without the bytes that follow it.
      const uint64_t text = length == 0
                                ? kEachByte * '0'
                                : bytes << (64 - 8 * length) |
                                      ((kEachByte * '0') >> (8 * length));
      if (!AllDigits(text)) return false;
      integer->value = static_cast<int64_t>(NumberOf8Digits(text));
      integer->missing = length == 0;
      *p = digits + length + 1;
      return true;
    }
  }
  const bool negative = digits != end && *digits == '-';
  digits += negative;
  const char* q = digits;
  uint64_t x = 0;
  for (; q != end; ++q) {
    const unsigned digit = static_cast<unsigned char>(*q) - unsigned{'0'};
    if (digit > 9) break;
    // Wraps on absurd lengths, which are rejected below.
    x = x * 10 + digit;
  }
  if (q == end || *q != '\t' || q - digits > kMaxIntegerDigits) return false;
  integer->missing = q == digits;
  if (integer->missing && negative) return false;
  integer->value =
      negative ? -static_cast<int64_t>(x) : static_cast<int64_t>(x);
  *p = q + 1;
  return true;
}

template <Transform kTransform>
class CriteoParser : public LineParser {
 public:
  explicit CriteoParser(const DataOptions& options)
      : feature_dim_(options.sparse_feature_dim), hasher_(feature_dim_) {
    for (uint32_t slot = 0; slot < kCriteoCategories; ++slot) {
      missing_keys_[slot] = FeatureHash("", slot, feature_dim_);
    }
    if (kTransform == Transform::kLog1p) FillLogs();
    if (kTransform == Transform::kBucket) FillBuckets();
  }

  bool Append(std::string_view line, Batch* batch,
              std::string* reason) override {
    if (!Parse(line)) {
      *reason = Explain(line);
      return false;
    }
    ++batch->num_examples;
    batch->labels.push_back(label_);
    if (kTransform != Transform::kBucket) {
      batch->dense.insert(batch->dense.end(), dense_, dense_ + kCriteoIntegers);
    }
    batch->keys.insert(batch->keys.end(), keys_, keys_ + kNumSlots);
    return true;
  }

 private:
  static constexpr int kNumSlots =
      kCriteoCategories +
      (kTransform == Transform::kBucket ? kCriteoIntegers : 0);

  // Fills label_, dense_ and keys_; false when the line is malformed.
  bool Parse(std::string_view line) {
    const char* p = line.data();
    const char* const end = p + line.size();
    if (line.size() < 2 || (*p != '0' && *p != '1') || p[1] != '\t') {
      return false;
    }
    label_ = static_cast<float>(*p - '0');
    p += 2;
    for (int i = 0; i < kCriteoIntegers; ++i) {
      Integer integer;
      if (!ReadInteger(&p, end, &integer)) return false;
      SetInteger(i, integer);
    }
    return ParseCategories(p, end) && !HasNul(line);
  }

  bool ParseCategories(const char* p, const char* const end) {
    for (uint32_t slot = 0; slot < kCriteoCategories; ++slot) {
      // Almost every field has 8 digits or is missing.
      if (end - p > 8) {
        const uint64_t text = Load8(p);
        if (p[8] == '\t' && ZeroBytes(text ^ (kEachByte * '\t')) == 0) {
          keys_[slot] = hasher_.HashOf8(text, slot);
          p += 9;
          continue;
        }
        if (*p == '\t') {
          keys_[slot] = missing_keys_[slot];
          ++p;
          continue;
        }
      }
      const void* tab = std::memchr(p, '\t', static_cast<size_t>(end - p));
      const size_t length = static_cast<size_t>(
          (tab == nullptr ? end : static_cast<const char*>(tab)) - p);
      keys_[slot] = hasher_.Hash(p, length, slot);
      p += length;
      if (p == end) return slot == kCriteoCategories - 1;
      ++p;
    }
    return false;  // a tab follows the last field
  }

  void SetInteger(int i, Integer integer) {
    const int64_t x = integer.value;
    switch (kTransform) {
      case Transform::kQuickStart:
        dense_[i] = integer.missing
                        ? 0.0f
                        : static_cast<float>(
                              (static_cast<double>(x) - kQuickStartMin[i]) /
                              kQuickStartDiff[i]);
        break;
      case Transform::kLog1p:
        dense_[i] =
            x < kSmallIntegers
                ? logs_[static_cast<size_t>(x < 0 ? 0 : x)]
                : static_cast<float>(std::log1p(static_cast<double>(x)));
        break;
      case Transform::kBucket:
        keys_[kCriteoCategories + i] = BucketKey(i, integer.missing, x);
        break;
    }
  }

  Key BucketKey(int i, bool missing, int64_t x) const {
    if (missing) return bucket_keys_[i * kBucketCodes];
    if (x >= 0 && x < kSmallIntegers) {
      return bucket_keys_[i * kBucketCodes + bucket_codes_[x]];
    }
    return FeatureHash(BucketText(x), BucketSlot(i), feature_dim_);
  }

  static uint32_t BucketSlot(int i) {
    return static_cast<uint32_t>(kCriteoCategories + i);
  }

  void FillLogs() {
    logs_.resize(kSmallIntegers);
    for (int64_t x = 0; x < kSmallIntegers; ++x) {
      logs_[x] = static_cast<float>(std::log1p(static_cast<double>(x)));
    }
  }

  void FillBuckets() {
    bucket_codes_.resize(kSmallIntegers);
    bucket_keys_.resize(kCriteoIntegers * kBucketCodes);
    for (int64_t x = 0; x < kSmallIntegers; ++x) {
      const int64_t code = x <= 2 ? 1 + x : 4 + BucketOf(x);
      OARLOCK_CHECK(code < kBucketCodes);
      bucket_codes_[x] = static_cast<uint8_t>(code);
    }
    for (int i = 0; i < kCriteoIntegers; ++i) {
      Key* const keys = &bucket_keys_[i * kBucketCodes];
      keys[0] = FeatureHash("", BucketSlot(i), feature_dim_);
      for (int64_t x = 0; x < kSmallIntegers; ++x) {
        keys[bucket_codes_[x]] =
            FeatureHash(BucketText(x), BucketSlot(i), feature_dim_);
      }
    }
  }

  const uint64_t feature_dim_;
  const FeatureHasher hasher_;
  Key missing_keys_[kCriteoCategories];
  std::vector<float> logs_;            // [kSmallIntegers]
  std::vector<uint8_t> bucket_codes_;  // [kSmallIntegers]
  std::vector<Key> bucket_keys_;       // [kCriteoIntegers, kBucketCodes]
  // The current example.
  float label_ = 0;
  float dense_[kCriteoIntegers];
  Key keys_[kCriteoCategories + kCriteoIntegers];
};

}  // namespace

std::string BucketText(std::optional<int64_t> x) {
  if (!x.has_value()) return "";
  return *x > 2 ? absl::StrCat(BucketOf(*x)) : absl::StrCat("SP", *x);
}

std::unique_ptr<LineParser> NewCriteoParser(const DataOptions& options) {
  switch (options.dense_transform) {
    case Transform::kQuickStart:
      return std::make_unique<CriteoParser<Transform::kQuickStart>>(options);
    case Transform::kBucket:
      return std::make_unique<CriteoParser<Transform::kBucket>>(options);
    case Transform::kLog1p:
      break;
  }
  return std::make_unique<CriteoParser<Transform::kLog1p>>(options);
}

}  // namespace oarlock::data
