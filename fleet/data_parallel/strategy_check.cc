#include "fleet/data_parallel/strategy_check.h"

#include "absl/strings/str_cat.h"

namespace oarlock {

absl::Status CheckFormatOfNccl(const DistributedStrategy& strategy,
                               absl::string_view prefix) {
  if (strategy.collective_backend != "nccl" ||
      strategy.gradient_format == "float32") {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      prefix, "collective_backend is nccl and ", prefix, "gradient_format is ",
      strategy.gradient_format,
      "; legal with nccl is float32, and with other formats auto and tcp"));
}

}  // namespace oarlock
