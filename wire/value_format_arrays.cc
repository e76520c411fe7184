// The array functions of value_format.h. They use integer arithmetic, not the
// conversions of the instruction sets. Those differ in what they make of NaN
// and of values out of range.

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "wire/value_format.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "wire/value_format_arrays.cc"
#include "hwy/foreach_target.h"
// Highway compiles what follows once per instruction set.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace oarlock::wire::value_format {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
// As many lanes as Floats. Signed: comparisons of unsigned numbers cost more,
// and no magnitude needs the highest bit.
using Words = hn::RebindToSigned<Floats>;
using Halves = hn::Rebind<uint16_t, Floats>;

constexpr Floats kFloats;
constexpr Words kWords;
constexpr Halves kHalves;

using Word = hn::Vec<Words>;

HWY_INLINE Word Constant(int32_t value) { return hn::Set(kWords, value); }

// `magnitude` without its lowest `kBits`, rounded to nearest even.
template <int kBits>
HWY_INLINE Word RoundAway(Word magnitude) {
  const Word odd = hn::And(hn::ShiftRight<kBits>(magnitude), Constant(1));
  const Word half_minus_one = Constant((1 << (kBits - 1)) - 1);
  return hn::ShiftRight<kBits>(
      hn::Add(hn::Add(magnitude, half_minus_one), odd));
}

// Each converts a float's magnitude to 16 bits without sign.

struct MagnitudeToBfloat16 {
  HWY_INLINE Word operator()(Word magnitude) const {
    const Word infinity = Constant(0x7f800000);
    const Word finite = hn::Min(RoundAway<16>(magnitude), Constant(0x7f7f));
    const Word quiet =
        hn::IfThenElseZero(hn::Gt(magnitude, infinity), Constant(0x40));
    const Word special = hn::Or(hn::ShiftRight<16>(magnitude), quiet);
    return hn::IfThenElse(hn::Lt(magnitude, infinity), finite, special);
  }
};

struct MagnitudeToFloat16 {
  HWY_INLINE Word operator()(Word magnitude) const {
    const Word infinity = Constant(0x7f800000);
    const Word rebased = hn::Sub(magnitude, Constant((127 - 15) << 23));
    const Word normal = hn::Min(RoundAway<13>(rebased), Constant(0x7bff));
    // Floats from .5 to 1 have a grain of 2^-24: the addition rounds to it.
    const auto half = hn::Set(kFloats, 0.5f);
    const Word subnormal = hn::Sub(
        hn::BitCast(kWords, hn::Add(hn::BitCast(kFloats, magnitude), half)),
        hn::BitCast(kWords, half));
    const Word finite = hn::IfThenElse(hn::Lt(magnitude, Constant(0x38800000)),
                                       subnormal, normal);
    const Word special = hn::IfThenElse(hn::Gt(magnitude, infinity),
                                        Constant(0x7e00), Constant(0x7c00));
    return hn::IfThenElse(hn::Lt(magnitude, infinity), finite, special);
  }
};

template <typename ToMagnitude>
HWY_INLINE void Narrow(const float* HWY_RESTRICT from, size_t size,
                       uint16_t (*narrow_one)(float),
                       uint16_t* HWY_RESTRICT to) {
  const ToMagnitude to_magnitude;
  const size_t lanes = hn::Lanes(kFloats);
  size_t i = 0;
  for (; i + lanes <= size; i += lanes) {
    const Word bits = hn::BitCast(kWords, hn::LoadU(kFloats, from + i));
    const Word magnitude = hn::And(bits, Constant(0x7fffffff));
    const Word sign = hn::And(hn::ShiftRight<16>(bits), Constant(0x8000));
    const Word narrow = hn::Or(sign, to_magnitude(magnitude));
    hn::StoreU(hn::DemoteTo(kHalves, narrow), kHalves, to + i);
  }
  for (; i < size; ++i) to[i] = narrow_one(from[i]);
}

struct BitsFromBfloat16 {
  HWY_INLINE Word operator()(Word narrow) const {
    return hn::ShiftLeft<16>(narrow);
  }
};

struct BitsFromFloat16 {
  HWY_INLINE Word operator()(Word narrow) const {
    const Word sign = hn::ShiftLeft<16>(hn::And(narrow, Constant(0x8000)));
    const Word magnitude = hn::And(narrow, Constant(0x7fff));
    const Word shifted = hn::ShiftLeft<13>(magnitude);
    const Word normal = hn::Add(shifted, Constant((127 - 15) << 23));
    const Word subnormal = hn::BitCast(
        kWords,
        hn::Mul(hn::ConvertTo(kFloats, magnitude), hn::Set(kFloats, 0x1p-24f)));
    const Word special = hn::Or(shifted, Constant(0x7f800000));
    const Word finite =
        hn::IfThenElse(hn::Lt(magnitude, Constant(0x400)), subnormal, normal);
    return hn::Or(sign, hn::IfThenElse(hn::Lt(magnitude, Constant(0x7c00)),
                                       finite, special));
  }
};

// At any alignment.
HWY_INLINE hn::Vec<Halves> LoadHalves(const uint8_t* from) {
#if HWY_TARGET == HWY_SCALAR
  uint16_t half;
  std::memcpy(&half, from, sizeof half);
  return hn::Set(kHalves, half);
#else
  const hn::Repartition<uint8_t, Halves> bytes;
  return hn::BitCast(kHalves, hn::LoadU(bytes, from));
#endif
}

template <typename ToBits>
HWY_INLINE void Widen(const uint8_t* HWY_RESTRICT from, size_t size,
                      float (*widen_one)(uint16_t), float* HWY_RESTRICT to) {
  const ToBits to_bits;
  const size_t lanes = hn::Lanes(kFloats);
  size_t i = 0;
  for (; i + lanes <= size; i += lanes) {
    const Word narrow = hn::PromoteTo(kWords, LoadHalves(from + 2 * i));
    hn::StoreU(hn::BitCast(kFloats, to_bits(narrow)), kFloats, to + i);
  }
  for (; i < size; ++i) {
    const uint32_t low = from[2 * i], high = from[2 * i + 1];
    to[i] = widen_one(static_cast<uint16_t>(low | high << 8));
  }
}

void NarrowToBfloat16(const float* from, size_t size, uint16_t* to) {
  Narrow<MagnitudeToBfloat16>(from, size, ToBfloat16, to);
}
void NarrowToFloat16(const float* from, size_t size, uint16_t* to) {
  Narrow<MagnitudeToFloat16>(from, size, ToFloat16, to);
}
void WidenBfloat16(const uint8_t* from, size_t size, float* to) {
  Widen<BitsFromBfloat16>(from, size, FromBfloat16, to);
}
void WidenFloat16(const uint8_t* from, size_t size, float* to) {
  Widen<BitsFromFloat16>(from, size, FromFloat16, to);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace oarlock::wire::value_format
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include "base/check.h"

namespace oarlock::wire {
namespace value_format {

HWY_EXPORT(NarrowToBfloat16);
HWY_EXPORT(NarrowToFloat16);
HWY_EXPORT(WidenBfloat16);
HWY_EXPORT(WidenFloat16);

}  // namespace value_format

void NarrowValues(v1::ValueFormat format, absl::Span<const float> from,
                  absl::Span<uint16_t> to) {
  using namespace value_format;  // The dispatch needs bare names.
  OARLOCK_CHECK(from.size() == to.size());
  OARLOCK_CHECK(format == v1::BFLOAT16 || format == v1::FLOAT16);
  if (format == v1::BFLOAT16) {
    HWY_DYNAMIC_DISPATCH(NarrowToBfloat16)(from.data(), from.size(), to.data());
  } else {
    HWY_DYNAMIC_DISPATCH(NarrowToFloat16)(from.data(), from.size(), to.data());
  }
}

void WidenValues(v1::ValueFormat format, const void* from,
                 absl::Span<float> to) {
  using namespace value_format;  // The dispatch needs bare names.
  OARLOCK_CHECK(format == v1::BFLOAT16 || format == v1::FLOAT16);
  const auto* bytes = static_cast<const uint8_t*>(from);
  if (format == v1::BFLOAT16) {
    HWY_DYNAMIC_DISPATCH(WidenBfloat16)(bytes, to.size(), to.data());
  } else {
    HWY_DYNAMIC_DISPATCH(WidenFloat16)(bytes, to.size(), to.data());
  }
}

}  // namespace oarlock::wire
#endif  // HWY_ONCE
