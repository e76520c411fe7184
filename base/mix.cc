#include "base/mix.h"

#include <xxhash.h>

namespace oarlock {

Key FeatureHash(std::string_view value, uint32_t slot, uint64_t feature_dim) {
  const uint64_t hash = XXH64(value.data(), value.size(), slot);
  return Key{feature_dim == 0 ? hash : hash % feature_dim};
}

}  // namespace oarlock
