// The key of a value of a feature: which row of which table it is
// (docs/design/0032-daily-job.md).
//
//   key = number << 48 | (XXH64(value, seed) mod 2^48)
//   seed = XXH64(name of the feature whose rows it has, 0)
//
// A value is text, its UTF-8 bytes, or an integer, 64 bits in two's complement,
// little-endian. Null is a value of its own: the integer -2^63 under the seed
// XXH64(name, 1), which is no value's seed.
//
// Test vectors, more of them in tests/data/features/feature_key_test.cc:
//
//   number 1 of "user", integer 42     0x0001bd434681181e
//   number 2 of "item", text "abc"     0x000201b93c889d48

#ifndef OARLOCK_DATA_FEATURES_FEATURE_KEY_H_
#define OARLOCK_DATA_FEATURES_FEATURE_KEY_H_

#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "base/feature_hasher.h"
#include "base/types.h"

namespace oarlock::data {

// Keys of one feature, or of all that share its rows.
class FeatureKeys {
 public:
  static constexpr int kValueBits = 48;
  static_assert(std::endian::native == std::endian::little);
  // Numbers of features: 0 and 65535 are free for what is no feature's.
  static constexpr uint32_t kMinNumber = 1;
  static constexpr uint32_t kMaxNumber = 65534;

  // `name`: of the feature whose rows they are. REQUIRES: a legal number.
  FeatureKeys(std::string_view name, uint32_t number);

  Key OfText(std::string_view value) const {
    return value.size() == 8 ? KeyOf(Xxh64Of8(WordOf(value.data()), seed_))
                             : OfLongText(value);
  }
  Key OfInteger(int64_t value) const {
    return KeyOf(Xxh64Of8(static_cast<uint64_t>(value), seed_));
  }
  Key OfNull() const { return null_; }

  static uint32_t NumberOf(Key key) {
    return static_cast<uint32_t>(static_cast<uint64_t>(key) >> kValueBits);
  }

 private:
  // The 8 bytes, the first the lowest.
  static uint64_t WordOf(const char* bytes) {
    uint64_t word;
    std::memcpy(&word, bytes, sizeof word);
    return word;
  }
  Key OfLongText(std::string_view value) const;
  Key KeyOf(uint64_t hash) const {
    return Key{high_ | (hash & ((uint64_t{1} << kValueBits) - 1))};
  }

  const uint64_t seed_;
  const uint64_t high_;
  const Key null_;
};

}  // namespace oarlock::data

#endif  // OARLOCK_DATA_FEATURES_FEATURE_KEY_H_
