#include "nn/backends/device_choice.h"

#include <optional>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"

namespace oarlock::nn {
namespace {

constexpr absl::string_view kGpuNumber = "gpu:";
// Far more than any machine has.
constexpr uint32_t kMaxGpus = 1024;

std::optional<int> GpuNumber(absl::string_view digits) {
  uint32_t number = 0;
  // SimpleAtoi would accept spaces and signs.
  if (digits.empty() || digits.find_first_not_of("0123456789") != digits.npos ||
      !absl::SimpleAtoi(digits, &number) || number >= kMaxGpus) {
    return std::nullopt;
  }
  return static_cast<int>(number);
}

// The N of "gpu:N".
std::optional<int> NumberIn(absl::string_view device) {
  if (!absl::ConsumePrefix(&device, kGpuNumber)) return std::nullopt;
  return GpuNumber(device);
}

// The first number of "0,1".
std::optional<int> FirstOf(absl::string_view selected_gpus) {
  return GpuNumber(selected_gpus.substr(0, selected_gpus.find(',')));
}

absl::Status CheckMathOfCpu(const std::string& math) {
  if (math != "tf32") return absl::OkStatus();
  return absl::InvalidArgumentError(
      "products are to be in tf32, and the CPU computes; legal on it are "
      "float32 and bfloat16: choose one, or --device gpu");
}

}  // namespace

absl::Status CheckDevice(const std::string& device, const std::string& math,
                         const std::string& selected_gpus) {
  if (device == "cpu") return CheckMathOfCpu(math);
  if (NumberIn(device)) return absl::OkStatus();
  if (device == "gpu" || device == "auto") {
    if (selected_gpus.empty() || FirstOf(selected_gpus)) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "FLAGS_selected_gpus is \"", selected_gpus, "\", and --device is ",
        device,
        "; legal are numbers of GPUs, from 0, between commas: give those to "
        "the launcher's --gpus, or unset the variable"));
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "--device is \"", device,
      "\"; legal are cpu, gpu, gpu:N (GPU number N, from 0) and auto: choose "
      "one"));
}

absl::StatusOr<DeviceChoice> ChooseDevice(const std::string& device,
                                          const std::string& math,
                                          uint32_t worker,
                                          const std::string& selected_gpus,
                                          const cuda::Gpus& gpus) {
  OARLOCK_RETURN_IF_ERROR(CheckDevice(device, math, selected_gpus));
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
  const std::optional<int> named = NumberIn(device);
  int gpu = static_cast<int>(worker % static_cast<uint32_t>(gpus.count));
  if (named) {
    gpu = *named;
  } else if (!selected_gpus.empty()) {
    gpu = *FirstOf(selected_gpus);
  }
  if (gpu >= gpus.count) {
    return absl::FailedPreconditionError(absl::StrCat(
        "--device is ", device,
        named ? "" : absl::StrCat(", FLAGS_selected_gpus is ", selected_gpus),
        ", and this machine has ", gpus.count,
        gpus.count == 1 ? " GPU" : " GPUs",
        "; legal are gpu:0 to gpu:", gpus.count - 1,
        named ? "" : ": give the launcher's --gpus those numbers"));
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
                                          uint32_t worker,
                                          const std::string& selected_gpus) {
  // Looking for GPUs starts the driver.
  return ChooseDevice(device, math, worker, selected_gpus,
                      device == "cpu" ? cuda::Gpus() : cuda::FindGpus());
}

}  // namespace oarlock::nn
