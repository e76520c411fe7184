// What every communicator has to do when its ranks do not agree, or end: all of
// them hear of it, and of whom.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/collective/group_testing.h"

namespace oarlock::collective {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class SeveralRanksTest
    : public ::testing::TestWithParam<std::tuple<size_t, int>> {
 protected:
  const Backend& backend() const { return Backends()[std::get<0>(GetParam())]; }
  int num_ranks() const { return std::get<1>(GetParam()); }

  // All ranks fail with this code, and all of them say both texts.
  void ExpectAllFail(const std::vector<absl::Status>& statuses,
                     absl::StatusCode code, const std::string& one,
                     const std::string& other) const {
    for (int rank = 0; rank < num_ranks(); ++rank) {
      EXPECT_EQ(statuses[rank].code(), code) << statuses[rank];
      EXPECT_THAT(std::string(statuses[rank].message()),
                  AllOf(HasSubstr(one), HasSubstr(other)));
    }
  }
};

INSTANTIATE_TEST_SUITE_P(Backends, SeveralRanksTest,
                         ::testing::Combine(::testing::Range(size_t{0},
                                                             Backends().size()),
                                            ::testing::Values(2, 3, 5)),
                         [](const auto& info) {
                           return absl::StrCat(
                               Backends()[std::get<0>(info.param)].name, "_",
                               std::get<1>(info.param));
                         });

TEST_P(SeveralRanksTest, OtherSizesOfOneOperationAreReportedToAll) {
  for (const auto& [odd, others] : {std::pair<size_t, size_t>{1000, 10},
                                    {10, 1000},
                                    {70000, 90000},
                                    {100000, 3},
                                    {0, 1}}) {
    const auto statuses =
        RunRanks(backend(), num_ranks(), [&](Communicator& communicator) {
          std::vector<float> values(communicator.rank() == 1 ? odd : others);
          return communicator.AllReduceSum(absl::MakeSpan(values));
        });
    ExpectAllFail(statuses, absl::StatusCode::kInvalidArgument,
                  absl::StrCat("all-reduce of ", odd * 4, " bytes"),
                  absl::StrCat("all-reduce of ", others * 4, " bytes"));
  }
}

TEST_P(SeveralRanksTest, OtherOperationsAtOnceAreReportedToAll) {
  const auto statuses =
      RunRanks(backend(), num_ranks(), [&](Communicator& communicator) {
        std::vector<float> values(5000);
        return communicator.rank() == 1
                   ? communicator.AllReduceSum(absl::MakeSpan(values))
                   : communicator.Broadcast(absl::MakeSpan(values), 0);
      });
  ExpectAllFail(statuses, absl::StatusCode::kInvalidArgument,
                "all-reduce of 20000 bytes of float32",
                "broadcast of 20000 bytes from rank 0");
}

TEST_P(SeveralRanksTest, OtherRootsAreReportedToAll) {
  const auto statuses =
      RunRanks(backend(), num_ranks(), [&](Communicator& communicator) {
        std::vector<float> values(50);
        return communicator.Broadcast(absl::MakeSpan(values),
                                      communicator.rank() == 1 ? 1 : 0);
      });
  ExpectAllFail(statuses, absl::StatusCode::kInvalidArgument, "from rank 1",
                "from rank 0");
}

TEST_P(SeveralRanksTest, WhoDoesNotComeInTimeIsNamed) {
  std::atomic<int> failed{0};
  const auto statuses = RunRanks(
      backend(), num_ranks(),
      [&](Communicator& communicator) {
        std::vector<float> values(50);
        const absl::Status first = communicator.Barrier();
        if (!first.ok() || communicator.rank() != 1) {
          const absl::Status status =
              first.ok() ? communicator.AllReduceSum(absl::MakeSpan(values))
                         : first;
          ++failed;
          return status;
        }
        // Rank 1 computes for long.
        while (failed < num_ranks() - 1) std::this_thread::yield();
        return communicator.AllReduceSum(absl::MakeSpan(values));
      },
      [](GroupOptions& options) {
        options.operation_timeout = absl::Seconds(4);
        // Heartbeats eight times a second.
        options.heartbeat_timeout = absl::Seconds(4);
      });
  ExpectAllFail(statuses, absl::StatusCode::kDeadlineExceeded,
                "all-reduce of 200 bytes", "not begun by rank 1");
}

TEST_P(SeveralRanksTest, WhoEndsWithoutLeavingIsNamedByAllOthers) {
  const std::vector<std::string> endpoints = FreeEndpoints(num_ranks());
  for (const int quitter : {0, num_ranks() - 1}) {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < num_ranks(); ++rank) {
      threads.emplace_back([&, rank] {
        auto communicator = backend().join(TestOptions(endpoints, rank));
        ASSERT_TRUE(communicator.ok()) << communicator.status();
        std::vector<float> values(100000);
        absl::Status status =
            (*communicator)->AllReduceSum(absl::MakeSpan(values));
        if (rank == quitter) return;
        while (status.ok()) {
          status = (*communicator)->AllReduceSum(absl::MakeSpan(values));
        }
        EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
        EXPECT_THAT(std::string(status.message()),
                    HasSubstr(absl::StrCat("rank ", quitter, " (")));
        // It stays what it was.
        EXPECT_EQ((*communicator)->Barrier(), status);
        EXPECT_EQ((*communicator)->GroupStatus(), status);
        EXPECT_EQ((*communicator)->Leave(), status);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
}

TEST_P(SeveralRanksTest, AnOperationWithARankThatHasLeftIsAnErrorThatNamesIt) {
  const std::vector<std::string> endpoints = FreeEndpoints(num_ranks());
  std::vector<std::thread> threads;
  for (int rank = 0; rank < num_ranks(); ++rank) {
    threads.emplace_back([&, rank] {
      auto communicator = backend().join(TestOptions(endpoints, rank));
      if (rank == 1) {
        ASSERT_TRUE(communicator.ok()) << communicator.status();
        EXPECT_EQ((*communicator)->Leave(), absl::OkStatus());
        return;
      }
      // Who is slow may hear of it while it still connects.
      const absl::Status status = communicator.ok() ? (*communicator)->Barrier()
                                                    : communicator.status();
      EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
      EXPECT_THAT(std::string(status.message()),
                  AllOf(HasSubstr("rank 1 ("), HasSubstr("has left")));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_P(SeveralRanksTest, AFailureEndsTheOperationsOfForksToo) {
  const std::vector<std::string> endpoints = FreeEndpoints(num_ranks());
  std::vector<std::thread> threads;
  for (int rank = 0; rank < num_ranks(); ++rank) {
    threads.emplace_back([&, rank] {
      auto communicator = backend().join(TestOptions(endpoints, rank));
      ASSERT_TRUE(communicator.ok()) << communicator.status();
      auto fork = (*communicator)->Fork();
      ASSERT_TRUE(fork.ok()) << fork.status();
      absl::Status status = (*fork)->Barrier();
      if (rank == 1) return;
      while (status.ok()) status = (*fork)->Barrier();
      EXPECT_TRUE(absl::IsUnavailable(status)) << status;
      EXPECT_TRUE(absl::IsUnavailable((*communicator)->Barrier()));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace oarlock::collective
