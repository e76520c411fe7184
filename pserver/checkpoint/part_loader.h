// Loads a server's share of a checkpoint into its tables. Any number of servers
// may have written it.

#ifndef OARLOCK_PSERVER_CHECKPOINT_PART_LOADER_H_
#define OARLOCK_PSERVER_CHECKPOINT_PART_LOADER_H_

#include <string>

#include "absl/status/status.h"
#include "base/types.h"
#include "cluster/partition_map.h"
#include "proto/v1/checkpoint.pb.h"
#include "pserver/table/table_registry.h"

namespace oarlock::pserver {

struct PartLoaderOptions {
  // The checkpoint's folder, which holds what its manifest lists.
  std::string folder;
  ServerIndex server;
  // Threads that read and build; at least 1.
  int num_threads = 2;
  // Load rows and dense blocks alone, without what the job that wrote them
  // remembers of its pushes.
  bool parameters_only = false;
};

// Creates the manifest's tables and fills those partitions and blocks that
// belong to this server under `map`. REQUIRES: the tables are not in use yet.
//
// DataLoss, naming the file, when anything is missing or damaged;
// InvalidArgument when the checkpoint has another number of partitions than the
// job. The registry must not be used after an error.
absl::Status LoadPart(const v1::CheckpointManifest& manifest,
                      const PartLoaderOptions& options,
                      const cluster::PartitionMap& map,
                      TableRegistry* registry);

}  // namespace oarlock::pserver

#endif  // OARLOCK_PSERVER_CHECKPOINT_PART_LOADER_H_
