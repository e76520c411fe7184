// Sums between GPUs, without any: emulated devices, and a model of NCCL on
// their memory. That it is TCP below adds in TCP's order, so results have the
// same bits; NCCL may add more than two ranks in another.

#include "fleet/data_parallel/sum_communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>

#include <atomic>
#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "nn/cuda/cuda_backend.h"
#include "nn/math_backend.h"
#include "tests/base/eventually.h"
#include "tests/collective/gpu_model.h"
#include "tests/collective/group_testing.h"
#include "tests/fleet/data_parallel/replica_training.h"
#include "tests/nn/cuda/emulated_device.h"

namespace oarlock {
namespace {

using ::testing::HasSubstr;

// Called before sum number `index` of a rank, from 0; its error is the sum's.
using SumHook = std::function<absl::Status(
    int rank, int index, const collective::GpuRing::GoOn& go_on)>;

// Whose sums are watched.
class WatchedRing final : public collective::RingAround {
 public:
  WatchedRing(std::unique_ptr<collective::GpuRing> ring, int rank, SumHook hook)
      : collective::RingAround(std::move(ring)),
        rank_(rank),
        hook_(std::move(hook)) {}

  absl::Status AllReduce(void* values, size_t num_values, Type type,
                         const GoOn& go_on) override {
    OARLOCK_RETURN_IF_ERROR(hook_(rank_, num_sums_++, go_on));
    return ring().AllReduce(values, num_values, type, go_on);
  }

 private:
  const int rank_;
  const SumHook hook_;
  int num_sums_ = 0;
};

// Ranks that each have a GPU of their own and the model of NCCL.
std::vector<TrainingRun> OnGpus(int size, const SumHook& hook) {
  std::vector<TrainingRun> runs(size);
  for (int rank = 0; rank < size; ++rank) {
    runs[rank].gpu =
        nn::cuda::GpuId{rank, absl::StrCat("0000:0", rank, ":00.0")};
    runs[rank].new_gpu_ring = [rank, hook](
                                  collective::Communicator& host,
                                  const collective::GpuRingOptions& options)
        -> absl::StatusOr<std::unique_ptr<collective::GpuRing>> {
      EXPECT_EQ(options.gpu, rank);
      OARLOCK_ASSIGN_OR_RETURN(std::unique_ptr<collective::GpuRing> ring,
                               collective::NewModelRing(host));
      return std::make_unique<WatchedRing>(std::move(ring), rank, hook);
    };
  }
  return runs;
}

SumHook CountSums(std::atomic<int>* num_sums) {
  return [num_sums](int, int, const collective::GpuRing::GoOn&) {
    ++*num_sums;
    return absl::OkStatus();
  };
}

std::vector<TrainingRun> With(std::vector<TrainingRun> runs,
                              const std::string& collective_backend) {
  for (TrainingRun& run : runs) {
    run.strategy.collective_backend = collective_backend;
  }
  return runs;
}

// What is logged while it lives.
class CapturedLog {
 public:
  CapturedLog()
      : before_(SetLog(std::make_shared<spdlog::logger>(
            "captured",
            std::make_shared<spdlog::sinks::ostream_sink_mt>(lines_)))) {}
  ~CapturedLog() { SetLog(before_); }

  int Count(const std::string& text) const {
    const std::string lines = lines_.str();
    int count = 0;
    for (size_t at = lines.find(text); at != std::string::npos;
         at = lines.find(text, at + 1)) {
      ++count;
    }
    return count;
  }
  std::string lines() const { return lines_.str(); }

 private:
  std::ostringstream lines_;
  const std::shared_ptr<spdlog::logger> before_;
};

TEST(SumCommunicatorTest, GpusSumWhatHostsSum) {
  for (const int size : {2, 3}) {
    // The last update of an epoch is of one step then, and nothing of its
    // gradients has been handed over before it.
    for (const uint32_t accumulate_steps : {1, 2}) {
      SCOPED_TRACE(testing::Message() << size << " ranks, " << accumulate_steps
                                      << " steps an update, seed " << kSeed);
      std::atomic<int> num_sums = 0;
      std::vector<TrainingRun> runs = OnGpus(size, CountSums(&num_sums));
      for (TrainingRun& run : runs) {
        run.strategy.accumulate_steps = accumulate_steps;
        run.strategy.bucket_bytes = 1000;
        run.until = 2;
      }
      const std::vector<Outcome> gpus = TrainTogether(runs);
      EXPECT_GT(num_sums.exchange(0), 0);
      const std::vector<Outcome> hosts = TrainTogether(With(runs, "tcp"));
      EXPECT_EQ(num_sums, 0);
      for (int rank = 0; rank < size; ++rank) {
        ExpectSameBits(gpus[rank], hosts[rank]);
        EXPECT_EQ(gpus[rank].parameters, gpus[0].parameters);
      }
    }
  }
}

TEST(SumCommunicatorTest, BetweenGpusNothingButBatchesAndScoresIsCopied) {
  std::atomic<int> num_sums = 0;
  nn::cuda::CopiedBytes copied;
  std::vector<TrainingRun> runs = OnGpus(2, CountSums(&num_sums));
  runs[0].copied = &copied;
  for (TrainingRun& run : runs) run.strategy.bucket_bytes = 1000;
  const std::vector<Outcome> gpus = TrainTogether(runs);
  ASSERT_TRUE(gpus[0].status.ok()) << gpus[0].status;
  constexpr size_t kRest = kSteps - 1;
  constexpr size_t kBatchBytes = kBatch * (kSide * kSide + sizeof(float));
  constexpr size_t kScoreBytes = kBatch * kClasses * sizeof(float) + 64;
  // And a float of each bucket.
  const size_t buckets = num_sums / (2 * kSteps);
  EXPECT_GT(buckets, 1);
  EXPECT_EQ(copied.in, kRest * kBatchBytes);
  EXPECT_LE(copied.out, kRest * (kScoreBytes + buckets * sizeof(float)));
  // Else the bounds would say nothing.
  const size_t replica_bytes = gpus[0].parameters.size() * sizeof(float);
  const std::vector<Outcome> hosts = TrainTogether(With(runs, "tcp"));
  ASSERT_TRUE(hosts[0].status.ok()) << hosts[0].status;
  EXPECT_GE(copied.in, kRest * replica_bytes);
  EXPECT_GE(copied.out, kRest * replica_bytes);
}

struct WithoutNccl {
  std::string name;
  std::function<void(std::vector<TrainingRun>&)> change;
  // Of rank 0.
  std::string why;
  // Whether all ranks have a GPU, so that its log warns.
  bool all_on_gpus = true;
};

std::vector<WithoutNccl> AllWithoutNccl() {
  return {
      {"two ranks on one GPU",
       [](std::vector<TrainingRun>& runs) {
         // Which number it has depends on what the driver shows a process.
         runs[1].gpu->pci_bus_id = runs[0].gpu->pci_bus_id;
       },
       "ranks 0 and 1 compute on the same GPU, 0000:00:00.0"},
      {"a rank on the CPU",
       [](std::vector<TrainingRun>& runs) {
         runs[1].memory = Memory::kHostOfADevice;
       },
       "rank 1 does not compute on a GPU", /*all_on_gpus=*/false},
      {"a rank without NCCL",
       [](std::vector<TrainingRun>& runs) {
         const collective::GpuRingFactory whole = runs[1].new_gpu_ring;
         runs[1].new_gpu_ring = [whole](
                                    collective::Communicator& host,
                                    const collective::GpuRingOptions& options)
             -> absl::StatusOr<std::unique_ptr<collective::GpuRing>> {
           // All ranks take part in making the model's.
           OARLOCK_RETURN_IF_ERROR(whole(host, options).status());
           return absl::FailedPreconditionError("libnccl.so.2: not found");
         };
       },
       "rank 1: libnccl.so.2: not found"},
  };
}

// Who insists on NCCL, too, contradicts himself.
WithoutNccl SixteenBits() {
  return {"16 bits",
          [](std::vector<TrainingRun>& runs) {
            for (TrainingRun& run : runs) {
              run.strategy.gradient_format = "bfloat16";
            }
          },
          "gradients of 16 bits"};
}

TEST(SumCommunicatorTest, WhereNcclCannotBeUsedTcpIsAndRankZeroSaysWhy) {
  std::vector<WithoutNccl> all = AllWithoutNccl();
  all.push_back(SixteenBits());
  for (const WithoutNccl& without : all) {
    SCOPED_TRACE(without.name);
    std::atomic<int> num_sums = 0;
    std::vector<TrainingRun> runs = OnGpus(2, CountSums(&num_sums));
    without.change(runs);
    CapturedLog log;
    const std::vector<Outcome> either = TrainTogether(runs);
    EXPECT_EQ(num_sums, 0);
    const std::string level = without.all_on_gpus ? "[warning]" : "[info]";
    EXPECT_EQ(log.Count(level + " gradients are summed over TCP, not by NCCL"),
              1)
        << log.lines();
    EXPECT_EQ(log.Count(without.why), 1) << log.lines();
    const std::vector<Outcome> hosts = TrainTogether(With(runs, "tcp"));
    for (int rank = 0; rank < 2; ++rank) {
      ExpectSameBits(either[rank], hosts[rank]);
    }
    EXPECT_EQ(log.Count("summed over TCP"), 1) << log.lines();
  }
}

TEST(SumCommunicatorTest, WhoInsistsOnNcclIsToldWhyItCannotBeUsed) {
  for (const WithoutNccl& without : AllWithoutNccl()) {
    SCOPED_TRACE(without.name);
    std::atomic<int> num_sums = 0;
    std::vector<TrainingRun> runs = OnGpus(2, CountSums(&num_sums));
    without.change(runs);
    const std::vector<Outcome> ranks = TrainTogether(With(runs, "nccl"));
    for (const Outcome& rank : ranks) {
      EXPECT_EQ(rank.status.code(), absl::StatusCode::kFailedPrecondition);
      EXPECT_THAT(std::string(rank.status.message()),
                  HasSubstr("collective_backend is nccl"));
    }
    EXPECT_THAT(std::string(ranks[0].status.message()), HasSubstr(without.why));
  }
}

TEST(SumCommunicatorTest, WhoInsistsOnNcclAndCanHaveItTrains) {
  std::atomic<int> num_sums = 0;
  CapturedLog log;
  for (const Outcome& rank :
       TrainTogether(With(OnGpus(2, CountSums(&num_sums)), "nccl"))) {
    EXPECT_TRUE(rank.status.ok()) << rank.status;
  }
  EXPECT_GT(num_sums, 0);
  EXPECT_EQ(log.Count("summed by NCCL"), 1) << log.lines();
}

TEST(SumCommunicatorTest, NcclMayConnectForAsLongAsRanksMayCome) {
  std::vector<TrainingRun> runs = OnGpus(2, nullptr);
  runs[0].connect_timeout_s = runs[1].connect_timeout_s = 45;
  std::atomic<int> num_rings = 0;
  for (TrainingRun& run : runs) {
    run.new_gpu_ring = [&num_rings](collective::Communicator& host,
                                    const collective::GpuRingOptions& options) {
      EXPECT_EQ(options.connect_timeout, absl::Seconds(45));
      ++num_rings;
      return collective::NewModelRing(host);
    };
  }
  for (const Outcome& rank : TrainTogether(runs)) {
    EXPECT_TRUE(rank.status.ok()) << rank.status;
  }
  EXPECT_EQ(num_rings, 2);
}

TEST(SumCommunicatorTest, RanksOnCpusSayNothingOfNccl) {
  std::atomic<int> num_sums = 0;
  std::vector<TrainingRun> runs = OnGpus(2, CountSums(&num_sums));
  for (TrainingRun& run : runs) run.memory = Memory::kHost;
  CapturedLog log;
  for (const Outcome& rank : TrainTogether(runs)) {
    EXPECT_TRUE(rank.status.ok()) << rank.status;
  }
  EXPECT_EQ(num_sums, 0);
  EXPECT_EQ(log.Count("NCCL"), 0) << log.lines();
}

TEST(SumCommunicatorTest, ARankThatGivesUpEndsTheOthersAsOverTcp) {
  for (const char* const backend : {"nccl", "tcp"}) {
    SCOPED_TRACE(backend);
    std::atomic<int> num_sums = 0;
    std::vector<TrainingRun> runs =
        With(OnGpus(3, CountSums(&num_sums)), backend);
    runs[1].steps_until_failure = 2;
    const std::vector<Outcome> ranks = TrainTogether(runs);
    EXPECT_EQ(ranks[1].status.code(), absl::StatusCode::kDataLoss);
    for (const int other : {0, 2}) {
      const absl::Status& status = ranks[other].status;
      EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr("rank 1 ("));
      EXPECT_THAT(std::string(status.message()),
                  HasSubstr("without leaving the group"));
    }
  }
}

// NCCL itself notices nothing: a sum waits for whoever is gone.
TEST(SumCommunicatorTest, ARankThatIsLostInASumEndsTheOthers) {
  constexpr int kLostIn = 3;
  const SumHook lose =
      [](int rank, int index,
         const collective::GpuRing::GoOn& go_on) -> absl::Status {
    if (index < kLostIn) return absl::OkStatus();
    if (rank == 1) return absl::UnavailableError("NCCL: its GPU is lost");
    absl::Status status;
    EXPECT_TRUE(Eventually([&] { return !(status = go_on()).ok(); }));
    return status;
  };
  const std::vector<Outcome> ranks = TrainTogether(OnGpus(2, lose));
  EXPECT_EQ(ranks[1].status, absl::UnavailableError("NCCL: its GPU is lost"));
  EXPECT_EQ(ranks[0].status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(ranks[0].status.message()), HasSubstr("rank 1 ("));
}

TEST(SumCommunicatorTest, OneRankAloneNeedsNoNccl) {
  TrainingRun run;
  run.strategy.collective_backend = "nccl";
  const Outcome alone = TrainAlone(run);
  EXPECT_TRUE(alone.status.ok()) << alone.status;
}

TEST(SumCommunicatorTest, RanksThatWantDifferentBackendsAreTold) {
  std::vector<TrainingRun> runs(2);
  runs[1].strategy.collective_backend = "tcp";
  for (const Outcome& rank : TrainTogether(runs)) {
    EXPECT_EQ(rank.status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(rank.status.message()), HasSubstr("rank 1"));
  }
}

TEST(SumCommunicatorTest, NcclWith16BitsIsRefusedBeforeOthersAreWaitedFor) {
  cluster::RoleAssignment role;
  role.role = cluster::Role::kCollective;
  role.num_workers = 2;
  // Nobody comes.
  role.worker_endpoints = {"127.0.0.1:1", "127.0.0.1:2"};
  for (const char* const format : {"float16", "bfloat16"}) {
    const absl::Status status =
        JoinWorkers({}, role,
                    {.gradient_format = format, .collective_backend = "nccl"})
            .status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr(absl::StrCat("gradient_format is ", format,
                                       "; legal with nccl is float32")));
  }
}

// The same bus id says nothing of another machine.
TEST(SumCommunicatorTest, GpusOfTwoMachinesAreNotTheSame) {
  for (const bool one_machine : {false, true}) {
    const std::vector<absl::Status> ranks = collective::RunRanks(
        collective::Backends()[0], 2,
        [&](collective::Communicator& group) -> absl::Status {
          const std::unique_ptr<nn::MathBackend> math =
              nn::cuda::NewCudaBackend(
                  nn::cuda::NewEmulatedDevice(
                      {.memory_bytes = size_t{64} << 20,
                       .gpu_id =
                           nn::cuda::GpuId{group.rank(), "0000:1B:00.0"}}),
                  {});
          SumOptions options;
          options.machine =
              absl::StrCat("10.0.0.", one_machine ? 1 : group.rank());
          options.new_gpu_ring = [](collective::Communicator& host,
                                    const collective::GpuRingOptions&) {
            return collective::NewModelRing(host);
          };
          OARLOCK_ASSIGN_OR_RETURN(
              const SumCommunicator sums,
              NewSumCommunicator(group, options, math.get()));
          EXPECT_EQ(sums.on_gpus, !one_machine);
          return group.Barrier();
        });
    for (const absl::Status& rank : ranks) EXPECT_TRUE(rank.ok()) << rank;
  }
}

TEST(SumCommunicatorTest, WithServersNothingButAutoIsLegal) {
  cluster::RoleAssignment role;
  role.role = cluster::Role::kWorker;
  role.num_workers = 1;
  role.server_endpoints = {"127.0.0.1:1"};
  for (const char* const backend : {"nccl", "tcp", "NCCL", "gloo"}) {
    DistributedStrategy strategy;
    strategy.collective_backend = backend;
    const absl::Status status = JoinWorkers({}, role, strategy).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()),
                HasSubstr(absl::StrCat("collective_backend is ", backend,
                                       ", and with parameter servers")));
  }
}

TEST(SumCommunicatorTest, ABackendThatIsNoneIsRefusedByName) {
  TrainingRun run;
  run.strategy.collective_backend = "gloo";
  const absl::Status status = TrainAlone(run).status;
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("gloo"));
}

}  // namespace
}  // namespace oarlock
