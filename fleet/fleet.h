// The public API of a training program, after PaddlePaddle's Fleet: the same
// program is every role of a job, and a local run.
//
//   auto fleet = Fleet::Init(config, role);
//   if (fleet->IsServer()) {
//     fleet->InitServer();
//     fleet->RunServer();
//   } else {
//     fleet->InitWorker();
//     for (...) fleet->TrainFromDataset();
//     fleet->StopWorker();
//   }
//
// Every call returns a status; a failed worker call also tells the coordinator
// that this worker gave up, so that the job ends instead of waiting for it.

#ifndef OARLOCK_FLEET_FLEET_H_
#define OARLOCK_FLEET_FLEET_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "client/job_client.h"
#include "cluster/environment.h"
#include "cluster/log_dir_lock.h"
#include "data/data_options.h"
#include "proto/config/job_config.pb.h"
#include "worker/report/summary.h"

namespace oarlock::worker {
class TrainingData;
}  // namespace oarlock::worker

namespace oarlock {

// Who this process is, from its environment and from explicit arguments (which
// win).
absl::StatusOr<cluster::RoleAssignment> RoleFromEnvironment(
    const cluster::ExplicitRole& arguments = {});

// One thread at a time.
class Fleet {
 public:
  // InvalidArgument when flags contradict each other, a job of so many servers,
  // or what it goes on with (--resume). Init says it too; whoever starts
  // processes with them asks first.
  static absl::Status CheckConfig(v1::JobConfig config, uint32_t num_servers);

  // --data_format; where it is not set, criteo for files, multi_slot for what a
  // --pipe_command writes.
  static data::DataOptions::Format DataFormatOf(const v1::JobConfig& config);

  // Starts logging and says in the first line what this process is and why.
  // InvalidArgument when the configuration or the role cannot be. The clocks
  // outlive it.
  static absl::StatusOr<std::unique_ptr<Fleet>> Init(
      const v1::JobConfig& config, const cluster::RoleAssignment& role,
      const Clocks& clocks = {});
  ~Fleet();

  // A local run is a worker without servers.
  bool IsServer() const { return role_.role == cluster::Role::kServer; }
  bool IsWorker() const { return !IsServer(); }
  bool IsFirstWorker() const { return IsWorker() && worker_index() == 0; }
  // With what a job that goes on took from its checkpoint (--load).
  const v1::JobConfig& config() const { return config_; }
  uint32_t worker_index() const { return role_.worker_index; }
  uint32_t worker_num() const { return role_.num_workers; }
  uint32_t server_index() const { return role_.server_index; }
  uint32_t server_num() const {
    return static_cast<uint32_t>(role_.server_endpoints.size());
  }

  // Epochs over the training files that are over, of a job that goes on from a
  // checkpoint those before it included. The worker must be initialised.
  uint32_t epoch() const { return epoch_; }

  // Listens.
  absl::Status InitServer();
  // Serves until the job is over or SIGTERM or SIGINT comes.
  absl::Status RunServer();

  // Connects to the servers, takes this worker's place in the job, creates the
  // model's tables. Unavailable when the first worker's --log_dir cannot be
  // written, or when another job has that of a local run.
  absl::Status InitWorker();
  // Whether the next epoch over the training files begins: the same on all
  // workers. No when training was stopped, early or by a command; a
  // program that does not ask has empty epochs then.
  absl::StatusOr<bool> MayBeginEpoch();
  // One epoch over the training files.
  absl::Status TrainFromDataset();
  // In place of epochs over the training files: those of --watch_dir, until
  // training is stopped; SIGTERM and SIGINT to this process stop it.
  absl::Status TrainOnline();
  // Predicts the test files; nothing changes.
  absl::Status InferFromDataset();

  // Of --dataset memory; FailedPrecondition with another. Epochs do all of it
  // by themselves; these are for programs that want to say when. They are about
  // the next epoch, and no call waits for another worker. The usual order:
  //
  //   fleet->LoadIntoMemory();
  //   fleet->GlobalShuffle();     // or LocalShuffle, or neither
  //   fleet->TrainFromDataset();
  //   fleet->ReleaseMemory();
  //
  // Files are read once, but for one case: among several workers GlobalShuffle
  // makes other examples a worker's, so those that were loaded in another order
  // are dropped and its new ones read. With `shuffle` "global" in the
  // configuration they are loaded at once, and GlobalShuffle changes nothing;
  // else call it before LoadIntoMemory.
  //
  // Reads this worker's share into memory, or begins to; nothing where it is
  // there. With `preload`, the default, InitWorker has begun already.
  absl::Status LoadIntoMemory();
  absl::Status PreloadIntoMemory();
  // Returns when reading is over; its outcome.
  absl::Status WaitPreload();
  // Epochs that begin from now on are shuffled among the examples of each
  // worker, or among all, each in an order of its own: every worker has to say
  // the same. InvalidArgument where `shuffle` in the configuration would not be
  // legal either.
  absl::Status LocalShuffle();
  absl::Status GlobalShuffle();
  // Until the next epoch.
  absl::Status ReleaseMemory();
  // What examples take in memory; 0 with --dataset queue.
  uint64_t MemoryBytes();

  // What the first worker writes to <log_dir>/config.textproto at its start;
  // empty: nothing. REQUIRES: InitWorker was not called.
  void SetConfigText(std::string text) { config_text_ = std::move(text); }

  // Waits for the other workers, ends this one's part, and tells what the job
  // did in all. The first worker writes <log_dir>/summary.json.
  absl::StatusOr<worker::TrainingSummary> StopWorker();

  // How the job stands; for progress lines. The worker must be initialised.
  client::JobClient* job();

 private:
  class Worker;
  class ServerRole;

  Fleet(const v1::JobConfig& config, const cluster::RoleAssignment& role,
        const Clocks& clocks);
  worker::TrainingData& data();
  // The last checkpoint, and summary.json.
  absl::Status Keep(const worker::TrainingSummary& summary);
  // Hands `status` on; a failure ends this worker's part.
  absl::Status Worked(absl::Status status);

  v1::JobConfig config_;
  // Of how the job began.
  std::vector<std::string> warnings_;
  std::string config_text_;
  const cluster::RoleAssignment role_;
  const Clocks clocks_;
  // Of a first worker.
  std::unique_ptr<cluster::LogDirLock> log_dir_lock_;
  std::unique_ptr<ServerRole> server_;
  std::unique_ptr<Worker> worker_;
  uint32_t epoch_ = 0;
};

// Runs all of a role: a server until the job is over, a worker through all
// epochs of the configuration. What `oarlock train` does; a program of its own
// may do it call by call instead. Fills `summary` for workers (null: not
// wanted). A worker's client is given to `on_start` before it trains, and lives
// as long as `fleet`.
absl::Status RunRole(
    Fleet& fleet, worker::TrainingSummary* summary,
    absl::FunctionRef<void(client::JobClient*)> on_start =
        [](client::JobClient*) {});

}  // namespace oarlock

#endif  // OARLOCK_FLEET_FLEET_H_
