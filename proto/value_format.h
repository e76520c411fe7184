// Floats in two bytes each: what `values16` of the data plane's messages
// holds, little-endian.

#ifndef OARLOCK_PROTO_VALUE_FORMAT_H_
#define OARLOCK_PROTO_VALUE_FORMAT_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "proto/parameter.pb.h"

namespace oarlock {

// bfloat16: the upper half of an IEEE single, rounded to nearest even.
uint16_t ToBfloat16(float value);
float FromBfloat16(uint16_t bits);

// IEEE 754 half precision, rounded to nearest even; too large becomes
// infinity, small values become subnormal.
uint16_t ToFloat16(float value);
float FromFloat16(uint16_t bits);

// Converts all of `from` into `to`. NaN stays NaN.
// REQUIRES: the sizes are equal; `format` is BFLOAT16 or FLOAT16.
void NarrowValues(v1::ValueFormat format, absl::Span<const float> from,
                  absl::Span<uint16_t> to);
void WidenValues(v1::ValueFormat format, absl::Span<const uint16_t> from,
                 absl::Span<float> to);

}  // namespace oarlock

#endif  // OARLOCK_PROTO_VALUE_FORMAT_H_
