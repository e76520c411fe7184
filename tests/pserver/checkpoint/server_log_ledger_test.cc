#include <grpcpp/support/byte_buffer.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cluster/partition_map.h"
#include "cluster/wire_version.h"
#include "pserver/checkpoint/server_log.h"
#include "pserver/fencing/push_ledger.h"
#include "pserver/fencing/worker_fences.h"
#include "pserver/service/parameter_handler.h"
#include "pserver/table/table_registry.h"
#include "tests/pserver/fencing/ledger_testing.h"
#include "tests/pserver/service/push_testing.h"

namespace oarlock::pserver {
namespace {

constexpr uint64_t kJobHash = 77;

// One incarnation of a server with a log, without network.
class LoggingServer {
 public:
  LoggingServer(const std::string& directory, bool replay)
      : map_(cluster::PartitionMap::Even(1u << kTestPartitionBits, 1)),
        fences_(3),
        ledger_(&fences_),
        registry_(map_, ServerIndex(0), clock_) {
    ServerLogOptions options;
    options.directory = directory;
    options.replay = replay;
    auto log = ServerLog::Open(options, &registry_, &ledger_, &gate_, clock_);
    EXPECT_TRUE(log.ok()) << log.status();
    log_ = *std::move(log);
    handler_ = std::make_unique<ParameterHandler>(
        ServerIdentity{.server = ServerIndex(0),
                       .job_hash = kJobHash,
                       .server_generation = Generation(1)},
        &registry_, &ledger_, &budget_, map_, clock_, &gate_, log_.get());
  }

  absl::Status Push(v1::RequestHeader header, uint32_t block) {
    header.set_protocol_version(cluster::kProtocolVersion);
    header.set_job_hash(kJobHash);
    header.set_routing_generation(1);
    header.set_oldest_unanswered(
        header.completing_generation() == 0 ? header.sequence() : 0);
    v1::PushDenseRequest request;
    *request.mutable_header() = header;
    request.set_table(2);
    request.add_blocks(block);
    for (int i = 0; i < 4; ++i) request.add_values(1);
    const grpc::Slice slice(request.SerializeAsString());
    absl::Status status = absl::UnknownError("not answered");
    ResponseBudget::Share share(
        std::make_shared<ResponseBudget>(uint64_t{1} << 20));
    handler_->PushDense(grpc::ByteBuffer(&slice, 1), &share,
                        [&](absl::StatusOr<grpc::ByteBuffer> response) {
                          status = response.status();
                        });
    return status;
  }
  void Lose(uint32_t worker, uint64_t generation) {
    fences_.Update(StateOf(worker, generation, v1::WorkerState::LOST));
  }
  std::string Ledger(uint32_t worker, uint64_t generation) {
    const std::optional<v1::WorkerLedger> ledger =
        ledger_.Collect(WorkerIndex(worker), Generation(generation));
    return ledger.has_value() ? ledger->ShortDebugString() : "none";
  }
  std::vector<float> Block(uint32_t block) {
    return BlockOf(*(*registry_.Find(TableId(2)))->dense, BlockIndex(block));
  }
  TableRegistry& registry() { return registry_; }

 private:
  const cluster::PartitionMap map_;
  WorkerFences fences_;
  PushLedger ledger_;
  const FakeClock clock_;
  TableRegistry registry_;
  HoldBudget budget_{1 << 30};
  CutGate gate_{&budget_};
  std::unique_ptr<ParameterHandler> handler_;
  std::unique_ptr<ServerLog> log_;
};

TEST(ServerLogTest, AReplayedLogGivesTheSameLedgersAndTables) {
  const std::string directory = testing::TempDir() + "/server_log";
  std::string worker0, worker1;
  {
    LoggingServer server(directory, /*replay=*/false);
    ASSERT_TRUE(server.registry().Create(DenseConfig(8, 4, -1)).ok());
    for (uint64_t sequence = 1; sequence <= 70; ++sequence) {
      v1::RequestHeader header = PushHeader(0, 1, sequence);
      header.set_cut(0);
      *header.add_examples() = IntervalOf({}, sequence * 8, sequence * 8 + 8);
      *header.add_dense_examples() =
          IntervalOf({.epoch = 1}, sequence * 8, sequence * 8 + 8);
      ASSERT_TRUE(server.Push(header, 0).ok());
    }
    ASSERT_TRUE(server.Push(PushHeader(1, 1, 9), 0).ok());
    server.Lose(0, 1);
    // Worker 1 completes the last one of worker 0, then dies too.
    v1::RequestHeader completion = PushHeader(0, 1, 70);
    completion.set_completing_worker(1);
    completion.set_completing_generation(1);
    ASSERT_TRUE(server.Push(completion, 0).ok()) << "block 0 has it";
    ASSERT_TRUE(server.Push(completion, 1).ok());
    server.Lose(1, 1);
    worker0 = server.Ledger(0, 1);
    worker1 = server.Ledger(1, 1);
    EXPECT_EQ(server.Block(0), std::vector<float>(4, 71));
    EXPECT_EQ(server.Block(1), std::vector<float>(4, 1));
  }
  EXPECT_EQ(worker1,
            "worker { worker_index: 1 worker_generation: 1 } highest: 9 "
            "pushes { sequence: 9 message_count: 1 messages: 0 "
            "routing_generation: 1 }");
  LoggingServer server(directory, /*replay=*/true);
  EXPECT_EQ(server.Block(0), std::vector<float>(4, 71));
  EXPECT_EQ(server.Block(1), std::vector<float>(4, 1));
  server.Lose(0, 1);
  server.Lose(1, 1);
  EXPECT_EQ(server.Ledger(0, 1), worker0);
  EXPECT_EQ(server.Ledger(1, 1), worker1);
}

}  // namespace
}  // namespace oarlock::pserver
