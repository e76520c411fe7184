// Floats of a received message, in the format in which they travelled.

#ifndef OARLOCK_WIRE_RECEIVED_FLOATS_H_
#define OARLOCK_WIRE_RECEIVED_FLOATS_H_

#include <cstddef>
#include <vector>

#include "proto/v1/parameter.pb.h"
#include "wire/sliced_bytes.h"

namespace oarlock::wire {

// An array that stays where the transport left it until floats are needed. Then
// it is widened into the place where they are needed. Copies share the bytes.
// Immutable; thread-safe.
class ReceivedFloats {
 public:
  ReceivedFloats() = default;
  // `bytes`: values of `format`, little-endian, at any alignment.
  // REQUIRES: whole values.
  explicit ReceivedFloats(SlicedBytes bytes,
                          v1::ValueFormat format = v1::FLOAT32);

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

  // Whether no value is infinite or NaN.
  bool AllFinite() const;

  // Writes the values [begin, begin + count) to `to`. REQUIRES: they exist.
  void CopyTo(size_t begin, size_t count, float* to) const;

  // The values [begin, begin + count): the received memory where it holds
  // floats, contiguous and aligned, else a copy in `scratch`, which is grown as
  // needed. Valid while both this and `scratch` are. REQUIRES: they exist.
  const float* Elements(size_t begin, size_t count,
                        std::vector<float>* scratch) const;

 private:
  SlicedBytes bytes_;
  v1::ValueFormat format_ = v1::FLOAT32;
  size_t size_ = 0;
};

}  // namespace oarlock::wire

#endif  // OARLOCK_WIRE_RECEIVED_FLOATS_H_
