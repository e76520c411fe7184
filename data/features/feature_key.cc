#include "data/features/feature_key.h"

#include <xxhash.h>

#include <limits>

#include "base/check.h"

namespace oarlock::data {
namespace {

uint64_t HashOf(std::string_view text, uint64_t seed) {
  return XXH64(text.data(), text.size(), seed);
}

}  // namespace

FeatureKeys::FeatureKeys(std::string_view name, uint32_t number)
    : seed_(HashOf(name, 0)),
      high_(uint64_t{number} << kValueBits),
      null_(KeyOf(
          Xxh64Of8(static_cast<uint64_t>(std::numeric_limits<int64_t>::min()),
                   HashOf(name, 1)))) {
  OARLOCK_CHECK(number >= kMinNumber && number <= kMaxNumber);
}

Key FeatureKeys::OfLongText(std::string_view value) const {
  return KeyOf(HashOf(value, seed_));
}

}  // namespace oarlock::data
