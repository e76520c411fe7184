#include "pserver/fencing/ledger_reporter.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "base/clock.h"
#include "base/push_stamp.h"
#include "cluster/partition_map.h"
#include "pserver/fencing/round_membership.h"
#include "pserver/fencing/worker_fences.h"
#include "tests/pserver/fencing/ledger_testing.h"
#include "tests/pserver/service/push_testing.h"

namespace oarlock::pserver {
namespace {

using Response = v1::ServerHeartbeatResponse;

class LedgerReporterTest : public ::testing::Test {
 protected:
  LedgerReporterTest()
      : fences_(2),
        ledger_(&fences_),
        registry_(cluster::PartitionMap::Even(1u << kTestPartitionBits, 1),
                  ServerIndex(0), clock_),
        membership_(&fences_, &registry_),
        reporter_(&ledger_, &registry_, &membership_) {}

  static void Want(uint32_t worker, uint64_t generation, Response* response) {
    v1::WorkerIncarnation* wanted = response->add_wanted_ledgers();
    wanted->set_worker_index(worker);
    wanted->set_worker_generation(generation);
  }
  static Response Forgotten(uint32_t worker, uint64_t generation) {
    Response response;
    v1::WorkerIncarnation* forgotten = response.add_forgotten();
    forgotten->set_worker_index(worker);
    forgotten->set_worker_generation(generation);
    return response;
  }
  // A push of worker 0 generation 1, under way.
  PushLedger::Message Begin(uint64_t sequence) {
    v1::RequestHeader header = PushHeader(0, 1, sequence);
    PushLedger::Message message;
    const absl::Status status = ledger_.Admit(&header, &message);
    EXPECT_TRUE(status.ok()) << status;
    return message;
  }
  void Lose(uint32_t worker, uint64_t generation) {
    fences_.Update(StateOf(worker, generation, v1::WorkerState::LOST));
  }
  v1::ServerHeartbeatRequest Request() {
    v1::ServerHeartbeatRequest request;
    reporter_.Fill(&request);
    return request;
  }

  WorkerFences fences_;
  PushLedger ledger_;
  const FakeClock clock_;
  TableRegistry registry_;
  RoundMembership membership_;
  LedgerReporter reporter_;
};

TEST_F(LedgerReporterTest, AWantedLedgerIsReportedOnceItIsComplete) {
  EXPECT_FALSE(reporter_.due());
  EXPECT_EQ(Request().ledgers_size(), 0);
  PushLedger::Message first = Begin(1);
  Response response;
  Want(0, 1, &response);
  Want(1, 1, &response);
  reporter_.Apply(response);
  EXPECT_TRUE(reporter_.due());
  EXPECT_EQ(Request().ledgers_size(), 0) << "both may push still";
  Lose(0, 1);
  EXPECT_EQ(Request().ledgers_size(), 0) << "a push is under way";
  first.Applied();
  v1::ServerHeartbeatRequest request = Request();
  ASSERT_EQ(request.ledgers_size(), 1);
  EXPECT_EQ(request.ledgers(0).highest(), 1u);
  EXPECT_TRUE(reporter_.due()) << "the heartbeat may be lost";
  reporter_.Apply(response);
  EXPECT_TRUE(reporter_.due()) << "the other one";
  Lose(1, 1);
  EXPECT_EQ(Request().ledgers_size(), 2);
  reporter_.Apply(response);
  EXPECT_FALSE(reporter_.due());
  EXPECT_EQ(Request().ledgers_size(), 2) << "wanted all the same";
  reporter_.Apply(Response());
  EXPECT_EQ(Request().ledgers_size(), 0);
  // Asked anew, by a coordinator that was restarted: told soon.
  reporter_.Apply(response);
  EXPECT_TRUE(reporter_.due());
}

TEST_F(LedgerReporterTest, TablesForgetAWorkerWhenNothingIsUnderWay) {
  ASSERT_TRUE(registry_.Create(DenseConfig(4, 4, -1)).ok());
  sparse_table::DenseTable& table = *(*registry_.Find(TableId(2)))->dense;
  const PushStamp stamp = {.worker = WorkerIndex(0),
                           .generation = Generation(1),
                           .sequence = Sequence(1)};
  const float ones[] = {1, 1, 1, 1};
  PushLedger::Message push = Begin(1);
  table.Push(BlockIndex(0), ones, {&stamp, 1});
  Lose(0, 1);
  reporter_.Apply(Forgotten(0, 1));
  EXPECT_TRUE(table.HasApplied(BlockIndex(0), stamp));
  push.Applied();
  reporter_.Apply(Forgotten(0, 1));
  EXPECT_FALSE(table.HasApplied(BlockIndex(0), stamp));

  // Once only: what is told again and again costs nothing.
  table.Push(BlockIndex(0), ones, {&stamp, 1});
  reporter_.Apply(Forgotten(0, 1));
  EXPECT_TRUE(table.HasApplied(BlockIndex(0), stamp));
  reporter_.Apply(Forgotten(0, 2));
  EXPECT_FALSE(table.HasApplied(BlockIndex(0), stamp));
}

TEST_F(LedgerReporterTest, TellsWhoWasInRounds) {
  using States = google::protobuf::RepeatedPtrField<v1::WorkerState>;
  const auto set_life = [this](uint32_t worker, v1::WorkerState::Life life) {
    States states;
    v1::WorkerState* const state = states.Add();
    state->set_worker_index(worker);
    state->set_worker_generation(1);
    state->set_life(life);
    membership_.Apply(states);
  };
  Response response;
  for (const uint32_t worker : {0, 1}) {
    set_life(worker, v1::WorkerState::ALIVE);
    ASSERT_TRUE(membership_
                    .SetMember(WorkerIndex(worker), Generation(1),
                               /*joins=*/true, 1)
                    .ok());
    Want(worker, 1, &response);
  }
  ASSERT_TRUE(
      membership_.SetMember(WorkerIndex(1), Generation(1), /*joins=*/false, 2)
          .ok());
  for (const uint32_t worker : {0, 1}) {
    set_life(worker, v1::WorkerState::LOST);
  }
  reporter_.Apply(response);
  v1::ServerHeartbeatRequest request;
  reporter_.Fill(&request);
  ASSERT_EQ(request.ledgers_size(), 2);
  EXPECT_TRUE(request.ledgers(0).joined_rounds());
  EXPECT_FALSE(request.ledgers(1).joined_rounds());
}

}  // namespace
}  // namespace oarlock::pserver
