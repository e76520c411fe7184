// The settings that all workers of a run must share. Workers with different
// ones would train something that nobody asked for.

#ifndef OARLOCK_COORDINATOR_RUN_SETTINGS_H_
#define OARLOCK_COORDINATOR_RUN_SETTINGS_H_

#include <google/protobuf/repeated_ptr_field.h>

#include <map>
#include <string>

#include "absl/status/status.h"
#include "base/types.h"
#include "proto/state/coordinator_state.pb.h"
#include "proto/v1/job_description.pb.h"

namespace oarlock::coordinator {

// Not thread-safe.
class RunSettings {
 public:
  using Flags = google::protobuf::RepeatedPtrField<v1::JobDescription::Flag>;

  // InvalidArgument beyond 256 flags or 64 KiB. FailedPrecondition names the
  // first flag that the worker has with another value than a worker before it,
  // both values and both workers. Flags that only one of them names are not
  // compared.
  absl::Status Check(WorkerIndex worker, const Flags& flags) const;
  // Keeps those that nobody has named before. REQUIRES: Check is OK.
  void Record(WorkerIndex worker, const Flags& flags);
  // Of the next run, or of a worker that registers again while it is the only
  // one.
  void Clear() { settings_.clear(); }

  void Save(v1::CoordinatorState* state) const;
  // Takes the place of what is there.
  void Load(const v1::CoordinatorState& state);

 private:
  struct Setting {
    std::string value;
    // The first that named it.
    WorkerIndex worker;
  };

  // By name.
  std::map<std::string, Setting> settings_;
};

}  // namespace oarlock::coordinator

#endif  // OARLOCK_COORDINATOR_RUN_SETTINGS_H_
