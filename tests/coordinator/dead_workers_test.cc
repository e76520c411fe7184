#include "coordinator/dead_workers.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace oarlock::coordinator {
namespace {

constexpr uint64_t kVersion = 10;

class DeadWorkersTest : public ::testing::Test {
 protected:
  void Die(uint32_t worker, uint64_t generation, bool needs_ledgers = true) {
    DeadWorkers::Incarnation incarnation;
    incarnation.worker = WorkerIndex(worker);
    incarnation.generation = Generation(generation);
    incarnation.fenced_by = kVersion;
    incarnation.needs_ledgers = needs_ledgers;
    dead_.Add(incarnation);
  }
  void Tell(uint32_t server, uint64_t server_generation, uint32_t worker,
            uint64_t generation, uint64_t version = kVersion) {
    v1::ServerHeartbeatRequest request;
    request.set_server_index(server);
    request.set_server_generation(server_generation);
    request.set_workers_version(version);
    v1::WorkerLedger* const ledger = request.add_ledgers();
    ledger->mutable_worker()->set_worker_index(worker);
    ledger->mutable_worker()->set_worker_generation(generation);
    ledger->set_highest(100 + server);
    dead_.RecordLedgers(request);
  }
  // The generation of the one that is claimed; 0: none.
  uint64_t Claim(uint64_t version, const std::vector<uint64_t>& generations) {
    const auto claimed = dead_.Claim(version, generations);
    if (!claimed.has_value()) return 0;
    if (claimed->incarnation.needs_ledgers) {
      EXPECT_EQ(claimed->ledgers.size(), generations.size());
      for (size_t i = 0; i < claimed->ledgers.size(); ++i) {
        EXPECT_EQ(claimed->ledgers[i].highest(), 100 + i);
      }
    }
    return claimed->incarnation.generation.value();
  }
  int NumWanted(uint32_t server, uint64_t server_generation) {
    v1::ServerHeartbeatResponse response;
    dead_.Describe(ServerIndex(server), server_generation, &response);
    return response.wanted_ledgers_size();
  }
  // The newest generation of worker 0 that is forgotten, after it was tried.
  uint64_t Forgotten(uint64_t generation_with_push_completions = 0) {
    dead_.Forget([&](WorkerIndex, Generation generation) {
      return generation.value() == generation_with_push_completions;
    });
    v1::ServerHeartbeatResponse response;
    dead_.Describe(ServerIndex(0), 1, &response);
    uint64_t forgotten = 0;
    for (const v1::WorkerIncarnation& worker : response.forgotten()) {
      if (worker.worker_index() == 0) forgotten = worker.worker_generation();
    }
    return forgotten;
  }

  DeadWorkers dead_;
};

TEST_F(DeadWorkersTest, WithoutLedgersAllServersHaveToKnow) {
  Die(0, 3, /*needs_ledgers=*/false);
  EXPECT_EQ(NumWanted(0, 1), 0);
  EXPECT_EQ(Claim(kVersion - 1, {1, 1}), 0u);
  EXPECT_EQ(Claim(kVersion, {1, 1}), 3u);
  EXPECT_EQ(Claim(kVersion, {1, 1}), 0u);
  EXPECT_EQ(dead_.FirstUnrecovered(), nullptr);
}

TEST_F(DeadWorkersTest, EveryServerHasToTellUnderItsNewestGeneration) {
  Die(0, 3);
  ASSERT_NE(dead_.FirstUnrecovered(), nullptr);
  Tell(0, 1, 0, 3, kVersion - 1);
  EXPECT_EQ(NumWanted(0, 1), 1);
  Tell(0, 1, 0, 3);
  Tell(1, 1, 0, 3);
  EXPECT_EQ(NumWanted(0, 1), 0);
  EXPECT_EQ(NumWanted(0, 2), 1);
  // One that was never heard of has no generation.
  EXPECT_EQ(Claim(kVersion, {1, 1, 0}), 0u);
  EXPECT_EQ(Claim(kVersion, {2, 1}), 0u);
  Tell(0, 2, 0, 3);
  EXPECT_EQ(Claim(kVersion, {2, 1}), 3u);
  EXPECT_EQ(NumWanted(0, 3), 0);
  EXPECT_EQ(dead_.FirstUnrecovered(), nullptr);
}

TEST_F(DeadWorkersTest, AnIncarnationIsForgottenAfterAllOlderOnes) {
  Die(0, 3);
  Die(1, 4, /*needs_ledgers=*/false);
  Die(0, 5, /*needs_ledgers=*/false);
  EXPECT_EQ(Claim(kVersion, {1}), 4u);
  EXPECT_EQ(Claim(kVersion, {1}), 5u);
  EXPECT_EQ(Forgotten(), 0u);
  Tell(0, 1, 0, 3);
  EXPECT_EQ(Claim(kVersion, {1}), 3u);
  EXPECT_EQ(Forgotten(/*generation_with_push_completions=*/3), 0u);
  EXPECT_EQ(Forgotten(/*generation_with_push_completions=*/5), 3u);
  EXPECT_EQ(Forgotten(), 5u);
  // Known already: a ledger that comes late changes nothing.
  Tell(0, 1, 0, 5);
  EXPECT_EQ(NumWanted(0, 1), 0);
  EXPECT_EQ(Forgotten(), 5u);
}

TEST_F(DeadWorkersTest, LedgersThatNobodyAskedForAreNotLookedAt) {
  Tell(0, 1, 0, 3);
  Die(0, 3);
  EXPECT_EQ(NumWanted(0, 1), 1);
  Tell(0, 1, 0, 2);
  EXPECT_EQ(NumWanted(0, 1), 1);
}

}  // namespace
}  // namespace oarlock::coordinator
