#include "coordinator/run_settings.h"

#include <cstddef>

#include "absl/strings/str_cat.h"

namespace oarlock::coordinator {
namespace {

constexpr int kMaxFlags = 256;
constexpr size_t kMaxBytes = 64 << 10;

}  // namespace

absl::Status RunSettings::Check(WorkerIndex worker, const Flags& flags) const {
  size_t bytes = 0;
  for (const v1::JobDescription::Flag& flag : flags) {
    bytes += flag.name().size() + flag.value().size();
  }
  if (flags.size() > kMaxFlags || bytes > kMaxBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "worker ", worker.value(), " registers with ", flags.size(),
        " settings of ", bytes, " bytes; legal are up to ", kMaxFlags, " and ",
        kMaxBytes, ": shorten them"));
  }
  for (const v1::JobDescription::Flag& flag : flags) {
    const auto it = settings_.find(flag.name());
    if (it == settings_.end() || it->second.value == flag.value()) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        "worker ", worker.value(), " has --", flag.name(), " ", flag.value(),
        ", worker ", it->second.worker.value(), " has --", flag.name(), " ",
        it->second.value, "; start all workers of a job with the same"));
  }
  return absl::OkStatus();
}

void RunSettings::Record(WorkerIndex worker, const Flags& flags) {
  for (const v1::JobDescription::Flag& flag : flags) {
    settings_.try_emplace(flag.name(), Setting{flag.value(), worker});
  }
}

void RunSettings::Save(v1::CoordinatorState* state) const {
  for (const auto& [name, setting] : settings_) {
    v1::RunSettingState* const saved = state->add_settings();
    saved->set_name(name);
    saved->set_value(setting.value);
    saved->set_worker_index(setting.worker.value());
  }
}

void RunSettings::Load(const v1::CoordinatorState& state) {
  settings_.clear();
  for (const v1::RunSettingState& saved : state.settings()) {
    settings_.try_emplace(
        saved.name(),
        Setting{saved.value(), WorkerIndex(saved.worker_index())});
  }
}

}  // namespace oarlock::coordinator
