#include "pserver/checkpoint/server_checkpoints.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "base/boot_id.h"
#include "base/clock.h"
#include "base/fault_point.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "cluster/retry.h"
#include "cluster/security.h"
#include "pserver/checkpoint/manifest.h"
#include "pserver/checkpoint/part_loader.h"
#include "storage/checkpoint_dir.h"
#include "storage/file_system.h"

namespace oarlock {
namespace {

// Threads that read or write a checkpoint; more do not make a disk faster.
constexpr int kNumThreads = 2;

absl::Status Load(const LoadedCheckpoint& checkpoint, ServerIndex server,
                  bool parameters_only, const PartitionMap& map,
                  TableRegistry* registry) {
  const absl::Time start = Clock::Real().Now();
  FaultPoint("restore.before_load");
  PartLoaderOptions options;
  options.folder = checkpoint.folder;
  options.server = server;
  options.num_threads = kNumThreads;
  options.parameters_only = parameters_only;
  OARLOCK_RETURN_IF_ERROR(
      LoadPart(checkpoint.manifest, options, map, registry));
  spdlog::info("loaded {} in {:.2f} s", checkpoint.folder,
               absl::ToDoubleSeconds(Clock::Real().Now() - start));
  return absl::OkStatus();
}

// Brings the server to where the checkpoint is that CURRENT names, if any: its
// manifest.
absl::StatusOr<std::optional<v1::CheckpointManifest>> Resume(
    const ServerOptions& options, const CheckpointDir& dir,
    const PartitionMap& map, TableRegistry* registry, CutGate* gate) {
  const absl::StatusOr<LoadedCheckpoint> current =
      LoadCheckpoint(FileSystem::Real(), dir.path());
  if (absl::IsNotFound(current.status())) {
    if (options.resume) {
      spdlog::info("{} has no checkpoint: begins at the beginning",
                   dir.path());
    }
    if (!options.load.empty()) {
      OARLOCK_RETURN_IF_ERROR(LoadParameters(
          options.load, ServerIndex(options.server_index), map, registry));
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
                               /*parameters_only=*/false, map, registry));
  gate->Announce(current->manifest.cut());
  gate->Settle(current->manifest.cut());
  registry->clock().AdvanceTo(current->manifest.logical_time());
  return current->manifest;
}

}  // namespace

absl::Status LoadParameters(const std::string& path, ServerIndex server,
                            const PartitionMap& map, TableRegistry* registry) {
  OARLOCK_ASSIGN_OR_RETURN(const LoadedCheckpoint checkpoint,
                           LoadCheckpoint(FileSystem::Real(), path));
  return Load(checkpoint, server, /*parameters_only=*/true, map, registry);
}

absl::StatusOr<std::unique_ptr<ServerCheckpoints>> ServerCheckpoints::Create(
    const ServerOptions& options, const std::string& token,
    const PartitionMap* map, TableRegistry* registry, PushLedger* ledger,
    Coordinator* coordinator, CutGate* gate) {
  auto checkpoints = absl::WrapUnique(new ServerCheckpoints(
      options, token, map, registry, coordinator));
  OARLOCK_ASSIGN_OR_RETURN(
      const CheckpointDir dir,
      CheckpointDir::Create(FileSystem::Real(), options.checkpoint_dir));
  OARLOCK_ASSIGN_OR_RETURN(
      const std::optional<v1::CheckpointManifest> resumed,
      Resume(options, dir, *map, registry, gate));
  ServerCutOptions cuts;
  cuts.server = ServerIndex(options.server_index);
  cuts.directory = options.checkpoint_dir;
  cuts.num_threads = kNumThreads;
  OARLOCK_ASSIGN_OR_RETURN(checkpoints->cuts_,
                           ServerCut::Create(cuts, map, registry, gate));
  if (options.log_pushes) {
    PushJournalOptions journal;
    journal.directory =
        absl::StrCat(options.checkpoint_dir, "/log/",
                     ServerFolderName(options.server_index));
    journal.bytes_max = options.log_bytes_max;
    journal.sync_interval = options.log_sync_interval;
    journal.replay = options.replay_log;
    FaultPoint("restore.before_replay");
    OARLOCK_ASSIGN_OR_RETURN(
        checkpoints->journal_,
        PushJournal::Open(journal, registry, ledger, gate));
    checkpoints->replayed_ = options.replay_log;
    checkpoints->cuts_->SetJournal(checkpoints->journal_.get());
  }
  if (coordinator != nullptr) {
    OARLOCK_RETURN_IF_ERROR(checkpoints->BeginCoordinator(
        dir, resumed.has_value() ? &*resumed : nullptr));
  }
  checkpoints->service_ =
      std::make_unique<CheckpointService>(checkpoints->cuts_.get(), token);
  return checkpoints;
}

absl::Status ServerCheckpoints::BeginCoordinator(
    const CheckpointDir& dir, const v1::CheckpointManifest* resumed) {
  if (options_.log_pushes) {
    CoordinatorLogOptions log;
    log.directory = absl::StrCat(options_.checkpoint_dir, "/log/coordinator");
    log.replay = options_.replay_log;
    log.boot_id = BootId();
    OARLOCK_ASSIGN_OR_RETURN(
        coordinator_log_,
        CoordinatorLog::Open(log, FileSystem::Real(), coordinator_));
  }
  if (coordinator_log_ != nullptr && coordinator_log_->replayed()) {
    coordinator_->Return();
  } else {
    if (resumed != nullptr) coordinator_->Restore(*resumed);
    OARLOCK_ASSIGN_OR_RETURN(const uint64_t largest, dir.LargestCut());
    coordinator_->SkipCuts(largest);
  }
  return coordinator_log_ == nullptr
             ? absl::OkStatus()
             : coordinator_->SetJournal(coordinator_log_.get());
}

absl::Status ServerCheckpoints::Start(const std::string& endpoint) {
  if (coordinator_ == nullptr) return absl::OkStatus();
  OARLOCK_ASSIGN_OR_RETURN(
      const std::shared_ptr<grpc::ChannelCredentials> credentials,
      MakeChannelCredentials(options_.security));
  std::vector<std::shared_ptr<grpc::Channel>> channels;
  for (uint32_t i = 0; i < options_.server_endpoints.size(); ++i) {
    channels.push_back(grpc::CreateCustomChannel(
        i == options_.server_index ? endpoint : options_.server_endpoints[i],
        credentials, MakeChannelArguments()));
  }
  CheckpointLoopOptions loop;
  loop.job_id = options_.job_id;
  loop.directory = options_.checkpoint_dir;
  loop.token = token_;
  loop.interval = options_.checkpoint_interval;
  loop.keep = options_.checkpoint_keep;
  OARLOCK_ASSIGN_OR_RETURN(
      loop_, CheckpointLoop::Create(loop, map_, coordinator_, registry_,
                                    channels));
  loop_->Start();
  return absl::OkStatus();
}

void ServerCheckpoints::Stop() {
  if (loop_ != nullptr) loop_->Stop();
  cuts_->Stop();
}

}  // namespace oarlock
