#include "collective/gpu_communicator.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/status_macros.h"
#include "collective/agreement.h"
#include "collective/argument_checks.h"
#include "wire/value_format.h"

namespace oarlock::collective {
namespace {

const char* const kOperations[] = {"a sum", "a broadcast", "an all-gather"};

}  // namespace

struct GpuCommunicator::Call {
  uint32_t operation;  // of kOperations
  uint32_t kind;       // the element's, or the root
  uint64_t size;

  std::string ToString() const {
    return absl::StrCat(kOperations[operation], " of ", size,
                        operation == 1   ? " bytes from rank "
                        : operation == 2 ? " bytes of kind "
                                         : " values of kind ",
                        kind);
  }
  friend bool operator==(const Call&, const Call&) = default;
};

absl::StatusOr<std::unique_ptr<GpuCommunicator>> GpuCommunicator::Create(
    std::unique_ptr<Communicator> host, GpuRingMaker make_ring,
    const GpuCommunicatorOptions& options) {
  absl::StatusOr<std::unique_ptr<GpuRing>> ring = make_ring(*host);
  // Whoever has a ring must not wait for one who has none.
  OARLOCK_RETURN_IF_ERROR(CheckAllCan(*host, ring.status()));
  return absl::WrapUnique(new GpuCommunicator(
      std::move(host), std::move(make_ring), *std::move(ring), options));
}

GpuCommunicator::GpuCommunicator(std::unique_ptr<Communicator> host,
                                 GpuRingMaker make_ring,
                                 std::unique_ptr<GpuRing> ring,
                                 const GpuCommunicatorOptions& options)
    : host_(std::move(host)),
      make_ring_(std::move(make_ring)),
      ring_(std::move(ring)),
      options_(options) {}

absl::StatusOr<std::unique_ptr<Communicator>> GpuCommunicator::Fork() {
  OARLOCK_ASSIGN_OR_RETURN(std::unique_ptr<Communicator> host, host_->Fork());
  OARLOCK_ASSIGN_OR_RETURN(std::unique_ptr<GpuCommunicator> fork,
                           Create(std::move(host), make_ring_, options_));
  return std::unique_ptr<Communicator>(std::move(fork));
}

absl::Status GpuCommunicator::Agree(const Call& call) {
  std::vector<Call> all(size());
  OARLOCK_RETURN_IF_ERROR(
      host_->AllGather(absl::MakeConstSpan(&call, 1), absl::MakeSpan(all)));
  for (int rank = 1; rank < size(); ++rank) {
    if (all[rank] == all[0]) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "rank ", rank, " calls ", all[rank].ToString(), ", and rank 0 ",
        all[0].ToString(), "; all ranks call the same operations"));
  }
  return absl::OkStatus();
}

GpuRing::GoOn GpuCommunicator::WaitLimit() const {
  const Clock& clock = *options_.clocks.monotonic;
  const absl::Time deadline = clock.Now() + options_.operation_timeout;
  return [this, &clock, deadline]() -> absl::Status {
    OARLOCK_RETURN_IF_ERROR(host_->GroupStatus());
    if (clock.Now() < deadline) return absl::OkStatus();
    return absl::DeadlineExceededError(
        absl::StrCat("an operation of GPUs has taken ",
                     absl::FormatDuration(options_.operation_timeout),
                     ", though all ranks live"));
  };
}

absl::Status GpuCommunicator::AllReduce(void* values, size_t num_values,
                                        Element element) {
  OARLOCK_RETURN_IF_ERROR(
      Agree({0, static_cast<uint32_t>(element), num_values}));
  if (num_values == 0) return absl::OkStatus();
  const bool is_double = element == Element::kDouble;
  const bool is_integer = element == Element::kInt64;
  const bool is_narrow = element == Element::kFloatAsFloat16 ||
                         element == Element::kFloatAsBfloat16;
  const auto round = [&] {
    if (!is_narrow || size() == 1) return;
    const auto format =
        element == Element::kFloatAsFloat16 ? v1::FLOAT16 : v1::BFLOAT16;
    const auto floats = absl::MakeSpan(static_cast<float*>(values), num_values);
    std::vector<uint16_t> narrow(num_values);
    wire::NarrowValues(format, floats, absl::MakeSpan(narrow));
    wire::WidenValues(format, narrow.data(), floats);
  };
  round();
  OARLOCK_RETURN_IF_ERROR(ring_->AllReduce(values, num_values,
                                           is_double    ? GpuRing::Type::kDouble
                                           : is_integer ? GpuRing::Type::kInt64
                                                        : GpuRing::Type::kFloat,
                                           WaitLimit()));
  round();
  return absl::OkStatus();
}

absl::Status GpuCommunicator::BroadcastBytes(void* bytes, size_t num_bytes,
                                             int root) {
  OARLOCK_RETURN_IF_ERROR(Agree({1, static_cast<uint32_t>(root), num_bytes}));
  OARLOCK_RETURN_IF_ERROR(CheckRoot(root, size()));
  if (num_bytes == 0) return absl::OkStatus();
  return ring_->Broadcast(bytes, num_bytes, root, WaitLimit());
}

absl::Status GpuCommunicator::AllGatherBytes(const void* mine,
                                             size_t mine_bytes, void* all,
                                             size_t all_bytes) {
  OARLOCK_RETURN_IF_ERROR(Agree({2, 0, mine_bytes}));
  OARLOCK_RETURN_IF_ERROR(CheckGatherSizes(mine_bytes, all_bytes, size()));
  if (mine_bytes == 0) return absl::OkStatus();
  return ring_->AllGather(mine, mine_bytes, all, WaitLimit());
}

}  // namespace oarlock::collective
