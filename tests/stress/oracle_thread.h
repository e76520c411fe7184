// A pusher of replay_oracle.cc whose pushes have one order: it has keys and
// dense tables to itself and the next push is made when the last one is
// acknowledged.
//
// Why not more under way: pushes of one worker that are under way together are
// applied in any order, and after a server's death they are sent again in any
// order. So threads of a worker give it pushes under way that end out of order,
// each row has one order nevertheless.

#ifndef OARLOCK_TESTS_STRESS_ORACLE_THREAD_H_
#define OARLOCK_TESTS_STRESS_ORACLE_THREAD_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/random.h"
#include "base/types.h"
#include "client/key_batch.h"
#include "client/parameter_client.h"
#include "proto/v1/parameter.pb.h"
#include "proto/v1/table.pb.h"
#include "tests/stress/table_model.h"

namespace oarlock {

// What a push carries; shared with the client while it is under way.
struct OraclePush {
  struct Rows {
    TableId table;
    client::KeyBatch keys;
    std::vector<float> gradients;
    // Empty: none are sent.
    std::vector<float> shows;
    std::vector<float> clicks;
  };
  struct Dense {
    TableId table;
    std::vector<float> gradients;
    uint32_t num_steps = 1;
    bool wants_updated = false;
    // As the push left the table.
    client::DenseReplica updated;
  };
  std::vector<Rows> rows;
  std::vector<Dense> dense;
  // Rows are pulled when it is acknowledged.
  bool is_looked_at = false;

  // Without examples, cut and round.
  client::PushRequest Request();
};

// Not thread-safe; threads share nothing.
class OracleThread {
 public:
  // Number `index` of `num_threads` in the job. `format`: that of its worker's
  // values, to and fro.
  OracleThread(const std::vector<v1::TableConfig>& tables, int partition_bits,
               uint64_t seed, uint32_t index, uint32_t num_threads,
               v1::ValueFormat format);

  // The push after those that were acknowledged; follows from the seed, the
  // thread and its number alone.
  std::shared_ptr<OraclePush> NextPush() const;
  // It was acknowledged. DataLoss when what it gave back is not what the model
  // has.
  absl::Status Acknowledged(const OraclePush& push);

  // Pulls of the thread's own rows and dense tables must give what the model
  // has; DataLoss when they do not.
  absl::Status LookAtRows(client::ParameterClient* client, TableId table,
                          const std::vector<Key>& keys) const;
  absl::Status LookAtAll(client::ParameterClient* client) const;

  uint64_t num_pushes() const { return num_pushes_; }
  // Of every sparse table, and of the dense tables that the thread owns.
  const std::map<TableId, SparseModel>& rows() const { return rows_; }
  const std::map<TableId, DenseModel>& dense() const { return dense_; }

 private:
  OraclePush::Rows MakeRows(TableId table, RandomSequence* random) const;
  OraclePush::Dense MakeDense(TableId table, RandomSequence* random) const;
  absl::Status Compare(const std::string& what, const float* got,
                       const std::vector<float>& wanted) const;

  const int partition_bits_;
  const uint64_t seed_;
  const uint32_t index_;
  const v1::ValueFormat format_;
  std::map<TableId, v1::TableConfig> configs_;
  // The thread's own.
  std::map<TableId, std::vector<Key>> keys_;
  std::vector<TableId> sparse_tables_;
  std::vector<TableId> dense_tables_;
  std::map<TableId, SparseModel> rows_;
  std::map<TableId, DenseModel> dense_;
  uint64_t num_pushes_ = 0;
};

}  // namespace oarlock

#endif  // OARLOCK_TESTS_STRESS_ORACLE_THREAD_H_
