// Workers that die again and again while their messages are on their way, two
// servers without network, and what the coordinator makes of their ledgers
// (docs/design/0010-deaths-of-workers-and-coordinator.md): every example's
// gradient reaches every server exactly once.

#include <grpcpp/support/byte_buffer.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "base/clock.h"
#include "base/random.h"
#include "cluster/partition_map.h"
#include "cluster/wire_version.h"
#include "pserver/fencing/ledger_reporter.h"
#include "pserver/fencing/push_ledger.h"
#include "pserver/fencing/round_membership.h"
#include "pserver/fencing/worker_fences.h"
#include "pserver/service/parameter_handler.h"
#include "pserver/table/table_registry.h"
#include "tests/pserver/fencing/ledger_testing.h"
#include "tests/pserver/service/push_testing.h"

namespace oarlock::pserver {
namespace {

constexpr uint64_t kJobHash = 77;
constexpr uint32_t kNumServers = 2;
// Of a push. Each is a row of the one table, whose value counts its gradients;
// every server has all rows.
constexpr uint64_t kExamples = 8;
constexpr uint32_t kMortal = 0;
constexpr uint32_t kHeir = 1;

class OneServer {
 public:
  OneServer()
      : map_(cluster::PartitionMap::Even(1u << kTestPartitionBits, 1)),
        fences_(2),
        ledger_(&fences_),
        registry_(map_, ServerIndex(0), clock_),
        membership_(&fences_, &registry_),
        reporter_(&ledger_, &registry_, &membership_),
        handler_({.server = ServerIndex(0),
                  .job_hash = kJobHash,
                  .server_generation = Generation(1)},
                 &registry_, &ledger_, &budget_, map_, clock_) {
    EXPECT_TRUE(registry_.Create(SparseConfig(1, -1)).ok());
  }

  absl::Status Push(const v1::RequestHeader& header, uint64_t first_example) {
    SparseGradients ones;
    for (uint64_t i = 0; i < kExamples; ++i) ones[Key{first_example + i}] = {1};
    const wire::PushSparseRequestView grouped = SparsePushOf(header, ones);
    v1::PushSparseRequest request;
    *request.mutable_header() = header;
    request.set_table(1);
    for (const KeyGroup& group : grouped.groups) {
      request.add_partitions(group.partition.value());
      request.add_group_sizes(group.num_keys);
    }
    std::vector<Key> scratch;
    const Key* keys = grouped.keys.Elements<Key>(0, kExamples, &scratch);
    for (uint64_t i = 0; i < kExamples; ++i) {
      request.add_keys(static_cast<uint64_t>(keys[i]));
      request.add_values(1);
    }
    const grpc::Slice slice(request.SerializeAsString());
    absl::Status status = absl::UnknownError("not answered");
    ResponseBudget::Share share(
        std::make_shared<ResponseBudget>(uint64_t{1} << 20));
    handler_.PushSparse(grpc::ByteBuffer(&slice, 1), &share,
                        [&](absl::StatusOr<grpc::ByteBuffer> response) {
                          status = response.status();
                        });
    return status;
  }
  // Heartbeats until the ledger has come.
  v1::WorkerLedger Fence(uint64_t generation) {
    fences_.Update(StateOf(kMortal, generation, v1::WorkerState::LOST));
    v1::ServerHeartbeatResponse response;
    response.add_wanted_ledgers()->set_worker_generation(generation);
    reporter_.Apply(response);
    v1::ServerHeartbeatRequest request;
    while (request.ledgers().empty()) reporter_.Fill(&request);
    return request.ledgers(0);
  }
  void Forget(uint64_t generation) {
    v1::ServerHeartbeatResponse response;
    response.add_forgotten()->set_worker_generation(generation);
    reporter_.Apply(response);
  }
  SparseGradients Rows() const {
    return RowsOf(*(*registry_.Find(TableId(1)))->sparse);
  }
  size_t NumWindows() const {
    size_t num_windows = 0;
    const sparse_table::SparseTable& table =
        *(*registry_.Find(TableId(1)))->sparse;
    for (uint32_t p = 0; p < table.num_partitions(); ++p) {
      for (uint64_t generation = 1; generation < 100; ++generation) {
        const PushStamp stamp = {.worker = WorkerIndex(kMortal),
                                 .generation = Generation(generation),
                                 .sequence = Sequence(1)};
        num_windows += table.HasApplied(PartitionIndex(p), stamp);
      }
    }
    return num_windows;
  }

 private:
  const cluster::PartitionMap map_;
  WorkerFences fences_;
  HoldBudget budget_{uint64_t{1} << 30};
  PushLedger ledger_;
  const FakeClock clock_;
  TableRegistry registry_;
  RoundMembership membership_;
  LedgerReporter reporter_;
  ParameterHandler handler_;
};

v1::RequestHeader HeaderOf(uint32_t worker, uint64_t generation,
                           uint64_t sequence, uint64_t first_example,
                           uint32_t server) {
  v1::RequestHeader header = PushHeader(worker, generation, sequence);
  header.set_protocol_version(cluster::kProtocolVersion);
  header.set_job_hash(kJobHash);
  header.set_message_count(kNumServers);
  header.set_message_index(server);
  *header.add_examples() =
      IntervalOf({}, first_example, first_example + kExamples);
  return header;
}

// What the ledgers of all servers say of one incarnation.
struct Estate {
  // First examples of pushes.
  std::set<uint64_t> done;
  // By sequence.
  std::map<uint64_t, uint64_t> partial;
  int num_fully_applied = 0;
};

Estate EstateOf(const std::vector<v1::WorkerLedger>& ledgers) {
  Estate estate;
  uint64_t highest = 0;
  for (const auto& ledger : ledgers) {
    highest = std::max(highest, ledger.highest());
    for (const auto& [epoch, source, example] :
         ExamplesOf(ledger.fully_applied_examples())) {
      estate.num_fully_applied +=
          estate.done.insert(example / kExamples * kExamples).second;
    }
  }
  std::map<uint64_t, std::set<uint32_t>> messages;
  std::map<uint64_t, uint64_t> examples;
  for (const auto& ledger : ledgers) {
    for (const v1::PushRecord& push : ledger.pushes()) {
      examples[push.sequence()] = push.examples(0).begin();
      messages[push.sequence()].insert(push.messages().begin(),
                                       push.messages().end());
    }
  }
  for (const auto& [sequence, first] : examples) {
    if (sequence + 64 <= highest || messages[sequence].size() == kNumServers) {
      estate.done.insert(first);
    } else {
      estate.partial[sequence] = first;
    }
  }
  return estate;
}

class Job {
 public:
  // The mortal's messages of one life: two threads bring them to the servers,
  // each waiting for its response. After a while it is dying: messages get
  // lost, until it is refused.
  void Live(uint64_t generation, uint64_t num_pushes, RandomSequence* random) {
    const uint64_t first_example = next_example_;
    // The client's rule: no push is 64 or more beyond one that is not answered.
    constexpr uint64_t kMaxLead = 30;
    constexpr uint64_t kMaxDyingPushes = 20;
    constexpr uint64_t kGone = ~uint64_t{0} - kMaxLead;
    std::atomic<uint64_t> next{0}, end{0};
    // The push that each thread is at, or an earlier one.
    std::array<std::atomic<uint64_t>, 2> at = {};
    std::vector<std::thread> threads;
    for (int t = 0; t < 2; ++t) {
      threads.emplace_back([&, t,
                            lottery = RandomSequence((*random)())]() mutable {
        while (true) {
          const uint64_t message = next++;
          const uint64_t push = message / kNumServers;
          const uint32_t server = message % kNumServers;
          at[t] = push;
          if (push >= num_pushes + kMaxDyingPushes) break;
          while (at[1 - t] + kMaxLead < push) std::this_thread::yield();
          uint64_t seen = end.load();
          while (seen <= push && !end.compare_exchange_weak(seen, push + 1)) {
          }
          if (push >= num_pushes && lottery.Below(3) == 0) continue;
          const uint64_t first = first_example + push * kExamples;
          if (!servers_[server]
                   .Push(HeaderOf(kMortal, generation, push + 1, first, server),
                         first)
                   .ok()) {
            break;
          }
        }
        at[t] = kGone;
      });
    }
    while (next.load() < num_pushes * kNumServers) std::this_thread::yield();
    std::vector<v1::WorkerLedger> ledgers;
    for (OneServer& server : servers_)
      ledgers.push_back(server.Fence(generation));
    // What the zombie still sends is refused.
    for (std::thread& thread : threads) thread.join();
    next_example_ = first_example + end * kExamples;
    Inherit(generation, first_example, EstateOf(ledgers));
    for (OneServer& server : servers_) server.Forget(generation);
  }

  void ExpectEveryExampleOnceEverywhere() const {
    SparseGradients expected;
    for (uint64_t i = 0; i < next_example_; ++i) expected[Key{i}] = {1};
    for (const OneServer& server : servers_) {
      EXPECT_EQ(server.Rows(), expected);
      EXPECT_EQ(server.NumWindows(), 0u);
    }
  }
  int num_partial() const { return num_partial_; }
  int num_unseen() const { return num_unseen_; }
  int num_fully_applied() const { return num_fully_applied_; }

 private:
  // The heir completes partial pushes by their names, and does anew what nobody
  // has seen.
  void Inherit(uint64_t generation, uint64_t first_example,
               const Estate& estate) {
    num_fully_applied_ += estate.num_fully_applied;
    std::set<uint64_t> open;
    for (uint64_t first = first_example; first < next_example_;
         first += kExamples) {
      if (estate.done.count(first) == 0) open.insert(first);
    }
    for (const auto& [sequence, first] : estate.partial) {
      ++num_partial_;
      open.erase(first);
      for (uint32_t server = 0; server < kNumServers; ++server) {
        v1::RequestHeader header =
            HeaderOf(kMortal, generation, sequence, first, server);
        header.clear_oldest_unanswered();
        header.set_completing_worker(kHeir);
        header.set_completing_generation(1);
        const absl::Status status = servers_[server].Push(header, first);
        EXPECT_TRUE(status.ok()) << status;
      }
    }
    for (const uint64_t first : open) {
      ++num_unseen_;
      ++heirs_sequence_;
      for (uint32_t server = 0; server < kNumServers; ++server) {
        const absl::Status status = servers_[server].Push(
            HeaderOf(kHeir, 1, heirs_sequence_, first, server), first);
        EXPECT_TRUE(status.ok()) << status;
      }
    }
  }

  std::array<OneServer, kNumServers> servers_;
  uint64_t next_example_ = 0;
  uint64_t heirs_sequence_ = 0;
  int num_partial_ = 0;
  int num_unseen_ = 0;
  int num_fully_applied_ = 0;
};

TEST(LedgerRecoveryTest, EveryExamplesGradientIsAppliedOnceOnEveryServer) {
  constexpr uint64_t kSeed = 3;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  RandomSequence random(kSeed);
  Job job;
  for (uint64_t generation = 1; generation <= 40; ++generation) {
    job.Live(generation, 1 + random.Below(150), &random);
  }
  job.ExpectEveryExampleOnceEverywhere();
  EXPECT_GT(job.num_partial(), 0);
  EXPECT_GT(job.num_unseen(), 0);
  EXPECT_GT(job.num_fully_applied(), 0);
}

}  // namespace
}  // namespace oarlock::pserver
