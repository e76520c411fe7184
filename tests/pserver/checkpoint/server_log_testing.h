// What tests of the log of pushes share: a server's tables and its log, which
// begin anew from a cut and the log alone, as after a crash.

#ifndef OARLOCK_TESTS_PSERVER_CHECKPOINT_SERVER_LOG_TESTING_H_
#define OARLOCK_TESTS_PSERVER_CHECKPOINT_SERVER_LOG_TESTING_H_

#include <google/protobuf/message.h>
#include <grpcpp/support/byte_buffer.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "proto/v1/parameter.pb.h"
#include "pserver/checkpoint/cut_gate.h"
#include "pserver/checkpoint/server_log.h"
#include "pserver/fencing/push_ledger.h"
#include "pserver/fencing/worker_fences.h"
#include "pserver/table/table_registry.h"
#include "tests/base/test_folder.h"
#include "tests/pserver/service/push_responses.h"
#include "tests/pserver/service/push_testing.h"

namespace oarlock::pserver {

inline constexpr uint32_t kDim = 3;
inline constexpr float kRate = 0.5f;
inline constexpr uint64_t kBytesMax = 64 << 10;

// As it comes from the network, in two slices.
grpc::ByteBuffer BufferOf(const google::protobuf::Message& message);

// One life of a server and what the log does to its tables.
class Life {
 public:
  // What it begins with: the checkpoint of a cut.
  struct From {
    uint64_t cut = 0;
    uint64_t rounds = 0;
    // Without rows. None: the log is to create it.
    std::optional<v1::TableConfig> table = std::nullopt;
    bool replay = true;
    uint64_t bytes_max = kBytesMax;
    std::string boot_id = "this boot";
  };

  Life(const std::string& directory, const From& from);
  ~Life() { registry_.Shutdown(); }

  // As the data plane does it: written, then applied.
  absl::Status Push(const v1::RequestHeader& header,
                    const SparseGradients& gradients,
                    const std::string& name = "");
  // The two steps of a push to a table with rounds. The first returns the
  // logical time for the second.
  absl::StatusOr<uint32_t> Write(const v1::RequestHeader& header,
                                 const SparseGradients& gradients);
  void Apply(const v1::RequestHeader& header, const SparseGradients& gradients,
             uint32_t logical_time, const std::string& name = "");
  void Join(uint32_t worker) {
    registry_.SetRoundMember(WorkerIndex(worker), Generation(1), true);
  }
  // A cut, from its opening to the checkpoint.
  void OpenCut(uint64_t cut) { gate_.Announce(cut); }
  void FreezeCut(uint64_t cut) {
    gate_.Freeze(cut, [] {});
    EXPECT_TRUE(log_->OnFrozen().ok());
  }

  TableEntry& entry() { return **registry_.Find(TableId(1)); }
  SparseGradients rows() { return RowsOf(*entry().sparse); }
  uint64_t rounds() { return entry().aggregator->CompleteRounds(); }
  TableRegistry& registry() { return registry_; }
  CutGate& gate() { return gate_; }
  ServerLog& log() { return *log_; }
  PushResponses& responses() { return responses_; }

 private:
  // What a ledger says of a log: server_log_ledger_test.
  WorkerFences fences_{/*num_workers=*/8};
  PushLedger ledger_{&fences_};
  const FakeClock clock_;
  TableRegistry registry_;
  HoldBudget budget_{1 << 30};
  CutGate gate_{&budget_};
  PushResponses responses_;
  std::unique_ptr<ServerLog> log_;
};

struct SeenRecord {
  ServerLogKind kind;
  uint64_t cut = 0;
  size_t bytes = 0;
};

std::vector<SeenRecord> RecordsOf(const std::string& directory);

SparseGradients Gradients(uint64_t seed);

class ServerLogTest : public testing::Test {
 protected:
  // The log's.
  const std::string& directory() const { return directory_; }

 private:
  const TestFolder folder_;
  const std::string directory_ = folder_.Path("log");
};

}  // namespace oarlock::pserver

#endif  // OARLOCK_TESTS_PSERVER_CHECKPOINT_SERVER_LOG_TESTING_H_
