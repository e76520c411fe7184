// What a table makes of the shows and clicks of its rows (accessor CTR).
//
//   score = non_click_coefficient * (show - click) + click_coefficient * click
//
// Both statistics decay: at the end of each period of `decay_period_ticks` they
// are multiplied by `decay_rate`. No sweep does that; a row's last touch says
// how many periods have ended since its statistics were written, and whoever
// reads them multiplies by
//
//   decay_rate ^ (floor(now / period) - floor(last touch / period))

#ifndef OARLOCK_SPARSE_TABLE_RULES_SCORE_RULE_H_
#define OARLOCK_SPARSE_TABLE_RULES_SCORE_RULE_H_

#include <cmath>
#include <cstdint>

#include "absl/status/statusor.h"
#include "proto/v1/table.pb.h"

namespace oarlock::sparse_table {

// Immutable, hence thread-safe.
class ScoreRule {
 public:
  static constexpr float kDefaultNonClickCoefficient = 0.1f;
  static constexpr float kDefaultClickCoefficient = 1.0f;
  static constexpr uint32_t kDefaultDecayPeriodTicks = 86400;

  // InvalidArgument when a coefficient is negative or not finite, or the decay
  // rate is outside [0, 1].
  static absl::StatusOr<ScoreRule> Create(const v1::CtrOptions& options);

  float Score(float show, float click) const {
    return non_click_coefficient_ * (show - click) + click_coefficient_ * click;
  }

  // What statistics of logical time `from` are multiplied by at `now`.
  // REQUIRES: from <= now.
  float DecayFactor(uint32_t from, uint32_t now) const {
    if (!decays() || from >= now - now % decay_period_ticks_) return 1;
    return std::pow(decay_rate_,
                    static_cast<float>(now / decay_period_ticks_ -
                                       from / decay_period_ticks_));
  }
  bool decays() const { return decay_rate_ != 1; }

 private:
  ScoreRule() = default;

  float non_click_coefficient_ = kDefaultNonClickCoefficient;
  float click_coefficient_ = kDefaultClickCoefficient;
  float decay_rate_ = 1;
  uint32_t decay_period_ticks_ = kDefaultDecayPeriodTicks;
};

}  // namespace oarlock::sparse_table

#endif  // OARLOCK_SPARSE_TABLE_RULES_SCORE_RULE_H_
