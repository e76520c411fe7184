#include "sparse_table/rules/score_rule.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"

namespace oarlock::sparse_table {
namespace {

absl::Status CheckCoefficient(absl::string_view name, float value) {
  if (std::isfinite(value) && value >= 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, " is ", value, "; legal is a number of at least 0"));
}

}  // namespace

absl::StatusOr<ScoreRule> ScoreRule::Create(const v1::CtrOptions& options) {
  ScoreRule rule;
  if (options.has_non_click_coefficient()) {
    rule.non_click_coefficient_ = options.non_click_coefficient();
  }
  if (options.has_click_coefficient()) {
    rule.click_coefficient_ = options.click_coefficient();
  }
  OARLOCK_RETURN_IF_ERROR(
      CheckCoefficient("non_click_coefficient", rule.non_click_coefficient_));
  OARLOCK_RETURN_IF_ERROR(
      CheckCoefficient("click_coefficient", rule.click_coefficient_));
  const float rate = options.decay_rate();
  if (!(rate >= 0 && rate <= 1)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "decay_rate is ", rate, "; legal is above 0 to 1, or 0 for no decay"));
  }
  if (rate != 0) rule.decay_rate_ = rate;
  if (options.decay_period_ticks() != 0) {
    rule.decay_period_ticks_ = options.decay_period_ticks();
  }
  return rule;
}

}  // namespace oarlock::sparse_table
