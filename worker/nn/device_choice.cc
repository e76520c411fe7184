#include "worker/nn/device_choice.h"

#include <optional>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"

namespace oarlock {
namespace {

constexpr absl::string_view kGpuNumber = "gpu:";
// Far beyond any machine.
constexpr uint32_t kMaxGpus = 1024;

// The N of "gpu:N".
std::optional<int> NumberIn(absl::string_view device) {
  uint32_t number = 0;
  // SimpleAtoi would let spaces and signs pass.
  if (!absl::ConsumePrefix(&device, kGpuNumber) || device.empty() ||
      device.find_first_not_of("0123456789") != device.npos ||
      !absl::SimpleAtoi(device, &number) || number >= kMaxGpus) {
    return std::nullopt;
  }
  return static_cast<int>(number);
}

absl::Status CheckMathOfCpu(const std::string& math) {
  if (math != "tf32") return absl::OkStatus();
  return absl::InvalidArgumentError(
      "products are to be in tf32, and the CPU computes; legal on it are "
      "float32 and bfloat16: choose one, or --device gpu");
}

}  // namespace

absl::Status CheckDevice(const std::string& device, const std::string& math) {
  if (device == "cpu") return CheckMathOfCpu(math);
  if (device == "gpu" || device == "auto" || NumberIn(device)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "--device is \"", device,
      "\"; legal are cpu, gpu, gpu:N (GPU number N, from 0) and auto: choose "
      "one"));
}

absl::StatusOr<DeviceChoice> ChooseDevice(const std::string& device,
                                          const std::string& math,
                                          uint32_t worker,
                                          const cuda::Gpus& gpus) {
  OARLOCK_RETURN_IF_ERROR(CheckDevice(device, math));
  DeviceChoice choice;
  if (device == "cpu" || (device == "auto" && gpus.count == 0)) {
    OARLOCK_RETURN_IF_ERROR(CheckMathOfCpu(math));
    choice.math_backend = math == "bfloat16" ? "onednn_bfloat16" : "onednn";
    if (device == "auto") {
      choice.log_line =
          absl::StrCat("computing on the CPU: no GPU: ", gpus.why_none);
    }
    return choice;
  }
  if (gpus.count == 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        "--device is ", device, ", and no GPU can be used: ", gpus.why_none,
        "; legal here are cpu and auto"));
  }
  const int gpu = NumberIn(device).value_or(
      static_cast<int>(worker % static_cast<uint32_t>(gpus.count)));
  if (gpu >= gpus.count) {
    return absl::FailedPreconditionError(
        absl::StrCat("--device is ", device, ", and this machine has ",
                     gpus.count, gpus.count == 1 ? " GPU" : " GPUs",
                     "; legal are gpu:0 to gpu:", gpus.count - 1));
  }
  choice.math_backend = absl::StrCat(math == "tf32"       ? "cuda_tf32"
                                     : math == "bfloat16" ? "cuda_bfloat16"
                                                          : "cuda",
                                     ":", gpu);
  choice.log_line = absl::StrCat("computing on GPU ", gpu, " in ", math);
  return choice;
}

absl::StatusOr<DeviceChoice> ChooseDevice(const std::string& device,
                                          const std::string& math,
                                          uint32_t worker) {
  // Looking for GPUs starts the driver.
  return ChooseDevice(device, math, worker,
                      device == "cpu" ? cuda::Gpus() : cuda::FindGpus());
}

}  // namespace oarlock
