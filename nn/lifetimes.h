// Places arrays that are not all needed at the same time into little memory, by
// a simple rule.

#ifndef OARLOCK_NN_LIFETIMES_H_
#define OARLOCK_NN_LIFETIMES_H_

#include <cstddef>
#include <vector>

#include "absl/types/span.h"

namespace oarlock::nn {

// An array of `size` that is needed from time `begin` to time `end`, both
// included.
struct Lifetime {
  size_t size = 0;
  size_t begin = 0;
  size_t end = 0;
};

struct Places {
  std::vector<size_t> begins;  // of each array
  size_t total = 0;            // size of the memory for all arrays
};

// Places such that arrays needed at the same time do not overlap. Arrays are
// placed in the given order, each into the first gap that is large enough. The
// place of an array of size 0 has no meaning.
Places PlaceByLifetime(absl::Span<const Lifetime> arrays);

}  // namespace oarlock::nn

#endif  // OARLOCK_NN_LIFETIMES_H_
