// A checkpoint's manifest for people and for programs.

#ifndef OARLOCK_CLI_CHECKPOINT_CHECKPOINT_VIEW_H_
#define OARLOCK_CLI_CHECKPOINT_CHECKPOINT_VIEW_H_

#include <nlohmann/json.hpp>
#include <string>

#include "checkpoint/manifest.h"

namespace oarlock {

std::string FormatCheckpoint(const LoadedCheckpoint& checkpoint);
nlohmann::ordered_json CheckpointJson(const LoadedCheckpoint& checkpoint);

}  // namespace oarlock

#endif  // OARLOCK_CLI_CHECKPOINT_CHECKPOINT_VIEW_H_
