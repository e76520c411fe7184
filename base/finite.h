// Whether numbers are finite, at the speed of memory.

#ifndef OARLOCK_BASE_FINITE_H_
#define OARLOCK_BASE_FINITE_H_

#include <cstddef>

namespace oarlock {

// The first of the values [n] that is infinite or NaN; n: all are finite.
size_t FirstNotFinite(const float* values, size_t n);

// Whether n floats are, at any alignment.
bool AllFinite(const void* floats, size_t n);

}  // namespace oarlock

#endif  // OARLOCK_BASE_FINITE_H_
