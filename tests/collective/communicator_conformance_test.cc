// What every communicator has to do, against plain models.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <thread>
#include <tuple>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "collective/communicator.h"
#include "collective/group.h"
#include "collective/nccl_ring.h"
#include "nn/cuda/gpu.h"
#include "tests/collective/gpu_model.h"
#include "tests/collective/group_testing.h"
#include "wire/value_format.h"

namespace oarlock::collective {
namespace {

constexpr uint64_t kSeed = 20261122;

// Around the borders of chunks, of 4 KiB and of blocks of 256 KiB.
constexpr size_t kSizes[] = {0,     1,     2,      3,     4,    7,
                             511,   1023,  1024,   1025,  2049, 65535,
                             65536, 65537, 131071, 300001};

// Rank `rank`'s values, the same for who asks again.
template <typename T>
std::vector<T> ValuesOf(int rank, size_t count, uint64_t salt) {
  std::mt19937_64 random(kSeed + salt * 1000003 + rank);
  std::vector<T> values(count);
  for (T& value : values) {
    if constexpr (std::is_integral_v<T>) {
      value = static_cast<T>(random());
    } else {
      value = static_cast<T>(std::normal_distribution<double>(0, 3)(random));
    }
  }
  return values;
}

template <typename T>
std::vector<std::vector<T>> AllValues(int num_ranks, size_t count,
                                      uint64_t salt) {
  std::vector<std::vector<T>> all;
  for (int rank = 0; rank < num_ranks; ++rank) {
    all.push_back(ValuesOf<T>(rank, count, salt));
  }
  return all;
}

absl::Status Wrong(const std::string& what) {
  return absl::FailedPreconditionError(what);
}

// Sums in long double; `relative` of the sum of magnitudes is what rounding
// may cost.
template <typename T>
absl::Status CheckSums(const std::vector<std::vector<T>>& all,
                       const std::vector<T>& sums, double relative) {
  for (size_t i = 0; i < sums.size(); ++i) {
    long double sum = 0, magnitude = 0;
    for (const std::vector<T>& values : all) {
      sum += values[i];
      magnitude += std::abs(values[i]);
    }
    const long double error = std::abs(sum - sums[i]);
    if (!(error <= magnitude * relative + 1e-7L)) {
      return Wrong(absl::StrCat("value ", i, " of ", sums.size(), " is ",
                                sums[i], ", not ", static_cast<double>(sum)));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckSums(const std::vector<std::vector<int64_t>>& all,
                       const std::vector<int64_t>& sums) {
  for (size_t i = 0; i < sums.size(); ++i) {
    uint64_t sum = 0;
    for (const auto& values : all) sum += static_cast<uint64_t>(values[i]);
    if (sum != static_cast<uint64_t>(sums[i])) {
      return Wrong(absl::StrCat("value ", i, " of ", sums.size(), " is ",
                                sums[i], ", not ", sum));
    }
  }
  return absl::OkStatus();
}

// That all ranks have the same bits, by the communicator's own means and a
// digest of them.
template <typename T>
absl::Status CheckSameBits(Communicator& communicator,
                           const std::vector<T>& values) {
  const std::string bytes(reinterpret_cast<const char*>(values.data()),
                          values.size() * sizeof(T));
  return CheckAllAgree(communicator, "the bits of the sums", bytes);
}

// Each rank on the GPU of its number.
absl::StatusOr<std::unique_ptr<Communicator>> JoinNcclGroup(
    const GroupOptions& options) {
  return JoinGpuGroup(options, [](Communicator& ranks) {
    return NewNcclRing(ranks, {.gpu = ranks.rank()});
  });
}

// Those of programs, that of GPUs over a model of NCCL, and, last, over NCCL.
const std::vector<Backend>& AllBackends() {
  static const auto* const backends = [] {
    auto* const all = new std::vector<Backend>(Backends());
    all->push_back({"gpu_model", JoinGpuModelGroup});
    all->push_back({"nccl", JoinNcclGroup});
    return all;
  }();
  return *backends;
}

// OK where a GPU and NCCL can be used.
const absl::Status& NcclStatus() {
  static const auto* const status = [] {
    const nn::cuda::Gpus gpus = nn::cuda::FindGpus();
    return new absl::Status(gpus.count == 0
                                ? absl::FailedPreconditionError(
                                      absl::StrCat("no GPU: ", gpus.why_none))
                                : JoinNcclGroup({}).status());
  }();
  return *status;
}

// One rank, and one on each GPU; none where NCCL cannot be used.
std::vector<int> NcclSizes() {
  if (!NcclStatus().ok()) return {};
  const int num_gpus = nn::cuda::FindGpus().count;
  if (num_gpus == 1) return {1};
  return {1, num_gpus};
}

class CommunicatorTest
    : public ::testing::TestWithParam<std::tuple<size_t, int>> {
 protected:
  const Backend& backend() const {
    return AllBackends()[std::get<0>(GetParam())];
  }
  int num_ranks() const { return std::get<1>(GetParam()); }

  void ExpectAllSucceed(
      const std::function<absl::Status(Communicator&)>& work) const {
    const std::vector<absl::Status> statuses =
        RunRanks(backend(), num_ranks(), work);
    for (int rank = 0; rank < num_ranks(); ++rank) {
      EXPECT_TRUE(statuses[rank].ok())
          << "rank " << rank << ": " << statuses[rank] << ", seed " << kSeed;
    }
  }
};

std::string NameOf(
    const ::testing::TestParamInfo<std::tuple<size_t, int>>& info) {
  return absl::StrCat(AllBackends()[std::get<0>(info.param)].name, "_",
                      std::get<1>(info.param));
}

INSTANTIATE_TEST_SUITE_P(
    Backends, CommunicatorTest,
    ::testing::Combine(::testing::Range(size_t{0}, AllBackends().size() - 1),
                       ::testing::Values(1, 2, 3, 5)),
    NameOf);
INSTANTIATE_TEST_SUITE_P(
    Gpus, CommunicatorTest,
    ::testing::Combine(::testing::Values(AllBackends().size() - 1),
                       ::testing::ValuesIn(NcclSizes())),
    NameOf);

// One line that says why NCCL was not among the backends.
TEST(GpuCommunicatorsTest, AreAmongThoseThatConform) {
  if (!NcclStatus().ok()) GTEST_SKIP() << NcclStatus().message();
  EXPECT_EQ(NcclSizes()[0], 1);
}

TEST_P(CommunicatorTest, FloatsAreSummedToTheSameBitsOnAllRanks) {
  ExpectAllSucceed([this](Communicator& communicator) -> absl::Status {
    for (const size_t size : kSizes) {
      const auto all = AllValues<float>(num_ranks(), size, size);
      std::vector<float> values = all[communicator.rank()];
      OARLOCK_RETURN_IF_ERROR(
          communicator.AllReduceSum(absl::MakeSpan(values)));
      OARLOCK_RETURN_IF_ERROR(CheckSums(all, values, 1e-6));
      OARLOCK_RETURN_IF_ERROR(CheckSameBits(communicator, values));
      std::vector<float> again = all[communicator.rank()];
      OARLOCK_RETURN_IF_ERROR(communicator.AllReduceSum(absl::MakeSpan(again)));
      if (size > 0 &&
          std::memcmp(again.data(), values.data(), size * sizeof(float)) != 0) {
        return Wrong("a repeated sum has other bits");
      }
    }
    return absl::OkStatus();
  });
}

TEST_P(CommunicatorTest, DoublesAndIntegersAreSummed) {
  ExpectAllSucceed([this](Communicator& communicator) -> absl::Status {
    for (const size_t size : kSizes) {
      const auto all = AllValues<double>(num_ranks(), size, size);
      std::vector<double> values = all[communicator.rank()];
      OARLOCK_RETURN_IF_ERROR(
          communicator.AllReduceSum(absl::MakeSpan(values)));
      OARLOCK_RETURN_IF_ERROR(CheckSums(all, values, 1e-15));
      OARLOCK_RETURN_IF_ERROR(CheckSameBits(communicator, values));
      const auto integers = AllValues<int64_t>(num_ranks(), size, size);
      std::vector<int64_t> sums = integers[communicator.rank()];
      OARLOCK_RETURN_IF_ERROR(communicator.AllReduceSum(absl::MakeSpan(sums)));
      OARLOCK_RETURN_IF_ERROR(CheckSums(integers, sums));
    }
    return absl::OkStatus();
  });
}

TEST_P(CommunicatorTest, SixteenBitSumsAreRoundedAndTheSameOnAllRanks) {
  ExpectAllSucceed([this](Communicator& communicator) -> absl::Status {
    for (const size_t size : kSizes) {
      const auto all = AllValues<float>(num_ranks(), size, size);
      // Half a unit in the last place for each rounding on the way.
      for (const auto& [format, value_format, unit] :
           {std::tuple(WireFormat::kFloat16, v1::FLOAT16, 0x1p-11),
            std::tuple(WireFormat::kBfloat16, v1::BFLOAT16, 0x1p-8)}) {
        std::vector<float> values = all[communicator.rank()];
        OARLOCK_RETURN_IF_ERROR(
            communicator.AllReduceSum(absl::MakeSpan(values), format));
        OARLOCK_RETURN_IF_ERROR(
            CheckSums(all, values, unit * (num_ranks() + 1)));
        OARLOCK_RETURN_IF_ERROR(CheckSameBits(communicator, values));
        if (num_ranks() == 1) continue;
        std::vector<uint16_t> narrow(size);
        std::vector<float> rounded(size);
        wire::NarrowValues(value_format, values, absl::MakeSpan(narrow));
        wire::WidenValues(value_format, narrow.data(), absl::MakeSpan(rounded));
        if (rounded != values) return Wrong("a sum is not of 16 bits");
      }
    }
    return absl::OkStatus();
  });
}

TEST_P(CommunicatorTest, InfinityAndNotANumberReachAllRanks) {
  ExpectAllSucceed([this](Communicator& communicator) -> absl::Status {
    for (const size_t size : {size_t{10}, size_t{5000}}) {
      for (const WireFormat format :
           {WireFormat::kFloat32, WireFormat::kFloat16,
            WireFormat::kBfloat16}) {
        std::vector<float> values(size, 1.0f);
        if (communicator.rank() == num_ranks() - 1) {
          values[size / 2] = std::numeric_limits<float>::infinity();
          values[size - 1] = std::numeric_limits<float>::quiet_NaN();
        }
        OARLOCK_RETURN_IF_ERROR(
            communicator.AllReduceSum(absl::MakeSpan(values), format));
        if (!std::isinf(values[size / 2]) || !std::isnan(values[size - 1]) ||
            values[0] != num_ranks()) {
          return Wrong(absl::StrCat("sums are ", values[0], ", ",
                                    values[size / 2], ", ", values[size - 1]));
        }
      }
    }
    return absl::OkStatus();
  });
}

TEST_P(CommunicatorTest, SixtyFourMegabytesAreSummed) {
  if (num_ranks() > 3) {
    GTEST_SKIP() << "64 MB and their buffers for each of more than three "
                    "ranks in one process; three show what it is about";
  }
  ExpectAllSucceed([this](Communicator& communicator) -> absl::Status {
    std::vector<float> values(size_t{16} << 20);
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<float>((i + communicator.rank()) % 1021);
    }
    OARLOCK_RETURN_IF_ERROR(communicator.AllReduceSum(absl::MakeSpan(values)));
    for (size_t i = 0; i < values.size(); ++i) {
      float sum = 0;
      for (int rank = 0; rank < num_ranks(); ++rank) sum += (i + rank) % 1021;
      if (values[i] != sum) return Wrong(absl::StrCat("value ", i));
    }
    return absl::OkStatus();
  });
}

TEST_P(CommunicatorTest, BroadcastGivesEveryRankTheRootsValues) {
  ExpectAllSucceed([this](Communicator& communicator) -> absl::Status {
    for (int root = 0; root < num_ranks(); ++root) {
      for (const size_t size : {0, 1, 7, 100003, 1000003}) {
        auto values = ValuesOf<int16_t>(communicator.rank(), size, root);
        OARLOCK_RETURN_IF_ERROR(
            communicator.Broadcast(absl::MakeSpan(values), root));
        if (values != ValuesOf<int16_t>(root, size, root)) {
          return Wrong(absl::StrCat(size, " values from ", root, " differ"));
        }
      }
    }
    return absl::OkStatus();
  });
}

TEST_P(CommunicatorTest, AllGatherPutsValuesInOrderOfRanks) {
  ExpectAllSucceed([this](Communicator& communicator) -> absl::Status {
    for (const size_t size : {0, 1, 7, 100003}) {
      const auto mine = ValuesOf<int16_t>(communicator.rank(), size, 5);
      std::vector<int16_t> all(size * num_ranks()), expected;
      OARLOCK_RETURN_IF_ERROR(communicator.AllGather(absl::MakeConstSpan(mine),
                                                     absl::MakeSpan(all)));
      for (int rank = 0; rank < num_ranks(); ++rank) {
        const auto values = ValuesOf<int16_t>(rank, size, 5);
        expected.insert(expected.end(), values.begin(), values.end());
      }
      if (all != expected) return Wrong(absl::StrCat(size, " values differ"));
    }
    return absl::OkStatus();
  });
}

TEST_P(CommunicatorTest, NobodyPassesABarrierBeforeAllHaveCome) {
  std::atomic<int> arrivals{0};
  ExpectAllSucceed([&](Communicator& communicator) -> absl::Status {
    for (int round = 1; round <= 100; ++round) {
      ++arrivals;
      OARLOCK_RETURN_IF_ERROR(communicator.Barrier());
      if (arrivals < round * num_ranks()) return Wrong("passed too early");
    }
    return absl::OkStatus();
  });
}

// Seeded operations of any kind and size in any order.
TEST_P(CommunicatorTest, AnySequenceOfOperationsMatchesTheModel) {
  ExpectAllSucceed([this](Communicator& communicator) -> absl::Status {
    std::mt19937_64 random(kSeed);
    for (uint64_t step = 0; step < 300; ++step) {
      const size_t size = random() % (random() % 4 == 0 ? 50000 : 1500);
      const int root = static_cast<int>(random() % num_ranks());
      const uint64_t kind = random() % 5;
      if (kind == 0) {
        OARLOCK_RETURN_IF_ERROR(communicator.Barrier());
      } else if (kind == 1) {
        auto values = ValuesOf<int64_t>(communicator.rank(), size, step);
        OARLOCK_RETURN_IF_ERROR(
            communicator.Broadcast(absl::MakeSpan(values), root));
        if (values != ValuesOf<int64_t>(root, size, step)) {
          return Wrong(absl::StrCat("step ", step));
        }
      } else {
        const auto all = AllValues<int64_t>(num_ranks(), size, step);
        auto values = all[communicator.rank()];
        OARLOCK_RETURN_IF_ERROR(
            communicator.AllReduceSum(absl::MakeSpan(values)));
        OARLOCK_RETURN_IF_ERROR(CheckSums(all, values));
      }
    }
    return absl::OkStatus();
  });
}

TEST_P(CommunicatorTest, AForkWorksBesideItsOriginInAnotherThread) {
  ExpectAllSucceed([this](Communicator& communicator) -> absl::Status {
    OARLOCK_ASSIGN_OR_RETURN(std::unique_ptr<Communicator> fork,
                             communicator.Fork());
    if (fork->rank() != communicator.rank() ||
        fork->size() != communicator.size()) {
      return Wrong("the fork is another rank");
    }
    // As many and as large as each likes: they do not wait for one another.
    const auto work = [this](Communicator& c, int rounds,
                             size_t size) -> absl::Status {
      for (int round = 0; round < rounds; ++round) {
        const auto all = AllValues<int64_t>(num_ranks(), size, round);
        auto values = all[c.rank()];
        OARLOCK_RETURN_IF_ERROR(c.AllReduceSum(absl::MakeSpan(values)));
        OARLOCK_RETURN_IF_ERROR(CheckSums(all, values));
      }
      return absl::OkStatus();
    };
    absl::Status of_fork;
    std::thread thread([&] { of_fork = work(*fork, 20, 30000); });
    const absl::Status own = work(communicator, 100, 100);
    thread.join();
    OARLOCK_RETURN_IF_ERROR(of_fork);
    OARLOCK_RETURN_IF_ERROR(own);
    OARLOCK_ASSIGN_OR_RETURN(std::unique_ptr<Communicator> second,
                             fork->Fork());
    return second->Barrier();
  });
}

TEST_P(CommunicatorTest, WrongArgumentsOfTheirOwnAreRefusedOnAllRanks) {
  ExpectAllSucceed([this](Communicator& communicator) -> absl::Status {
    int value = 0;
    for (const int root : {-1, num_ranks()}) {
      if (!absl::IsInvalidArgument(
              communicator.Broadcast(absl::MakeSpan(&value, 1), root))) {
        return Wrong("a broadcast from nowhere");
      }
    }
    std::vector<int> all(num_ranks() + 1);
    if (!absl::IsInvalidArgument(communicator.AllGather(
            absl::MakeConstSpan(&value, 1), absl::MakeSpan(all)))) {
      return Wrong("a gather into too much");
    }
    return communicator.Barrier();
  });
}

TEST_P(CommunicatorTest, RankZeroServesTheOthersUntilTheyHaveLeft) {
  std::atomic<bool> rank_zero_is_free{false};
  std::atomic<int> still_working{num_ranks() - 1};
  const std::vector<std::string> endpoints = FreeEndpoints(num_ranks());
  std::vector<std::thread> threads;
  for (int rank = 0; rank < num_ranks(); ++rank) {
    threads.emplace_back([&, rank] {
      auto communicator = backend().join(TestOptions(endpoints, rank));
      ASSERT_TRUE(communicator.ok()) << communicator.status();
      EXPECT_TRUE((*communicator)->Barrier().ok());
      if (rank == 0) {
        rank_zero_is_free = true;
        EXPECT_EQ((*communicator)->Leave(), absl::OkStatus());
        EXPECT_EQ(still_working, 0);
        return;
      }
      while (!rank_zero_is_free) std::this_thread::yield();
      EXPECT_EQ((*communicator)->GroupStatus(), absl::OkStatus());
      --still_working;
      EXPECT_EQ((*communicator)->Leave(), absl::OkStatus());
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace oarlock::collective
