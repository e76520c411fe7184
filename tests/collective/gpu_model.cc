#include "tests/collective/gpu_model.h"

#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/types/span.h"
#include "base/status_macros.h"
#include "collective/gpu_communicator.h"

namespace oarlock::collective {
namespace {

class ModelRing final : public GpuRing {
 public:
  explicit ModelRing(std::unique_ptr<Communicator> ranks)
      : ranks_(std::move(ranks)) {}

  absl::Status AllReduce(void* values, size_t num_values, Type type,
                         const GoOn& go_on) override {
    OARLOCK_RETURN_IF_ERROR(go_on());
    switch (type) {
      case Type::kFloat:
        return ranks_->AllReduceSum(
            absl::MakeSpan(static_cast<float*>(values), num_values));
      case Type::kDouble:
        return ranks_->AllReduceSum(
            absl::MakeSpan(static_cast<double*>(values), num_values));
      case Type::kInt64:
        break;
    }
    return ranks_->AllReduceSum(
        absl::MakeSpan(static_cast<int64_t*>(values), num_values));
  }
  absl::Status Broadcast(void* bytes, size_t num_bytes, int root,
                         const GoOn& go_on) override {
    OARLOCK_RETURN_IF_ERROR(go_on());
    return ranks_->Broadcast(
        absl::MakeSpan(static_cast<char*>(bytes), num_bytes), root);
  }
  absl::Status AllGather(const void* mine, size_t mine_bytes, void* all,
                         const GoOn& go_on) override {
    OARLOCK_RETURN_IF_ERROR(go_on());
    return ranks_->AllGather(
        absl::MakeConstSpan(static_cast<const char*>(mine), mine_bytes),
        absl::MakeSpan(static_cast<char*>(all), mine_bytes * ranks_->size()));
  }

 private:
  const std::unique_ptr<Communicator> ranks_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<GpuRing>> NewModelRing(Communicator& host) {
  OARLOCK_ASSIGN_OR_RETURN(std::unique_ptr<Communicator> fork, host.Fork());
  return std::unique_ptr<GpuRing>(std::make_unique<ModelRing>(std::move(fork)));
}

absl::StatusOr<std::unique_ptr<Communicator>> JoinGpuGroup(
    const GroupOptions& options, const GpuRingMaker& make_ring) {
  OARLOCK_ASSIGN_OR_RETURN(std::unique_ptr<Communicator> host,
                           JoinGroup(options));
  OARLOCK_ASSIGN_OR_RETURN(std::unique_ptr<GpuCommunicator> communicator,
                           GpuCommunicator::Create(std::move(host), make_ring));
  return std::unique_ptr<Communicator>(std::move(communicator));
}

absl::StatusOr<std::unique_ptr<Communicator>> JoinGpuModelGroup(
    const GroupOptions& options) {
  return JoinGpuGroup(options, NewModelRing);
}

}  // namespace oarlock::collective
