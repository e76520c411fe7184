// Checkpoints of a small job without a job: a sparse and a dense table, given
// as maps, written by any number of servers.

#ifndef OARLOCK_TESTS_PSERVER_CHECKPOINT_CHECKPOINT_MAKER_H_
#define OARLOCK_TESTS_PSERVER_CHECKPOINT_CHECKPOINT_MAKER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/random.h"
#include "proto/v1/checkpoint.pb.h"
#include "storage/checkpoint_store.h"

namespace oarlock::pserver {

// Of table 1, "slots": plain, dim 3, adagrad: six floats a row. Of table 2,
// "dense": 10 values in blocks of 4, adagrad.
struct JobModel {
  std::map<uint64_t, std::vector<float>> rows;
  std::vector<float> values;
};

JobModel RandomJob(size_t num_rows, RandomSequence& random);

class CheckpointMaker {
 public:
  static constexpr size_t kRowFloats = 6;

  CheckpointMaker(std::string path, uint32_t num_servers,
                  uint32_t num_partitions);

  // Makes ckpt-<cut> current: the first as a whole, later ones as changes.
  absl::Status Make(uint64_t cut, const JobModel& model);

  const std::string& path() const { return path_; }
  // Of the newest checkpoint; its changes are written by Commit.
  v1::CheckpointManifest& manifest() { return manifest_; }
  absl::Status Commit();

 private:
  absl::Status WriteServer(uint32_t server, storage::CutWriter& cut,
                           const JobModel& model, v1::ServerPart* part);
  absl::Status WritePartition(uint32_t partition, storage::RecordWriter& writer,
                              const JobModel& model, v1::TablePart* part);

  const std::string path_;
  v1::CheckpointManifest manifest_;
  std::vector<std::unique_ptr<storage::CheckpointStore>> stores_;
  JobModel last_;
  std::vector<uint64_t> cuts_;
};

}  // namespace oarlock::pserver

#endif  // OARLOCK_TESTS_PSERVER_CHECKPOINT_CHECKPOINT_MAKER_H_
