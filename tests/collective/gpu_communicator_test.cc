// What the conformance suite does not ask: ranks that disagree, a rank without
// a GPU, operations that never end, NCCL itself.

#include "collective/gpu_communicator.h"

#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "collective/group.h"
#include "collective/nccl_ring.h"
#include "tests/collective/gpu_model.h"
#include "tests/collective/group_testing.h"

namespace oarlock::collective {
namespace {

const Backend kModel = {"gpu_model", JoinGpuModelGroup};

TEST(GpuCommunicatorTest, RanksThatDisagreeAllGetBothCalls) {
  for (int what = 0; what < 3; ++what) {
    const auto statuses =
        RunRanks(kModel, 3, [what](Communicator& c) -> absl::Status {
          const bool odd = c.rank() == 2;
          std::vector<float> values(what == 0 && odd ? 11 : 10);
          absl::Status status;
          if (what == 1 && odd) {
            std::vector<double> others(10);
            status = c.AllReduceSum(absl::MakeSpan(others));
          } else if (what == 2 && odd) {
            status = c.Broadcast(absl::MakeSpan(values), 1);
          } else {
            status = c.AllReduceSum(absl::MakeSpan(values));
          }
          if (!absl::IsInvalidArgument(status)) {
            return absl::InternalError("got " + status.ToString());
          }
          if (status.message().find("rank 2 calls") == std::string::npos) {
            return absl::InternalError("names nobody: " + status.ToString());
          }
          return c.Barrier();
        });
    for (const absl::Status& status : statuses)
      EXPECT_TRUE(status.ok()) << status;
  }
}

TEST(GpuCommunicatorTest, WithoutARingOnOneRankNobodyHasOne) {
  const Backend half = {
      "half",
      [](const GroupOptions& options)
          -> absl::StatusOr<std::unique_ptr<Communicator>> {
        auto host = JoinGroup(options);
        if (!host.ok()) return host.status();
        auto made = GpuCommunicator::Create(
            *std::move(host),
            [](Communicator& c) -> absl::StatusOr<std::unique_ptr<GpuRing>> {
              // All take part in making the model's ring.
              auto ring = NewModelRing(c);
              if (c.rank() == 1) return absl::FailedPreconditionError("broken");
              return ring;
            });
        if (!made.ok()) return made.status();
        return *std::move(made);
      }};
  const auto statuses =
      RunRanks(half, 3, [](Communicator&) { return absl::OkStatus(); });
  for (const absl::Status& status : statuses) {
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  }
  EXPECT_EQ(statuses[1].message(), "broken");
  EXPECT_NE(statuses[0].message().find("rank 1"), std::string::npos);
}

// A ring whose operations are never done.
class StuckRing final : public GpuRing {
 public:
  absl::Status AllReduce(void*, size_t, Type, const GoOn& go_on) override {
    return Wait(go_on);
  }
  absl::Status Broadcast(void*, size_t, int, const GoOn& go_on) override {
    return Wait(go_on);
  }
  absl::Status AllGather(const void*, size_t, void*,
                         const GoOn& go_on) override {
    return Wait(go_on);
  }

 private:
  static absl::Status Wait(const GoOn& go_on) {
    for (;;) {
      if (const absl::Status status = go_on(); !status.ok()) return status;
    }
  }
};

TEST(GpuCommunicatorTest, AnOperationThatNeverEndsHasADeadline) {
  GpuCommunicatorOptions options;
  options.operation_timeout = absl::Milliseconds(30);
  auto communicator = GpuCommunicator::Create(
      *JoinGroup({}),
      [](Communicator&) { return std::make_unique<StuckRing>(); }, options);
  ASSERT_TRUE(communicator.ok()) << communicator.status();
  std::vector<float> values(3);
  EXPECT_TRUE(absl::IsDeadlineExceeded(
      (*communicator)->AllReduceSum(absl::MakeSpan(values))));
}

TEST(GpuCommunicatorTest, NcclSumsBroadcastsAndGathersOnOneGpu) {
  auto communicator = GpuCommunicator::Create(
      *JoinGroup({}), [](Communicator& host) { return NewNcclRing(host, {}); });
  if (!communicator.ok()) {
    ASSERT_TRUE(absl::IsFailedPrecondition(communicator.status()));
    GTEST_SKIP() << "no NCCL: " << communicator.status().message();
  }
  for (const size_t size : {1, 3, 1000, 1000003}) {
    std::vector<float> values(size);
    std::iota(values.begin(), values.end(), 1.0f);
    std::vector<float> expected = values;
    EXPECT_EQ((*communicator)->AllReduceSum(absl::MakeSpan(values)),
              absl::OkStatus());
    EXPECT_EQ(values, expected);
    EXPECT_EQ((*communicator)->Broadcast(absl::MakeSpan(values), 0),
              absl::OkStatus());
    EXPECT_EQ(values, expected);
    std::vector<float> all(size);
    EXPECT_EQ((*communicator)
                  ->AllGather(absl::MakeConstSpan(values), absl::MakeSpan(all)),
              absl::OkStatus());
    EXPECT_EQ(all, expected);
  }
}

}  // namespace
}  // namespace oarlock::collective
