// Chooses the device that computes, and so the math backend, from the user's
// options.

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
  // One line for the log: "computing on the CPU: ..."; empty where the choice
  // is exactly what the user requested.
  std::string log_line;
};

// Checks the options as far as that is possible on any machine. InvalidArgument
// if `device` is not one of "cpu", "gpu", "gpu:N" and "auto", or if it is "cpu"
// and `math` is "tf32". Also InvalidArgument if `device` is "gpu" or "auto",
// and `selected_gpus` is neither empty nor begins with a number.
//
// `selected_gpus` is the value of FLAGS_selected_gpus, which a launcher sets
// for each worker: GPU numbers between commas. Only the first number is used.
// Empty: no GPU is selected.
absl::Status CheckDevice(const std::string& device, const std::string& math,
                         const std::string& selected_gpus);

// `math` is "float32", "tf32" or "bfloat16". "gpu" and "auto" take the GPU that
// `selected_gpus` names. Without such a name they take number `worker` modulo
// the number of GPUs, so that the workers of a node share the GPUs. "auto"
// takes the CPU where there is no GPU.
//
// InvalidArgument: as CheckDevice, or tf32 on the CPU of "auto".
// FailedPrecondition: a GPU was requested and does not exist; the message has
// the driver's message.
absl::StatusOr<DeviceChoice> ChooseDevice(const std::string& device,
                                          const std::string& math,
                                          uint32_t worker,
                                          const std::string& selected_gpus,
                                          const cuda::Gpus& gpus);
// As above, with the GPUs of this machine. It looks for GPUs unless `device` is
// "cpu".
absl::StatusOr<DeviceChoice> ChooseDevice(const std::string& device,
                                          const std::string& math,
                                          uint32_t worker,
                                          const std::string& selected_gpus);

}  // namespace oarlock::nn

#endif  // OARLOCK_NN_BACKENDS_DEVICE_CHOICE_H_
