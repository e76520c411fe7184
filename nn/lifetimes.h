// Arrays that are not all needed at once, in as little memory as a simple rule
// finds.

#ifndef OARLOCK_NN_LIFETIMES_H_
#define OARLOCK_NN_LIFETIMES_H_

#include <cstddef>
#include <vector>

#include "absl/types/span.h"

namespace oarlock::nn {

// An array of `size` that is needed at times [begin, end].
struct Lifetime {
  size_t size = 0;
  size_t begin = 0;
  size_t end = 0;
};

struct Places {
  std::vector<size_t> begins;  // of each array
  size_t total = 0;            // what all of them lie in
};

// Places such that arrays needed at the same time do not overlap: one after
// the other as given, each at the first gap that is large enough. An array of
// size 0 lies anywhere.
Places PlaceByLifetime(absl::Span<const Lifetime> arrays);

}  // namespace oarlock::nn

#endif  // OARLOCK_NN_LIFETIMES_H_
