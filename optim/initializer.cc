#include "optim/initializer.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"

namespace oarlock::optim {
namespace {

absl::Status CheckNumber(absl::string_view field, float value, float lowest) {
  if (std::isfinite(value) && value >= lowest) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "initializer.", field, " is ", value, "; legal is ",
      lowest == 0 ? "a finite number of at least 0" : "any finite number",
      "; correct the table's initializer"));
}

// 32 random bits to [-1, 1) times `range`; 24 bits are used, so that the
// difference is exact in a float.
float UniformOf(uint32_t bits, float range) {
  constexpr int32_t kHalf = 1 << 23;
  const int32_t centred = static_cast<int32_t>(bits >> 8) - kHalf;
  return static_cast<float>(centred) * 0x1p-23f * range;
}

void FillUniform(uint64_t stream, uint64_t first, float range, float* values,
                 size_t n) {
  size_t i = 0;
  if (first % 2 == 1 && n > 0) {
    values[i++] = UniformOf(RandomBits(stream, first / 2) >> 32, range);
  }
  for (; i + 2 <= n; i += 2) {
    const uint64_t bits = RandomBits(stream, (first + i) / 2);
    values[i] = UniformOf(static_cast<uint32_t>(bits), range);
    values[i + 1] = UniformOf(bits >> 32, range);
  }
  if (i < n) {
    const uint64_t bits = RandomBits(stream, (first + i) / 2);
    values[i] = UniformOf(static_cast<uint32_t>(bits), range);
  }
}

}  // namespace

absl::StatusOr<InitialValues> InitialValues::Create(
    const v1::Initializer& config, uint64_t seed, TableId table) {
  constexpr float kLowest = std::numeric_limits<float>::lowest();
  const uint64_t stream = DeriveSeed(seed, table.value());
  switch (config.kind_case()) {
    case v1::Initializer::kUniformRange:
      OARLOCK_RETURN_IF_ERROR(
          CheckNumber("uniform_range", config.uniform_range(), 0));
      return InitialValues(Kind::kUniform, config.uniform_range(), stream);
    case v1::Initializer::kNormalStddev:
      OARLOCK_RETURN_IF_ERROR(
          CheckNumber("normal_stddev", config.normal_stddev(), 0));
      return InitialValues(Kind::kNormal, config.normal_stddev(), stream);
    case v1::Initializer::kConstant:
      OARLOCK_RETURN_IF_ERROR(
          CheckNumber("constant", config.constant(), kLowest));
      return InitialValues(Kind::kConstant, config.constant(), stream);
    case v1::Initializer::KIND_NOT_SET:
      break;
  }
  return InitialValues(Kind::kConstant, 0, stream);
}

void InitialValues::Fill(uint64_t stream, uint64_t first, float* values,
                         size_t n) const {
  switch (kind_) {
    case Kind::kConstant:
      std::fill_n(values, n, scale_);
      return;
    case Kind::kUniform:
      FillUniform(stream, first, scale_, values, n);
      return;
    case Kind::kNormal:
      for (size_t i = 0; i < n; ++i) {
        values[i] = RandomNormal(stream, first + i) * scale_;
      }
      return;
  }
}

}  // namespace oarlock::optim
