#include "worker/config/training_mode.h"

#include <string_view>
#include <utility>

#include "base/check.h"

namespace oarlock::worker {

TrainingMode ModeOf(const v1::JobConfig& config) {
  constexpr std::pair<std::string_view, TrainingMode> kModes[] = {
      {"async", TrainingMode::kAsync}, {"half_async", TrainingMode::kHalfAsync},
      {"ssp", TrainingMode::kSsp},     {"sync", TrainingMode::kSync},
      {"geo", TrainingMode::kGeo},
  };
  for (const auto& [name, mode] : kModes) {
    if (config.mode() == name) return mode;
  }
  OARLOCK_CHECK(false && "the mode was checked with the flags");
}

}  // namespace oarlock::worker
