#include "pserver/aggregator/geo_aggregator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "pserver/table/table_registry.h"
#include "tests/pserver/service/push_testing.h"

namespace oarlock::pserver {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

v1::TableConfig GeoConfig() {
  v1::TableConfig config = SparseConfig(1, 1, v1::GEO);
  config.mutable_optimizer()->Clear();
  config.mutable_optimizer()->mutable_sgd();
  config.mutable_optimizer()->set_learning_rate(1);
  return config;
}

class GeoAggregatorTest : public ::testing::Test {
 protected:
  GeoAggregatorTest() { EXPECT_TRUE(registry_.Create(GeoConfig()).ok()); }

  void Push(const v1::RequestHeader& header, uint64_t key, float difference) {
    int num_responses = 0;
    (*registry_.Find(TableId(1)))
        ->aggregator->PushSparse(
            SparsePushOf(header, {{Key{key}, {difference}}}),
            [&](absl::StatusOr<PushOutcome> outcome) {
              EXPECT_TRUE(outcome.ok()) << outcome.status();
              ++num_responses;
            });
    EXPECT_EQ(num_responses, 1);
  }
  v1::ListChangesResponse List(uint32_t worker, uint64_t generation,
                               uint64_t position) {
    v1::ListChangesRequest request;
    request.set_table(1);
    request.set_worker_index(worker);
    request.set_server_generation(generation);
    request.set_position(position);
    request.set_max_keys(100);
    const auto response = registry_.ListChanges(request, kGeneration);
    EXPECT_TRUE(response.ok()) << response.status();
    return *response;
  }

  static constexpr Generation kGeneration{7};
  const FakeClock clock_;
  TableRegistry registry_{
      cluster::PartitionMap::Even(1u << kTestPartitionBits, 1), ServerIndex(0),
      clock_};
};

TEST_F(GeoAggregatorTest, PushIsSubtractedAsItIsAndReportedToTheOthers) {
  Push(PushHeader(0, 1, 1, 1), 11, -2.5f);
  Push(PushHeader(1, 1, 1, 1), 12, 1);
  // Once more: applied once, told again.
  Push(PushHeader(0, 1, 1, 1), 11, -2.5f);
  const v1::ListChangesResponse first = List(0, 0, 0);
  EXPECT_TRUE(first.forgotten());
  EXPECT_EQ(first.server_generation(), 7u);
  EXPECT_EQ(first.table_version(), 2u);
  EXPECT_THAT(List(0, 7, 0).keys(), ElementsAre(12));
  EXPECT_THAT(List(1, 7, 0).keys(), ElementsAre(11));
  EXPECT_THAT(List(2, 7, 0).keys(), UnorderedElementsAre(11, 12));
  EXPECT_THAT(List(2, 7, first.position()).keys(), ElementsAre());
  const SparseGradients rows = RowsOf(*(*registry_.Find(TableId(1)))->sparse);
  EXPECT_EQ(rows, (SparseGradients{{Key{11}, {2.5f}}, {Key{12}, {-1}}}));
}

TEST_F(GeoAggregatorTest, PositionOfAnotherIncarnationIsForgotten) {
  Push(PushHeader(1, 1, 1, 1), 12, 1);
  EXPECT_TRUE(List(0, 6, 0).forgotten());
  EXPECT_FALSE(List(0, 7, 0).forgotten());
}

TEST_F(GeoAggregatorTest, WhoCompletesAPushIsToldOfIt) {
  v1::RequestHeader header = PushHeader(1, 1, 1, 1);
  header.set_completing_worker(0);
  header.set_completing_generation(3);
  Push(header, 12, 1);
  EXPECT_THAT(List(0, 7, 0).keys(), ElementsAre(12));
  EXPECT_THAT(List(1, 7, 0).keys(), ElementsAre(12));
}

TEST_F(GeoAggregatorTest, OtherTablesListNothing) {
  v1::TableConfig async = SparseConfig(1, 1);
  async.set_id(3);
  async.set_name("async");
  ASSERT_TRUE(registry_.Create(async).ok());
  v1::ListChangesRequest request;
  request.set_table(3);
  request.set_max_keys(1);
  EXPECT_EQ(registry_.ListChanges(request, kGeneration).status().code(),
            absl::StatusCode::kFailedPrecondition);
  request.set_table(9);
  EXPECT_EQ(registry_.ListChanges(request, kGeneration).status().code(),
            absl::StatusCode::kNotFound);
  request.set_table(1);
  request.set_max_keys(0);
  EXPECT_EQ(registry_.ListChanges(request, kGeneration).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(CheckGeoTableTest, WhatWouldNotArriveAsItIsIsRefused) {
  EXPECT_TRUE(CheckGeoTable(GeoConfig()).ok());
  const std::vector<std::function<void(v1::TableConfig*)>> spoilers = {
      [](v1::TableConfig* c) { c->mutable_optimizer()->mutable_adagrad(); },
      [](v1::TableConfig* c) {
        c->mutable_optimizer()->set_learning_rate(.5f);
      },
      [](v1::TableConfig* c) { c->mutable_optimizer()->set_warmup_steps(1); },
      [](v1::TableConfig* c) { c->mutable_optimizer()->set_l2(1); },
      [](v1::TableConfig* c) {
        c->mutable_sparse()->mutable_admission()->mutable_count()->set_pushes(
            2);
      },
      [](v1::TableConfig* c) {
        c->mutable_sparse()->mutable_eviction()->set_idle_ticks(1);
      },
  };
  for (size_t i = 0; i < spoilers.size(); ++i) {
    v1::TableConfig config = GeoConfig();
    spoilers[i](&config);
    const absl::Status status = CheckGeoTable(config);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument)
        << "spoiler " << i;
    EXPECT_THAT(std::string(status.message()), HasSubstr("legal is"));
  }
}

}  // namespace
}  // namespace oarlock::pserver
