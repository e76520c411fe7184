// The servers of a job without a network: tables, pushes, cuts by the writer of
// the product, restores by its loader.

#ifndef OARLOCK_TESTS_PSERVER_CHECKPOINT_JOB_SERVERS_H_
#define OARLOCK_TESTS_PSERVER_CHECKPOINT_JOB_SERVERS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "checkpoint/manifest.h"
#include "cluster/partition_map.h"
#include "proto/v1/checkpoint.pb.h"
#include "proto/v1/table.pb.h"
#include "pserver/checkpoint/part_writer.h"
#include "pserver/table/table_registry.h"
#include "storage/checkpoint_store.h"
#include "tests/pserver/service/push_testing.h"

namespace oarlock::pserver {

class JobServers {
 public:
  // Their checkpoints are in `directory`; 2^kTestPartitionBits partitions.
  JobServers(std::string directory, uint32_t num_servers);
  ~JobServers();

  absl::Status Create(const v1::TableConfig& config);
  // All of a checkpoint, or parameters alone.
  absl::Status Load(const checkpoint::LoadedCheckpoint& checkpoint,
                    bool parameters_only = false);

  // One push of worker 0 to each server's share; every key was shown, some were
  // clicked, where the table counts that. How many groups had it already.
  uint32_t PushSparse(TableId table, uint64_t sequence,
                      const SparseGradients& gradients);
  uint32_t PushDense(TableId table, uint64_t sequence,
                     const DenseGradients& gradients);

  // Makes the checkpoint of a cut current.
  absl::Status Save(uint64_t cut);

  const std::string& directory() const { return directory_; }
  TableEntry& entry(uint32_t server, TableId table) {
    return **servers_[server]->registry.Find(table);
  }

 private:
  struct Server {
    Server(const cluster::PartitionMap& map, ServerIndex index,
           const std::string& directory);
    // Rests of the writer cost nothing.
    const SkippingClock clock;
    TableRegistry registry;
    std::unique_ptr<storage::CheckpointStore> store;
    std::unique_ptr<PartWriter> writer;
  };

  const std::string directory_;
  const cluster::PartitionMap map_;
  std::vector<std::unique_ptr<Server>> servers_;
  std::vector<v1::TableConfig> tables_;
  uint64_t last_cut_ = 0;
};

// The current checkpoint of a folder, all files compared.
checkpoint::OpenCheckpoint OpenCurrent(const std::string& directory);
// What training would notice between two folders of checkpoints.
std::vector<std::string> Differences(const std::string& a,
                                     const std::string& b);

}  // namespace oarlock::pserver

#endif  // OARLOCK_TESTS_PSERVER_CHECKPOINT_JOB_SERVERS_H_
