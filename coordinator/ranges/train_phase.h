// Names of training phases: "train/0" is the first.

#ifndef OARLOCK_COORDINATOR_RANGES_TRAIN_PHASE_H_
#define OARLOCK_COORDINATOR_RANGES_TRAIN_PHASE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "cluster/wire_version.h"

namespace oarlock::coordinator {

inline std::string TrainPhaseName(uint32_t epoch) {
  return absl::StrCat("train/", epoch);
}

// The epoch of a training phase; nothing for another name.
inline std::optional<uint32_t> EpochOfPhaseName(absl::string_view phase_name) {
  uint32_t epoch = 0;
  if (!absl::ConsumePrefix(&phase_name, "train/") ||
      !absl::SimpleAtoi(phase_name, &epoch)) {
    return std::nullopt;
  }
  return epoch;
}

// The epoch of the barrier at which workers meet when it is trained,
// "train/0/trained"; nothing for another name.
inline std::optional<uint32_t> EpochOfTrainedBarrier(absl::string_view name) {
  if (!absl::ConsumeSuffix(&name, cluster::kTrainedBarrier)) {
    return std::nullopt;
  }
  return EpochOfPhaseName(name);
}

}  // namespace oarlock::coordinator

#endif  // OARLOCK_COORDINATOR_RANGES_TRAIN_PHASE_H_
