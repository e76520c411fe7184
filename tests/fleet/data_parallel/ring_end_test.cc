// When the rings of GPUs go that gradients were summed in: NCCL's abort does
// not wait for what a GPU has still to send.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "collective/gpu_ring.h"
#include "fleet/data_parallel.h"
#include "nn/cuda/device.h"
#include "nn/math_backend.h"
#include "tests/collective/gpu_model.h"
#include "tests/fleet/data_parallel/replica_training.h"

namespace oarlock {
namespace {

// What two ranks and their rings have seen, of which one is late: it is held in
// its last sum with a ring until the other, which is done with that sum, has
// come to where the two meet again.
struct LateSums {
  explicit LateSums(int late) : late_rank(late) {}

  const int late_rank;
  absl::Mutex mutex;
  // Whether the other rank is in a call of its group.
  bool other_waits ABSL_GUARDED_BY(mutex) = false;
  int num_summing ABSL_GUARDED_BY(mutex) = 0;
  int num_held ABSL_GUARDED_BY(mutex) = 0;
  int num_rings[2] ABSL_GUARDED_BY(mutex) = {0, 0};
  int most_rings ABSL_GUARDED_BY(mutex) = 0;
  int num_ended ABSL_GUARDED_BY(mutex) = 0;
  int num_ended_early ABSL_GUARDED_BY(mutex) = 0;
};

// A ring that counts as ended early when it goes while another sums: NCCL may
// still need it.
class LateRing final : public collective::RingAround {
 public:
  LateRing(std::unique_ptr<collective::GpuRing> ring, int rank, LateSums* sums)
      : collective::RingAround(std::move(ring)), rank_(rank), sums_(*sums) {
    absl::MutexLock lock(&sums_.mutex);
    sums_.most_rings = std::max(sums_.most_rings, ++sums_.num_rings[rank]);
  }
  ~LateRing() override {
    absl::MutexLock lock(&sums_.mutex);
    if (sums_.num_summing > 0) ++sums_.num_ended_early;
    ++sums_.num_ended;
    --sums_.num_rings[rank_];
  }

  absl::Status AllReduce(void* values, size_t num_values, Type type,
                         const GoOn& go_on) override {
    {
      absl::MutexLock lock(&sums_.mutex);
      ++sums_.num_summing;
    }
    const absl::Status status =
        ring().AllReduce(values, num_values, type, go_on);
    absl::MutexLock lock(&sums_.mutex);
    // One bucket has all gradients of a step.
    if (++num_sums_ == kSteps && rank_ == sums_.late_rank) Hold();
    --sums_.num_summing;
    return status;
  }

 private:
  // The limit is for a run that fails.
  void Hold() ABSL_EXCLUSIVE_LOCKS_REQUIRED(sums_.mutex) {
    EXPECT_TRUE(sums_.mutex.AwaitWithTimeout(
        absl::Condition(&sums_.other_waits), absl::Seconds(30)));
    EXPECT_EQ(sums_.num_rings[1 - rank_], 1);
    ++sums_.num_held;
  }

  const int rank_;
  LateSums& sums_;
  uint64_t num_sums_ = 0;
};

// The group of the rank that is not late: says when it waits at a barrier.
class BarrierGroup final : public GroupAround {
 public:
  BarrierGroup(std::unique_ptr<WorkerGroup> group, LateSums* sums)
      : GroupAround(std::move(group)), sums_(*sums) {}

  absl::StatusOr<std::unique_ptr<GradientExchange>> NewExchange(
      const v1::TableConfig& table, nn::MathBackend* backend) override {
    const AtBarrier at_barrier(&sums_);
    return GroupAround::NewExchange(table, backend);
  }
  // Ranks that end an epoch meet here before their rings are done with.
  absl::Status Broadcast(std::string* bytes) override {
    const AtBarrier at_barrier(&sums_);
    return GroupAround::Broadcast(bytes);
  }
  absl::Status Leave(const absl::Status& outcome) override {
    const AtBarrier at_barrier(&sums_);
    return GroupAround::Leave(outcome);
  }

 private:
  class AtBarrier {
   public:
    explicit AtBarrier(LateSums* sums) : sums_(*sums) { Set(true); }
    ~AtBarrier() { Set(false); }

   private:
    void Set(bool waits) {
      absl::MutexLock lock(&sums_.mutex);
      sums_.other_waits = waits;
    }
    LateSums& sums_;
  };

  LateSums& sums_;
};

// Two ranks, of which `sums` says who is late.
std::vector<TrainingRun> WithLateSums(LateSums* sums) {
  std::vector<TrainingRun> runs(2);
  for (int rank = 0; rank < 2; ++rank) {
    runs[rank].gpu =
        nn::cuda::GpuId{rank, absl::StrCat("0000:0", rank, ":00.0")};
    runs[rank].new_gpu_ring = [rank, sums](collective::Communicator& host,
                                           const collective::GpuRingOptions&)
        -> absl::StatusOr<std::unique_ptr<collective::GpuRing>> {
      OARLOCK_ASSIGN_OR_RETURN(std::unique_ptr<collective::GpuRing> ring,
                               collective::NewModelRing(host));
      return std::make_unique<LateRing>(std::move(ring), rank, sums);
    };
  }
  runs[1 - sums->late_rank].around =
      [sums](std::unique_ptr<WorkerGroup> group) {
        return std::make_unique<BarrierGroup>(std::move(group), sums);
      };
  return runs;
}

void ExpectRingsStay(int late_rank, bool steps_alone, int num_models) {
  SCOPED_TRACE(testing::Message()
               << "rank " << late_rank << " is late, steps_alone "
               << steps_alone << ", " << num_models << " models");
  LateSums sums(late_rank);
  std::vector<TrainingRun> runs = WithLateSums(&sums);
  for (TrainingRun& run : runs) {
    run.steps_alone = steps_alone;
    run.num_models = num_models;
  }
  for (const Outcome& rank : TrainTogether(runs)) {
    EXPECT_TRUE(rank.status.ok()) << rank.status;
  }
  absl::MutexLock lock(&sums.mutex);
  EXPECT_EQ(sums.num_held, num_models);
  EXPECT_EQ(sums.num_ended, 2 * num_models);
  EXPECT_EQ(sums.num_ended_early, 0);
  // The one before has gone when the next is made.
  EXPECT_EQ(sums.most_rings, 1);
}

TEST(RingEndTest, ARingStaysUntilAllRanksAreDoneWithItsLastSum) {
  for (const int late_rank : {0, 1}) {
    for (const bool steps_alone : {false, true}) {
      for (const int num_models : {1, 2}) {
        ExpectRingsStay(late_rank, steps_alone, num_models);
      }
    }
  }
}

}  // namespace
}  // namespace oarlock
