#include "sparse_table/rules/admission_rule.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/random.h"

namespace oarlock::sparse_table {
namespace {

// Draws of admission are no initial values.
constexpr uint64_t kDrawPurpose = 0xad315510;

}  // namespace

absl::StatusOr<AdmissionRule> AdmissionRule::Create(
    const v1::TableConfig& config, int partition_bits) {
  const v1::AdmissionConfig& admission = config.sparse().admission();
  AdmissionRule rule;
  rule.seed_ = DeriveSeed(DeriveSeed(config.seed(), config.id()), kDrawPurpose);
  uint32_t units = 1;
  switch (admission.kind_case()) {
    case v1::AdmissionConfig::KIND_NOT_SET:
      return rule;
    case v1::AdmissionConfig::kProbability: {
      rule.kind_ = Kind::kProbability;
      rule.probability_ = admission.probability().probability();
      if (rule.probability_ > 0 && rule.probability_ < 1) return rule;
      return absl::InvalidArgumentError(absl::StrCat(
          "admission probability is ", rule.probability_,
          "; legal is above 0 and below 1; leave admission out for all keys"));
    }
    case v1::AdmissionConfig::kCount:
      rule.kind_ = Kind::kCount;
      rule.threshold_ = admission.count().pushes();
      if (rule.threshold_ < 2 || rule.threshold_ > CountSketch::kCounterMax) {
        return absl::InvalidArgumentError(absl::StrCat(
            "admission count is ", rule.threshold_, " pushes; legal is 2 to ",
            CountSketch::kCounterMax, "; leave admission out for all keys"));
      }
      break;
    case v1::AdmissionConfig::kShowClick: {
      rule.kind_ = Kind::kShowClick;
      const float score = admission.show_click().score();
      if (!std::isnormal(score) || score < 0) {
        return absl::InvalidArgumentError(
            absl::StrCat("admission score is ", score, "; legal is above 0"));
      }
      if (config.sparse().accessor() != v1::CTR) {
        return absl::InvalidArgumentError(
            "admission by show and click needs accessor CTR; set it, or "
            "another admission");
      }
      rule.threshold_ = kScoreUnits;
      rule.units_per_score_ = kScoreUnits / score;
      units = kScoreUnits / 8;
      break;
    }
  }
  const uint64_t bytes =
      (admission.sketch_bytes() == 0 ? kDefaultSketchBytes
                                     : admission.sketch_bytes()) >>
      partition_bits;
  if (bytes < kMinSketchBytes || bytes > kMaxSketchBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "admission has ", admission.sketch_bytes(), " sketch_bytes for ",
        1 << partition_bits, " partitions; legal is ", kMinSketchBytes, " to ",
        kMaxSketchBytes, " a partition"));
  }
  rule.sketch_width_ = static_cast<uint32_t>(
      std::bit_floor(bytes / (CountSketch::kDepth * sizeof(uint16_t))));
  // e * (width / 2) * units / width = 1.36 units: off by more than that in
  // 1.8 % of all cases at most.
  rule.sketch_sum_max_ = uint64_t{rule.sketch_width_} / 2 * units;
  return rule;
}

std::unique_ptr<CountSketch> AdmissionRule::NewSketch() const {
  if (sketch_width_ == 0) return nullptr;
  return std::make_unique<CountSketch>(sketch_width_, sketch_sum_max_);
}

uint64_t AdmissionRule::DrawsOf(absl::Span<const PushStamp> stamps) const {
  // Generations are taken from a clock, so they differ from run to run.
  uint64_t draws = seed_;
  for (const PushStamp& stamp : stamps) {
    draws = DeriveSeed(DeriveSeed(draws, stamp.worker.value()),
                       stamp.sequence.value());
  }
  return draws;
}

bool AdmissionRule::Admit(uint64_t draws, Key key, uint64_t mix, float score,
                          CountSketch* sketch) const {
  switch (kind_) {
    case Kind::kAlways:
      return true;
    case Kind::kProbability:
      return RandomUniform(draws, static_cast<uint64_t>(key)) < probability_;
    case Kind::kCount:
      return sketch->Add(mix, 1) >= threshold_;
    case Kind::kShowClick: {
      // What is no number counts for nothing.
      const float units = score > 0 ? std::min(score * units_per_score_,
                                               static_cast<float>(kScoreUnits))
                                    : 0.0f;
      return sketch->Add(mix, static_cast<uint32_t>(std::lround(units))) >=
             threshold_;
    }
  }
  OARLOCK_CHECK(false);
}

}  // namespace oarlock::sparse_table
