// Which device computes, and so which math backend, out of what the user said.

#ifndef OARLOCK_NN_BACKENDS_DEVICE_CHOICE_H_
#define OARLOCK_NN_BACKENDS_DEVICE_CHOICE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nn/cuda/gpu.h"

namespace oarlock::nn {

struct DeviceChoice {
  std::string math_backend;  // for NewMathBackend
  // What a log should say, one line: "computing on the CPU: ..."; empty where
  // the user has asked for just that.
  std::string log_line;
};

// What can be told on any machine. InvalidArgument: `device` is not one of
// "cpu", "gpu", "gpu:N" and "auto"; it is "cpu" and `math` is "tf32"; or it is
// "gpu" or "auto", and `selected_gpus` is neither empty nor begins with a
// number.
//
// `selected_gpus` is what FLAGS_selected_gpus says, which a launcher sets for
// each worker: the numbers of GPUs between commas, of which the first counts.
// Empty: nothing.
absl::Status CheckDevice(const std::string& device, const std::string& math,
                         const std::string& selected_gpus);

// `math` is "float32", "tf32" or "bfloat16". "gpu" and "auto" take the GPU that
// `selected_gpus` names, or else number `worker` modulo the GPUs there are, so
// that the workers of a node share them; "auto" takes the CPU where there is
// none.
//
// InvalidArgument: as CheckDevice, or tf32 on the CPU of "auto".
// FailedPrecondition: a GPU was asked for and is not there; the message has the
// driver's words.
absl::StatusOr<DeviceChoice> ChooseDevice(const std::string& device,
                                          const std::string& math,
                                          uint32_t worker,
                                          const std::string& selected_gpus,
                                          const cuda::Gpus& gpus);
// With the GPUs of this machine, which are looked for unless `device` is "cpu".
absl::StatusOr<DeviceChoice> ChooseDevice(const std::string& device,
                                          const std::string& math,
                                          uint32_t worker,
                                          const std::string& selected_gpus);

}  // namespace oarlock::nn

#endif  // OARLOCK_NN_BACKENDS_DEVICE_CHOICE_H_
