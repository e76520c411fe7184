// Floats in two bytes each: what `values16` of the data plane's messages
// holds, little-endian.
//
// Narrowing rounds to nearest, ties to even, and keeps finite values finite: a
// value beyond the format's range becomes the largest value of the format. An
// infinite gradient would ruin a row (adagrad makes infinity / infinity of it);
// a clamped one is a large step. Infinities and NaN stay what they are, so that
// a model that diverged is noticed.

#ifndef OARLOCK_WIRE_VALUE_FORMAT_H_
#define OARLOCK_WIRE_VALUE_FORMAT_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "proto/v1/parameter.pb.h"

namespace oarlock::wire {

// bfloat16: the upper half of an IEEE single.
uint16_t ToBfloat16(float value);
float FromBfloat16(uint16_t bits);

// IEEE 754 half precision, with subnormals. NaN becomes the quiet one.
uint16_t ToFloat16(float value);
float FromFloat16(uint16_t bits);

// Bytes of one value: 4 or 2.
size_t ValueBytes(v1::ValueFormat format);

// The format named "float32", "bfloat16" or "float16"; InvalidArgument for
// anything else.
absl::StatusOr<v1::ValueFormat> ParseValueFormat(absl::string_view name);

// Convert arrays, with the same bits as the functions above on every
// instruction set. REQUIRES: `format` is BFLOAT16 or FLOAT16.

// REQUIRES: the sizes are equal.
void NarrowValues(v1::ValueFormat format, absl::Span<const float> from,
                  absl::Span<uint16_t> to);
// `from`: two bytes for each of `to`, at any alignment.
void WidenValues(v1::ValueFormat format, const void* from,
                 absl::Span<float> to);

}  // namespace oarlock::wire

#endif  // OARLOCK_WIRE_VALUE_FORMAT_H_
