// Whole trainings of a small network on an emulated device, alone or by ranks
// in threads, for tests of where replicas lie and how their gradients travel.

#ifndef OARLOCK_TESTS_FLEET_DATA_PARALLEL_REPLICA_TRAINING_H_
#define OARLOCK_TESTS_FLEET_DATA_PARALLEL_REPLICA_TRAINING_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collective/gpu_ring.h"
#include "fleet/data_parallel.h"
#include "nn/cuda/device.h"
#include "tests/nn/cuda/emulated_device.h"

namespace oarlock {

inline constexpr uint64_t kSeed = 17;
inline constexpr uint32_t kBatch = 8;
// Of an epoch.
inline constexpr uint64_t kSteps = 5;
// Of an image, which has one channel.
inline constexpr size_t kSide = 12;
inline constexpr size_t kClasses = 10;

v1::OptimizerConfig Adam();
v1::OptimizerConfig Momentum();
v1::OptimizerConfig Lars();

enum class Memory {
  kDevice,         // an emulated device's
  kHostOfADevice,  // the host's; the emulated device computes
  kHost,           // the host's, where the reference computes
};

// Another group; a test's differs from it where it overrides.
class GroupAround : public WorkerGroup {
 public:
  explicit GroupAround(std::unique_ptr<WorkerGroup> group)
      : WorkerGroup(group->strategy()), group_(std::move(group)) {}

  uint32_t rank() const override { return group_->rank(); }
  uint32_t size() const override { return group_->size(); }
  std::string Describe() const override { return group_->Describe(); }
  bool keeps_parameters() const override { return group_->keeps_parameters(); }
  absl::StatusOr<std::unique_ptr<GradientExchange>> NewExchange(
      const v1::TableConfig& table, nn::MathBackend* backend) override {
    return group_->NewExchange(table, backend);
  }
  absl::StatusOr<ClassScores> Sum(const std::string& phase, uint32_t epoch,
                                  const ClassScores& mine) override {
    return group_->Sum(phase, epoch, mine);
  }
  absl::Status Broadcast(std::string* bytes) override {
    return group_->Broadcast(bytes);
  }
  bool can_broadcast() const override { return group_->can_broadcast(); }
  absl::Status Checkpoint() override { return group_->Checkpoint(); }
  bool makes_checkpoints() const override {
    return group_->makes_checkpoints();
  }
  absl::Status Barrier(const std::string& name) override {
    return group_->Barrier(name);
  }
  absl::Status Leave(const absl::Status& outcome) override {
    return group_->Leave(outcome);
  }

 private:
  const std::unique_ptr<WorkerGroup> group_;
};

struct TrainingRun {
  v1::OptimizerConfig optimizer = Adam();
  Memory memory = Memory::kDevice;
  DistributedStrategy strategy = {};
  // Epochs, from where the checkpoint in `folder` ends; no folder: from 0.
  uint32_t until = 1;
  std::string folder = {};
  // Gets what was copied after the last epoch's first step.
  nn::cuda::CopiedBytes* copied = nullptr;
  // The GPU that the device says it is.
  std::optional<nn::cuda::GpuId> gpu = std::nullopt;
  // For NCCL; null: what programs have.
  collective::GpuRingFactory new_gpu_ring = nullptr;
  // Of the job; 0: its default.
  double connect_timeout_s = 0;
  // Gives up after so many steps; 0: never.
  uint64_t steps_until_failure = 0;
  // Steps alone: no epoch begins or ends, and the last step is the last that
  // the ranks do together.
  bool steps_alone = false;
  // Makes the group that trains of the one that was joined; null: that one.
  std::function<std::unique_ptr<WorkerGroup>(std::unique_ptr<WorkerGroup>)>
      around = nullptr;
  // Models and optimizers that the group has, one after the other.
  int num_models = 1;
};

struct Outcome {
  absl::Status status;
  std::vector<float> parameters;
  std::vector<float> statistics;
  std::string optimizer_state;
  ClassScores scores;
};

// A rank for each of `runs`, in threads.
std::vector<Outcome> TrainTogether(const std::vector<TrainingRun>& runs);
Outcome TrainAlone(const TrainingRun& run);

void ExpectSameBits(const Outcome& a, const Outcome& b);

}  // namespace oarlock

#endif  // OARLOCK_TESTS_FLEET_DATA_PARALLEL_REPLICA_TRAINING_H_
