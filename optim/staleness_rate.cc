#include "optim/staleness_rate.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace oarlock::optim {

absl::StatusOr<StalenessRate> StalenessRate::Create(
    const v1::TableConfig& config) {
  const float power = config.dense().staleness_power();
  if (!(power >= 0 && power <= 1)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "staleness_power is ", power, "; legal is 0 to 1; 0: the whole rate"));
  }
  if (power == 0) return StalenessRate(0);
  if (config.dense().quorum() > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("staleness_power is ", power, " with a quorum of ",
                     config.dense().quorum(),
                     "; legal is one of the two: those who wait for a quorum "
                     "are not stale"));
  }
  if (config.mode() != v1::ASYNC) {
    return absl::InvalidArgumentError(absl::StrCat(
        "staleness_power is ", power, " with mode ",
        v1::UpdateMode_Name(config.mode()),
        "; legal is 0: only in mode ASYNC are gradients applied as they come"));
  }
  if (config.optimizer().has_ftrl()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "staleness_power is ", power,
        " with ftrl; legal is 0: its weights follow from sums of all gradients "
        "at one rate"));
  }
  return StalenessRate(power);
}

}  // namespace oarlock::optim
