// Which files the inputs of a job have: one worker lists them, and all read the
// same.

#ifndef OARLOCK_COORDINATOR_INPUTS_INPUT_FILES_H_
#define OARLOCK_COORDINATOR_INPUTS_INPUT_FILES_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/state/coordinator_state.pb.h"
#include "proto/v1/coordinator_inputs.pb.h"

namespace oarlock::coordinator {

// Not thread-safe.
class InputFiles {
 public:
  // Of all inputs together.
  static constexpr uint64_t kMaxBytes = uint64_t{64} << 20;
  static constexpr size_t kMaxInputs = 1024;

  // It is there already, as a call that is repeated finds it.
  bool IsKnown(const v1::DefineInputRequest& part) const;
  // Whether the part may be defined, see proto/v1/coordinator_service.proto.
  absl::Status Check(const v1::DefineInputRequest& part) const;
  // REQUIRES: Check is OK.
  void Define(const v1::DefineInputRequest& part);
  // NotFound: its last part has not come.
  absl::StatusOr<v1::GetInputResponse> Get(
      const v1::GetInputRequest& request) const;

  using State = google::protobuf::RepeatedPtrField<v1::DefineInputRequest>;
  void Save(State* state) const;
  void Load(const State& state);

 private:
  using Parts = std::vector<v1::DefineInputRequest>;
  static bool IsWhole(const Parts& parts) {
    return !parts.empty() && parts.back().last();
  }

  // By name.
  std::map<std::string, Parts> inputs_;
  uint64_t bytes_ = 0;
};

}  // namespace oarlock::coordinator

#endif  // OARLOCK_COORDINATOR_INPUTS_INPUT_FILES_H_
