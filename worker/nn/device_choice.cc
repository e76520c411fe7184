#include "worker/nn/device_choice.h"

#include <optional>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

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

absl::StatusOr<std::string> CpuBackend(const std::string& math) {
  if (math == "tf32") {
    return absl::InvalidArgumentError(
        "--dense_math is tf32, and the CPU computes; legal on it are float32 "
        "and bfloat16: choose one, or --device gpu");
  }
  return std::string(math == "bfloat16" ? "onednn_bfloat16" : "onednn");
}

}  // namespace

absl::Status CheckDevice(const std::string& device) {
  if (device == "cpu" || device == "gpu" || device == "auto" ||
      NumberIn(device)) {
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
  if (const absl::Status status = CheckDevice(device); !status.ok()) {
    return status;
  }
  DeviceChoice choice;
  if (device == "cpu" || (device == "auto" && gpus.count == 0)) {
    absl::StatusOr<std::string> backend = CpuBackend(math);
    if (!backend.ok()) return backend.status();
    choice.math_backend = *backend;
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

}  // namespace oarlock
