#include "worker/data/line_parser.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/mix.h"

namespace oarlock {
namespace {

// More digits could overflow an int64.
constexpr int kMaxIntegerDigits = 18;
// Integers below this have their log and bucket in a table.
constexpr int64_t kSmallIntegers = 4096;
// Codes of kBucket: 0 missing, 1 to 3 the integers 0 to 2, then the buckets:
// floor(log(4095)^2) is 69.
constexpr int kBucketCodes = 4 + 70;

// What a reader of the log should see of a field: printable, and short.
std::string Shown(std::string_view text) {
  constexpr size_t kShownBytes = 40;
  return absl::StrCat(
      "'", absl::CHexEscape(std::string(text.substr(0, kShownBytes))),
      text.size() > kShownBytes ? "...'" : "'");
}

bool HasNul(std::string_view line) {
  return std::memchr(line.data(), 0, line.size()) != nullptr;
}

int64_t BucketOf(int64_t x) {
  const double log_x = std::log(static_cast<double>(x));
  return static_cast<int64_t>(log_x * log_x);
}

// The length of the field at `p`: up to the next tab, or `end`.
size_t FieldLength(const char* p, const char* end) {
  static_assert(std::endian::native == std::endian::little);
  if (end - p > 8) {
    uint64_t bytes;
    std::memcpy(&bytes, p, 8);
    // The classic test for a zero byte; the lowest bit set is exact.
    const uint64_t x = bytes ^ 0x0909090909090909u;
    const uint64_t tabs = (x - 0x0101010101010101u) & ~x & 0x8080808080808080u;
    if (tabs != 0) return static_cast<size_t>(std::countr_zero(tabs)) / 8;
    if (p[8] == '\t') return 8;
  }
  const void* tab = std::memchr(p, '\t', static_cast<size_t>(end - p));
  return static_cast<size_t>(
      (tab == nullptr ? end : static_cast<const char*>(tab)) - p);
}

class CriteoParser : public LineParser {
 public:
  explicit CriteoParser(const DataOptions& options)
      : transform_(options.dense_transform),
        feature_dim_(options.sparse_feature_dim),
        num_slots_(SchemaOf(options).num_slots) {
    if (transform_ == DataOptions::DenseTransform::kLog1p) FillLogs();
    if (transform_ == DataOptions::DenseTransform::kBucket) FillBuckets();
  }

  bool Append(std::string_view line, Batch* batch,
              std::string* reason) override {
    if (!Parse(line)) {
      *reason = Explain(line);
      return false;
    }
    ++batch->num_examples;
    batch->labels.push_back(label_);
    if (transform_ != DataOptions::DenseTransform::kBucket) {
      batch->dense.insert(batch->dense.end(), dense_, dense_ + kCriteoIntegers);
    }
    batch->keys.insert(batch->keys.end(), keys_, keys_ + num_slots_);
    return true;
  }

 private:
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
      const bool negative = p != end && *p == '-';
      p += negative;
      const char* const digits = p;
      int64_t x = 0;
      for (; p != end; ++p) {
        const unsigned digit = static_cast<unsigned char>(*p) - unsigned{'0'};
        if (digit > 9) break;
        // Wraps on absurd lengths, which are rejected below.
        x = static_cast<int64_t>(static_cast<uint64_t>(x) * 10 + digit);
      }
      if (p == end || *p != '\t' || p - digits > kMaxIntegerDigits) {
        return false;
      }
      const bool missing = p == digits;
      if (missing && negative) return false;
      SetInteger(i, missing, negative ? -x : x);
      ++p;
    }
    for (int slot = 0; slot < kCriteoCategories; ++slot) {
      const size_t length = FieldLength(p, end);
      keys_[slot] =
          FeatureHash({p, length}, static_cast<uint32_t>(slot), feature_dim_);
      p += length;
      if (p == end) return slot == kCriteoCategories - 1 && !HasNul(line);
      ++p;
    }
    return false;  // a tab behind the last field
  }

  void SetInteger(int i, bool missing, int64_t x) {
    switch (transform_) {
      case DataOptions::DenseTransform::kQuickStart:
        dense_[i] = missing ? 0.0f
                            : static_cast<float>(
                                  (static_cast<double>(x) - kQuickStartMin[i]) /
                                  kQuickStartDiff[i]);
        break;
      case DataOptions::DenseTransform::kLog1p:
        // Missing has x = 0.
        dense_[i] =
            x < kSmallIntegers
                ? logs_[static_cast<size_t>(x < 0 ? 0 : x)]
                : static_cast<float>(std::log1p(static_cast<double>(x)));
        break;
      case DataOptions::DenseTransform::kBucket:
        keys_[kCriteoCategories + i] = BucketKey(i, missing, x);
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

  // Why Parse said no. Slow, which does not matter: bad lines are few.
  static std::string Explain(std::string_view line) {
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

  const DataOptions::DenseTransform transform_;
  const uint64_t feature_dim_;
  const int num_slots_;
  std::vector<float> logs_;            // [kSmallIntegers]
  std::vector<uint8_t> bucket_codes_;  // [kSmallIntegers]
  std::vector<Key> bucket_keys_;       // [kCriteoIntegers, kBucketCodes]
  // The example in hand.
  float label_ = 0;
  float dense_[kCriteoIntegers];
  Key keys_[kCriteoCategories + kCriteoIntegers];
};

// Takes one number after the other off the front of a line.
class NumberScanner {
 public:
  explicit NumberScanner(std::string_view line)
      : p_(line.data()), end_(line.data() + line.size()) {}

  // False when what comes next is no such number.
  template <typename T>
  bool Next(T* value) {
    SkipBlanks();
    const auto [rest, error] = std::from_chars(p_, end_, *value);
    if (error != std::errc() || (rest != end_ && !IsBlank(*rest))) return false;
    p_ = rest;
    return true;
  }

  bool AtEnd() {
    SkipBlanks();
    return p_ == end_;
  }

  std::string_view Rest() const { return {p_, static_cast<size_t>(end_ - p_)}; }

 private:
  static bool IsBlank(char c) { return c == ' ' || c == '\t'; }
  void SkipBlanks() {
    while (p_ != end_ && IsBlank(*p_)) ++p_;
  }

  const char* p_;
  const char* const end_;
};

class MultiSlotParser : public LineParser {
 public:
  explicit MultiSlotParser(const DataOptions& options)
      : num_dense_(static_cast<size_t>(options.multi_slot_dense_dim)),
        num_slots_(static_cast<size_t>(options.multi_slot_num_slots)),
        feature_dim_(options.sparse_feature_dim) {}

  bool Append(std::string_view line, Batch* batch,
              std::string* reason) override {
    if (!Parse(line, reason)) return false;
    if (!one_each_ || !batch->offsets.empty()) AppendOffsets(batch);
    ++batch->num_examples;
    batch->labels.push_back(label_);
    batch->dense.insert(batch->dense.end(), dense_.begin(), dense_.end());
    batch->keys.insert(batch->keys.end(), keys_.begin(), keys_.end());
    return true;
  }

 private:
  // Fills label_, dense_, keys_, counts_, one_each_.
  bool Parse(std::string_view line, std::string* reason) {
    dense_.clear();
    keys_.clear();
    counts_.clear();
    one_each_ = true;
    NumberScanner scanner(line);
    if (scanner.AtEnd()) {
      *reason = "the line is empty";
      return false;
    }
    if (num_dense_ > 0 && !ParseDense(scanner, reason)) return false;
    for (size_t slot = 0; slot < num_slots_; ++slot) {
      if (!ParseSlot(slot, scanner, reason)) return false;
    }
    uint64_t count = 0;
    uint64_t label = 0;
    if (!scanner.Next(&count) || count != 1 || !scanner.Next(&label) ||
        label > 1) {
      *reason = absl::StrCat("the label is not '1 0' or '1 1' but ",
                             Shown(scanner.Rest()));
      return false;
    }
    if (!scanner.AtEnd()) {
      *reason = absl::StrCat(
          Shown(scanner.Rest()), " follows the label; the line should have ",
          num_dense_, " dense features and ", num_slots_, " slots");
      return false;
    }
    label_ = static_cast<float>(label);
    return true;
  }

  bool ParseDense(NumberScanner& scanner, std::string* reason) {
    uint64_t count = 0;
    if (!scanner.Next(&count) || count != num_dense_) {
      *reason = absl::StrCat("the dense slot does not start with its count ",
                             num_dense_, " but ", Shown(scanner.Rest()));
      return false;
    }
    for (size_t i = 0; i < num_dense_; ++i) {
      float value = 0;
      if (!scanner.Next(&value) || !std::isfinite(value)) {
        *reason =
            absl::StrCat("dense feature ", i, " is not a finite number but ",
                         Shown(scanner.Rest()));
        return false;
      }
      dense_.push_back(value);
    }
    return true;
  }

  bool ParseSlot(size_t slot, NumberScanner& scanner, std::string* reason) {
    uint32_t count = 0;
    if (!scanner.Next(&count)) {
      *reason = absl::StrCat("slot ", slot, " does not start with a count but ",
                             Shown(scanner.Rest()));
      return false;
    }
    for (uint32_t i = 0; i < count; ++i) {
      uint64_t id = 0;
      if (!scanner.Next(&id)) {
        *reason = absl::StrCat("value ", i, " of slot ", slot,
                               " is not an unsigned 64-bit id but ",
                               Shown(scanner.Rest()));
        return false;
      }
      keys_.push_back(Key{feature_dim_ == 0 ? id : id % feature_dim_});
    }
    counts_.push_back(count);
    one_each_ = one_each_ && count == 1;
    return true;
  }

  void AppendOffsets(Batch* batch) {
    if (batch->offsets.empty()) {
      // Until now every slot had one key.
      for (size_t i = 0; i <= batch->num_examples * num_slots_; ++i) {
        batch->offsets.push_back(static_cast<uint32_t>(i));
      }
    }
    for (const uint32_t count : counts_) {
      batch->offsets.push_back(batch->offsets.back() + count);
    }
  }

  const size_t num_dense_;
  const size_t num_slots_;
  const uint64_t feature_dim_;
  // The example in hand.
  float label_ = 0;
  std::vector<float> dense_;
  std::vector<Key> keys_;
  std::vector<uint32_t> counts_;  // keys of each slot
  bool one_each_ = true;
};

}  // namespace

std::string BucketText(std::optional<int64_t> x) {
  if (!x.has_value()) return "";
  return *x > 2 ? absl::StrCat(BucketOf(*x)) : absl::StrCat("SP", *x);
}

std::unique_ptr<LineParser> NewLineParser(const DataOptions& options) {
  if (options.format == DataOptions::Format::kMultiSlot) {
    return std::make_unique<MultiSlotParser>(options);
  }
  return std::make_unique<CriteoParser>(options);
}

}  // namespace oarlock
