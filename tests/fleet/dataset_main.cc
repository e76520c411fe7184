// A program with Fleet's dataset calls in the order of PaddlePaddle's programs:
// loads, shuffles globally, trains, releases. It is every role of its job, by
// the environment.
//
//   dataset_main TRAIN_FILE FOLDER
//
// The file is libsvm text; checkpoints and logs go to FOLDER. The last line of
// a worker is "loaded A shuffled B trained C released D": the bytes of examples
// in memory after each call.

#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "base/status_macros.h"
#include "cluster/environment.h"
#include "fleet/fleet.h"
#include "proto/config/job_config.pb.h"

namespace oarlock {
namespace {

v1::JobConfig Config(const std::string& train_file, const std::string& folder) {
  v1::JobConfig config;
  config.set_model("lr");
  config.add_train_files(train_file);
  config.set_data_format("libsvm");
  config.set_sparse_feature_dim(0);
  config.set_batch_size(32);
  config.set_num_partitions(16);
  config.set_dataset("memory");
  // Rows keep how often they were trained.
  config.set_accessor("ctr");
  config.set_checkpoint_dir(folder + "/checkpoints");
  config.set_checkpoint_interval_s(0);
  config.set_log_dir(folder + "/logs");
  return config;
}

absl::Status Work(Fleet& fleet) {
  OARLOCK_RETURN_IF_ERROR(fleet.InitWorker());
  OARLOCK_RETURN_IF_ERROR(fleet.LoadIntoMemory());
  const uint64_t loaded = fleet.MemoryBytes();
  OARLOCK_RETURN_IF_ERROR(fleet.GlobalShuffle());
  OARLOCK_RETURN_IF_ERROR(fleet.WaitPreload());
  const uint64_t shuffled = fleet.MemoryBytes();
  OARLOCK_RETURN_IF_ERROR(fleet.TrainFromDataset());
  const uint64_t trained = fleet.MemoryBytes();
  OARLOCK_RETURN_IF_ERROR(fleet.ReleaseMemory());
  const uint64_t released = fleet.MemoryBytes();
  OARLOCK_RETURN_IF_ERROR(fleet.StopWorker().status());
  std::printf("loaded %" PRIu64 " shuffled %" PRIu64 " trained %" PRIu64
              " released %" PRIu64 "\n",
              loaded, shuffled, trained, released);
  return absl::OkStatus();
}

absl::Status Run(const std::string& train_file, const std::string& folder) {
  OARLOCK_ASSIGN_OR_RETURN(const cluster::RoleAssignment role,
                           RoleFromEnvironment());
  OARLOCK_ASSIGN_OR_RETURN(const std::unique_ptr<Fleet> fleet,
                           Fleet::Init(Config(train_file, folder), role));
  if (fleet->IsWorker()) return Work(*fleet);
  OARLOCK_RETURN_IF_ERROR(fleet->InitServer());
  return fleet->RunServer();
}

}  // namespace
}  // namespace oarlock

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const absl::Status status = oarlock::Run(argv[1], argv[2]);
  if (status.ok()) return 0;
  std::printf("%s\n", status.ToString().c_str());
  return 1;
}
