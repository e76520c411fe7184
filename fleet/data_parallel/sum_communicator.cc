#include "fleet/data_parallel/sum_communicator.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "collective/agreement.h"
#include "collective/gpu_communicator.h"
#include "nn/cuda/device.h"

namespace oarlock {
namespace {

std::optional<nn::cuda::GpuId> GpuOf(nn::MathBackend* math) {
  if (math == nullptr) return std::nullopt;
  return math->compute_device()->gpu_id();
}

// "0000:1B:00.0 3c5e...": another text for each GPU; empty for none.
std::string Describe(const std::optional<nn::cuda::GpuId>& gpu,
                     const std::string& machine) {
  if (!gpu.has_value()) return "";
  return absl::StrCat(gpu->pci_bus_id, " ", machine);
}

// FailedPrecondition unless each rank has a GPU, and no two the same, of which
// NCCL would wait for each other; `gpus` are those of all ranks.
absl::Status CheckGpus(absl::Span<const std::string> gpus) {
  std::map<std::string, size_t> rank_of;
  for (size_t rank = 0; rank < gpus.size(); ++rank) {
    const std::string& gpu = gpus[rank];
    if (gpu.empty()) {
      return absl::FailedPreconditionError(
          absl::StrCat("rank ", rank, " does not compute on a GPU"));
    }
    const auto [other, is_new] = rank_of.emplace(gpu, rank);
    if (is_new) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        "ranks ", other->second, " and ", rank, " compute on the same GPU, ",
        gpu.substr(0, gpu.find(' ')), ", and NCCL needs one for each"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<collective::Communicator>> ForkToGpus(
    collective::Communicator& group, const SumOptions& options,
    absl::Span<const std::string> gpus,
    const std::optional<nn::cuda::GpuId>& mine) {
  OARLOCK_RETURN_IF_ERROR(CheckGpus(gpus));
  if (options.format != collective::WireFormat::kFloat32) {
    return absl::FailedPreconditionError(
        "gradients of 16 bits (gradient_format) are rounded in the hosts' "
        "memory");
  }
  OARLOCK_ASSIGN_OR_RETURN(std::unique_ptr<collective::Communicator> host,
                           group.Fork());
  const collective::GpuRingOptions ring_options = {
      .gpu = mine->index,
      .connect_timeout = options.connect_timeout,
      .clocks = options.clocks};
  const auto make_ring = [new_ring = options.new_gpu_ring,
                          ring_options](collective::Communicator& ranks) {
    return new_ring(ranks, ring_options);
  };
  OARLOCK_ASSIGN_OR_RETURN(
      std::unique_ptr<collective::GpuCommunicator> communicator,
      collective::GpuCommunicator::Create(std::move(host), make_ring,
                                          {.clocks = options.clocks}));
  return std::unique_ptr<collective::Communicator>(std::move(communicator));
}

// A job whose ranks all have GPUs may train far more slowly than it could.
void LogWhyTcp(absl::Span<const std::string> gpus, const std::string& why) {
  const size_t num_without = std::count(gpus.begin(), gpus.end(), "");
  if (num_without == gpus.size()) return;
  Log().log(num_without == 0 ? spdlog::level::warn : spdlog::level::info,
            "gradients are summed over TCP, not by NCCL: {}", why);
}

}  // namespace

absl::StatusOr<CollectiveBackend> ParseCollectiveBackend(
    const std::string& name) {
  if (name == "auto") return CollectiveBackend::kAuto;
  if (name == "tcp") return CollectiveBackend::kTcp;
  if (name == "nccl") return CollectiveBackend::kNccl;
  return absl::InvalidArgumentError(
      absl::StrCat("the strategy's collective_backend is ", name,
                   "; legal are auto, tcp and nccl"));
}

absl::StatusOr<SumCommunicator> NewSumCommunicator(
    collective::Communicator& group, const SumOptions& options,
    nn::MathBackend* math) {
  if (options.backend != CollectiveBackend::kTcp) {
    const std::optional<nn::cuda::GpuId> mine = GpuOf(math);
    OARLOCK_ASSIGN_OR_RETURN(
        const std::vector<std::string> gpus,
        collective::AllGatherText(group, Describe(mine, options.machine)));
    absl::StatusOr<std::unique_ptr<collective::Communicator>> between_gpus =
        ForkToGpus(group, options, gpus, mine);
    if (between_gpus.ok()) {
      if (group.rank() == 0) {
        Log().info("gradients are summed by NCCL, in the GPUs' memory");
      }
      return SumCommunicator{*std::move(between_gpus), /*on_gpus=*/true};
    }
    // Not for want of NCCL.
    OARLOCK_RETURN_IF_ERROR(group.GroupStatus());
    const std::string why(between_gpus.status().message());
    if (options.backend == CollectiveBackend::kNccl) {
      // Who gets the error may end at once; the others shall have heard by
      // then.
      group.Barrier().IgnoreError();
      return absl::FailedPreconditionError(
          absl::StrCat("the strategy's collective_backend is nccl, and NCCL "
                       "cannot be used: ",
                       why, "; legal here are auto and tcp"));
    }
    if (group.rank() == 0) LogWhyTcp(gpus, why);
  }
  OARLOCK_ASSIGN_OR_RETURN(std::unique_ptr<collective::Communicator> fork,
                           group.Fork());
  return SumCommunicator{std::move(fork), /*on_gpus=*/false};
}

}  // namespace oarlock
