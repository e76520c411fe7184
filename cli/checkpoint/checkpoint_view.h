// A checkpoint's manifest for people and for programs.

#ifndef OARLOCK_CLI_CHECKPOINT_CHECKPOINT_VIEW_H_
#define OARLOCK_CLI_CHECKPOINT_CHECKPOINT_VIEW_H_

#include <nlohmann/json.hpp>
#include <string>

#include "checkpoint/manifest.h"

namespace oarlock::cli {

std::string FormatCheckpoint(const checkpoint::LoadedCheckpoint& checkpoint);
nlohmann::ordered_json CheckpointJson(
    const checkpoint::LoadedCheckpoint& checkpoint);

}  // namespace oarlock::cli

#endif  // OARLOCK_CLI_CHECKPOINT_CHECKPOINT_VIEW_H_
