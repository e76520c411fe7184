#include "pserver/checkpoint/server_checkpoints.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/process/boot_id.h"
#include "base/status_macros.h"
#include "checkpoint/manifest.h"
#include "cluster/endpoint.h"
#include "cluster/retry.h"
#include "cluster/security.h"
#include "pserver/checkpoint/fault_points.h"
#include "pserver/checkpoint/part_loader.h"
#include "storage/checkpoint_dir.h"
#include "storage/file_system.h"
#include "storage/folder_mark.h"

namespace oarlock::pserver {
namespace {

// Threads that read or write a checkpoint; more do not make a disk faster.
constexpr int kNumThreads = 2;

absl::Status Load(const checkpoint::LoadedCheckpoint& checkpoint,
                  ServerIndex server, bool parameters_only,
                  const cluster::PartitionMap& map, const Clock& clock,
                  TableRegistry* registry) {
  const absl::Time start = clock.Now();
  FaultPoint("restore.before_load");
  PartLoaderOptions options;
  options.folder = checkpoint.folder;
  options.server = server;
  options.num_threads = kNumThreads;
  options.parameters_only = parameters_only;
  OARLOCK_RETURN_IF_ERROR(
      LoadPart(checkpoint.manifest, options, map, registry));
  registry->clock().AdvanceTo(checkpoint.manifest.logical_time());
  Log().info("loaded {} in {:.2f} s", checkpoint.folder,
             absl::ToDoubleSeconds(clock.Now() - start));
  return absl::OkStatus();
}

// Loads the checkpoint that CURRENT names, if there is one; returns its
// manifest.
absl::StatusOr<std::optional<v1::CheckpointManifest>> Resume(
    const ServerOptions& options, const storage::CheckpointDir& dir,
    const cluster::PartitionMap& map, TableRegistry* registry, CutGate* gate,
    coordinator::Coordinator* coordinator) {
  const absl::StatusOr<checkpoint::LoadedCheckpoint> current =
      checkpoint::LoadCheckpoint(
          storage::FileSystem::Real(),
          options.roll_back.has_value() && !options.roll_back->directory.empty()
              ? options.roll_back->directory
              : dir.path());
  if (absl::IsNotFound(current.status())) {
    if (options.resume) {
      Log().info("{} has no checkpoint: begins at the beginning", dir.path());
    }
    if (!options.load.empty()) {
      OARLOCK_RETURN_IF_ERROR(
          LoadParameters(options.load, ServerIndex(options.server_index), map,
                         *options.clocks.monotonic, registry, coordinator));
    }
    return std::nullopt;
  }
  OARLOCK_RETURN_IF_ERROR(current.status());
  if (!options.resume) {
    return absl::FailedPreconditionError(absl::StrCat(
        dir.path(), " has checkpoints of job '", current->manifest.job_id(),
        "'; go on from them with --resume, begin with their parameters with "
        "--load, or give another folder by --checkpoint_dir"));
  }
  OARLOCK_RETURN_IF_ERROR(Load(*current, ServerIndex(options.server_index),
                               /*parameters_only=*/false, map,
                               *options.clocks.monotonic, registry));
  gate->Announce(current->manifest.cut());
  gate->Finish(current->manifest.cut());
  return current->manifest;
}

std::string LogDir(const ServerOptions& options) {
  return absl::StrCat(options.checkpoint_dir, "/log");
}

std::string BootIdOf(const ServerOptions& options) {
  return options.boot_id.empty() ? BootId() : options.boot_id;
}

coordinator::LogCompatibility DescribeRun(const ServerOptions& options) {
  coordinator::LogCompatibility run;
  run.boot_id = BootIdOf(options);
  // The boot of this host says nothing about other hosts.
  for (const std::string& endpoint : options.server_endpoints) {
    if (cluster::HostOf(endpoint) != cluster::HostOf(options.endpoint()))
      run.boot_id.clear();
  }
  run.num_servers = options.server_endpoints.size();
  run.num_partitions = options.num_partitions;
  run.lease_ms = absl::ToInt64Milliseconds(options.lease);
  run.tick_ms =
      options.tick_per_epoch ? 0 : absl::ToInt64Milliseconds(options.tick);
  run.num_workers = options.num_workers;
  return run;
}

}  // namespace

absl::StatusOr<coordinator::ReplayDecision> DecideReplayOf(
    const ServerOptions& options) {
  coordinator::ReplayDecision decision;
  if (options.checkpoint_dir.empty() || !options.log_pushes) return decision;
  OARLOCK_ASSIGN_OR_RETURN(
      decision,
      coordinator::DecideReplay(storage::FileSystem::Real(), LogDir(options),
                                DescribeRun(options)));
  if (options.replay_log) {
    decision.go_on = false;
    return decision;
  }
  if (!options.resume) return coordinator::ReplayDecision();
  if (options.roll_back.has_value()) {
    decision = coordinator::ReplayDecision();
    decision.why = "the servers go back to a cut";
    return decision;
  }
  if (!decision.go_on) decision.num_workers = 0;
  if (decision.go_on && !options.resume_from_logs) {
    decision = coordinator::ReplayDecision();
    decision.why =
        "a job of --mode sync, --split interleaved or --recovery rollback goes "
        "on from its checkpoint";
  }
  return decision;
}

absl::Status LoadParameters(const std::string& path, ServerIndex server,
                            const cluster::PartitionMap& map,
                            const Clock& clock, TableRegistry* registry,
                            coordinator::Coordinator* coordinator) {
  OARLOCK_ASSIGN_OR_RETURN(
      const checkpoint::LoadedCheckpoint checkpoint,
      checkpoint::LoadCheckpoint(storage::FileSystem::Real(), path));
  if (coordinator != nullptr) coordinator->BeginWith(checkpoint.manifest);
  return Load(checkpoint, server, /*parameters_only=*/true, map, clock,
              registry);
}

absl::StatusOr<std::unique_ptr<ServerCheckpoints>> ServerCheckpoints::Create(
    const ServerOptions& options, const coordinator::ReplayDecision& decision,
    const std::string& token, const cluster::PartitionMap* map,
    TableRegistry* registry, PushLedger* ledger,
    coordinator::Coordinator* coordinator, CutGate* gate) {
  auto checkpoints = absl::WrapUnique(
      new ServerCheckpoints(options, token, map, registry, coordinator));
  OARLOCK_ASSIGN_OR_RETURN(
      const storage::CheckpointDir dir,
      storage::CheckpointDir::Create(storage::FileSystem::Real(),
                                     options.checkpoint_dir));
  OARLOCK_ASSIGN_OR_RETURN(
      const std::optional<v1::CheckpointManifest> resumed,
      Resume(options, dir, *map, registry, gate, coordinator));
  ServerCutOptions cuts;
  cuts.server = ServerIndex(options.server_index);
  cuts.directory = options.checkpoint_dir;
  cuts.num_threads = kNumThreads;
  OARLOCK_ASSIGN_OR_RETURN(
      checkpoints->cuts_,
      ServerCut::Create(cuts, map, registry, gate, options.clocks));
  // Only now is it sure that the folder is not another job's.
  if (coordinator != nullptr) {
    OARLOCK_ASSIGN_OR_RETURN(checkpoints->mark_,
                             storage::WriteFolderMark(options.checkpoint_dir));
  }
  OARLOCK_RETURN_IF_ERROR(checkpoints->BeginLogs(decision));
  absl::Status begun = options.log_pushes
                           ? checkpoints->OpenLog(decision, ledger, gate)
                           : absl::OkStatus();
  if (begun.ok() && coordinator != nullptr) {
    begun = checkpoints->BeginCoordinator(
        decision, dir, resumed.has_value() ? &*resumed : nullptr);
  }
  if (absl::IsDataLoss(begun) && decision.go_on) {
    // Other servers may have replayed theirs by now.
    OARLOCK_RETURN_IF_ERROR(
        coordinator::ForgetLogs(storage::FileSystem::Real(), LogDir(options)));
    return absl::DataLossError(absl::StrCat(
        begun.message(),
        "; no run will go on from these logs: start all processes of the job "
        "again with --resume, it then goes on from its checkpoint"));
  }
  OARLOCK_RETURN_IF_ERROR(begun);
  return checkpoints;
}

absl::Status ServerCheckpoints::BeginLogs(
    const coordinator::ReplayDecision& decision) {
  const std::string log_dir = LogDir(options_);
  if (!options_.replay_log && !decision.go_on) {
    OARLOCK_RETURN_IF_ERROR(
        coordinator::ForgetLogs(storage::FileSystem::Real(), log_dir));
  }
  if (!options_.log_pushes) return absl::OkStatus();
  if (options_.resume && !options_.replay_log && !decision.go_on) {
    // The first server of the job finds the reason; all others find no run.
    Log().info("goes on without the logs in {}: {}", log_dir, decision.why);
  }
  if (coordinator_ == nullptr) return absl::OkStatus();
  const coordinator::RunFile::Begin begin =
      options_.replay_log ? coordinator::RunFile::Begin::kAsSuccessor
      : decision.go_on    ? coordinator::RunFile::Begin::kFromLogs
                          : coordinator::RunFile::Begin::kWithoutLogs;
  OARLOCK_ASSIGN_OR_RETURN(run_file_, coordinator::RunFile::Create(
                                          storage::FileSystem::Real(), log_dir,
                                          DescribeRun(options_), begin));
  if (registry_->HasRounds() && !decision.go_on) {
    OARLOCK_RETURN_IF_ERROR(run_file_->Forbid("--mode sync"));
  }
  if (decision.go_on) {
    Log().info(
        "goes on from the logs of the run before in {}: nothing that it was "
        "told is trained again",
        log_dir);
  }
  return absl::OkStatus();
}

absl::Status ServerCheckpoints::OpenLog(
    const coordinator::ReplayDecision& decision, PushLedger* ledger,
    CutGate* gate) {
  ServerLogOptions log;
  log.directory =
      absl::StrCat(LogDir(options_), "/",
                   checkpoint::ServerFolderName(options_.server_index));
  log.bytes_max = options_.log_bytes_max;
  log.sync_interval = options_.log_sync_interval;
  log.replay = options_.replay_log || decision.go_on;
  log.run_file = run_file_.get();
  log.boot_id = BootIdOf(options_);
  FaultPoint("restore.before_replay");
  OARLOCK_ASSIGN_OR_RETURN(log_, ServerLog::Open(log, registry_, ledger, gate,
                                                 *options_.clocks.monotonic));
  replayed_ = log.replay;
  if (replayed_ && log_->may_lack_its_end()) {
    Log().warn(
        "the log in {} was written before the system was started anew: pushes "
        "of its last {} may be gone, and workers tell which",
        log.directory, absl::FormatDuration(log.sync_interval));
  }
  // The flags may differ from those of the run before.
  if (decision.go_on) registry_->SetRestored();
  cuts_->SetLog(log_.get());
  return absl::OkStatus();
}

absl::Status ServerCheckpoints::BeginCoordinator(
    const coordinator::ReplayDecision& decision,
    const storage::CheckpointDir& dir, const v1::CheckpointManifest* resumed) {
  if (options_.log_pushes) {
    coordinator::CoordinatorLogOptions log;
    log.directory = absl::StrCat(LogDir(options_), "/coordinator");
    log.replay = options_.replay_log || decision.go_on;
    log.any_num_workers = decision.go_on;
    log.boot_id = BootIdOf(options_);
    log.run_file = run_file_.get();
    OARLOCK_ASSIGN_OR_RETURN(coordinator_log_,
                             coordinator::CoordinatorLog::Open(
                                 log, storage::FileSystem::Real(), coordinator_,
                                 *options_.clocks.monotonic));
  }
  if (coordinator_log_ != nullptr && coordinator_log_->replayed()) {
    if (decision.go_on) {
      coordinator_->BeginRun();
    } else {
      coordinator_->ResumeRun();
    }
  } else {
    if (decision.go_on) {
      return absl::DataLossError(
          absl::StrCat(LogDir(options_), "/coordinator has no state"));
    }
    if (resumed != nullptr) coordinator_->Restore(*resumed);
    OARLOCK_ASSIGN_OR_RETURN(const uint64_t largest, dir.LargestCut());
    coordinator_->SkipCuts(largest);
  }
  return coordinator_log_ == nullptr
             ? absl::OkStatus()
             : coordinator_->SetLog(coordinator_log_.get());
}

absl::Status ServerCheckpoints::Start(const std::string& endpoint) {
  if (coordinator_ == nullptr) return absl::OkStatus();
  OARLOCK_ASSIGN_OR_RETURN(
      const std::shared_ptr<grpc::ChannelCredentials> credentials,
      cluster::MakeChannelCredentials(options_.security,
                                      options_.server_endpoints));
  std::vector<std::shared_ptr<grpc::Channel>> channels;
  for (uint32_t i = 0; i < options_.server_endpoints.size(); ++i) {
    channels.push_back(grpc::CreateCustomChannel(
        i == options_.server_index ? endpoint : options_.server_endpoints[i],
        credentials, cluster::MakeChannelArguments()));
  }
  CheckpointLoopOptions loop;
  loop.job_id = options_.job_id;
  loop.directory = options_.checkpoint_dir;
  loop.token = token_;
  loop.interval = options_.checkpoint_interval;
  loop.keep = options_.checkpoint_keep;
  loop.on_current = options_.on_current;
  OARLOCK_ASSIGN_OR_RETURN(
      loop_, CheckpointLoop::Create(loop, map_, coordinator_, registry_,
                                    channels, options_.clocks));
  loop_->Start();
  return absl::OkStatus();
}

void ServerCheckpoints::Stop() {
  if (loop_ != nullptr) loop_->Stop();
  cuts_->Stop();
  if (run_file_ == nullptr) return;
  const coordinator::JobState job = coordinator_->Job();
  if (!job.over || job.failed || !job.reason.empty()) return;
  // Everything is in the job's last checkpoint. If the removal fails, the logs
  // that stay say the same.
  coordinator::ForgetLogs(storage::FileSystem::Real(), LogDir(options_))
      .IgnoreError();
}

}  // namespace oarlock::pserver
