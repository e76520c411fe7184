#include "fleet/fleet.h"

#include <sys/stat.h>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "cluster/endpoint.h"
#include "cluster/log_dir_lock.h"
#include "fleet/local_cluster.h"
#include "fleet/role/job_description.h"
#include "fleet/role/metrics_server.h"
#include "fleet/role/role_process.h"
#include "fleet/role/run_record.h"
#include "fleet/role/stop_signal.h"
#include "fleet/role/worker_connection.h"
#include "pserver/server.h"
#include "pserver/table/table_metrics.h"
#include "worker/config/data_options_of.h"
#include "worker/config/training_mode.h"
#include "worker/input/training_data.h"
#include "worker/report/write_file_atomically.h"
#include "worker/trainer.h"

namespace oarlock {
namespace {

constexpr char kLoopback[] = "127.0.0.1";
constexpr int kMaxPort = 65535;

// Listens for scrapes as --metrics_port says; null where it says nothing.
absl::StatusOr<std::unique_ptr<MetricsServer>> ListenForMetrics(
    const v1::JobConfig& config, const cluster::RoleAssignment& role,
    const Clock& clock) {
  if (config.metrics_port() == 0) return nullptr;
  std::string host = kLoopback;
  uint32_t offset = 0;
  if (role.role == cluster::Role::kServer) {
    host = cluster::HostOf(role.server_endpoints[role.server_index]);
    offset = role.server_index;
  } else if (role.role == cluster::Role::kWorker) {
    if (role.worker_index < role.worker_endpoints.size()) {
      host = cluster::HostOf(role.worker_endpoints[role.worker_index]);
    }
    offset =
        static_cast<uint32_t>(role.server_endpoints.size()) + role.worker_index;
  }
  const int64_t port = int64_t{config.metrics_port()} + offset;
  if (port > kMaxPort) {
    return absl::InvalidArgumentError(
        absl::StrCat("--metrics_port is ", config.metrics_port(),
                     ", which makes ", port, " for ", cluster::RoleName(role),
                     "; legal is up to ", kMaxPort, "; choose a lower one"));
  }
  OARLOCK_ASSIGN_OR_RETURN(
      std::unique_ptr<MetricsServer> metrics,
      MetricsServer::Listen(host, static_cast<int>(port), clock));
  Log().info("metrics on http://{}:{}/metrics", host, port);
  return metrics;
}

// What a run without servers would leave undone without a word.
absl::Status CheckLocal(const v1::JobConfig& config) {
  const char* flag = config.resume()                    ? "--resume"
                     : !config.load().empty()           ? "--load"
                     : config.durability() == "log"     ? "--durability log"
                     : !config.checkpoint_dir().empty() ? "--checkpoint_dir"
                                                        : nullptr;
  if (flag == nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      flag,
      " is for servers' checkpoints, and a local run has neither; add "
      "--server_num 1 --worker_num 1"));
}

// Before hours of training, not after. A worker with servers locks nothing: its
// launcher does. Null for workers that write nothing there.
absl::StatusOr<std::unique_ptr<cluster::LogDirLock>> PrepareLogDir(
    const std::string& log_dir, const cluster::RoleAssignment& role) {
  if (role.worker_index != 0) return nullptr;
  std::vector<cluster::LogWriter> writers;
  if (role.role == cluster::Role::kLocal)
    writers.push_back({cluster::Role::kWorker, 0});
  return cluster::LogDirLock::Take(log_dir, writers);
}

// Who is started again goes on, whether its command line says so or not.
v1::JobConfig ConfigOf(const v1::JobConfig& config,
                       const cluster::RoleAssignment& role) {
  v1::JobConfig result = config;
  if (role.restarts > 0) result.set_resume(true);
  return result;
}

absl::Status CheckFlags(const v1::JobConfig& config, uint32_t num_servers) {
  if (config.resume() && config.checkpoint_dir().empty()) {
    return absl::InvalidArgumentError(
        "--resume needs the folder of the checkpoints to go on from; give it "
        "by --checkpoint_dir");
  }
  if (config.durability() == "log" && config.checkpoint_dir().empty()) {
    return absl::InvalidArgumentError(
        "--durability log needs a folder for the log; give it by "
        "--checkpoint_dir");
  }
  if (config.recovery() == "replay" && config.durability() != "log") {
    return absl::InvalidArgumentError(absl::StrCat(
        "--recovery replay needs a log to replay; legal with --durability ",
        config.durability(), " are rollback and accept_loss"));
  }
  if (config.recovery() == "accept_loss" &&
      worker::ModeOf(config) == worker::TrainingMode::kSync) {
    return absl::InvalidArgumentError(
        "--recovery accept_loss leaves servers at different rounds; legal with "
        "--mode sync are replay and rollback");
  }
  if (config.resume() && !config.load().empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--resume goes on from the job's own checkpoint, --load ",
        config.load(), " begins with another's parameters; give one of them"));
  }
  const auto num_partitions = static_cast<uint32_t>(config.num_partitions());
  if (!std::has_single_bit(num_partitions)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--num_partitions is ", num_partitions,
                     "; legal is a power of two, for example ",
                     std::bit_floor(num_partitions)));
  }
  if (num_partitions < num_servers) {
    return absl::InvalidArgumentError(
        absl::StrCat("--num_partitions is ", num_partitions, " with ",
                     num_servers, " servers, and each needs one; legal is ",
                     std::bit_ceil(num_servers), " or more; leave it out"));
  }
  return worker::Trainer::CheckConfig(config);
}

std::string TierDirOf(const v1::JobConfig& config) {
  return config.tier_dir().empty() ? absl::StrCat(config.log_dir(), "/tier")
                                   : config.tier_dir();
}

}  // namespace

class Fleet::ServerRole {
 public:
  // `metrics` may be null.
  ServerRole(std::unique_ptr<pserver::Server> server,
             std::unique_ptr<MetricsServer> metrics)
      : server_(std::move(server)),
        metrics_(std::move(metrics)),
        stop_(
            [s = server_.get()](int signal) {
              Log().info("signal {}: draining", signal);
              s->Shutdown();
            },
            [s = server_.get()](int signal) {
              Log().info("signal {} again: no worker is waited for", signal);
              s->EndWithoutWorkers();
            }) {
    if (metrics_ == nullptr) return;
    metrics_->Serve([s = server_.get()](MetricsSnapshot* snapshot) {
      s->CollectMetrics(snapshot);
    });
  }

  pserver::Server& server() { return *server_; }

 private:
  const std::shared_ptr<pserver::Server> server_;
  const std::unique_ptr<MetricsServer> metrics_;
  StopSignal stop_;
};

// A worker's clients and its trainer, in the order in which they need each
// other.
class Fleet::Worker {
 public:
  static absl::StatusOr<std::unique_ptr<Worker>> Create(
      const v1::JobConfig& config, const cluster::RoleAssignment& role,
      const Clocks& clocks) {
    auto worker = std::make_unique<Worker>();
    worker->clocks_ = clocks;
    // First, so that a port in use costs the job nothing.
    OARLOCK_ASSIGN_OR_RETURN(worker->metrics_,
                             ListenForMetrics(config, role, *clocks.monotonic));
    if (role.role == cluster::Role::kLocal) {
      auto parameters = std::make_unique<LocalParameterClient>(
          config.num_partitions(),
          LocalTableOptions{.tick = absl::Seconds(config.tick_s()),
                            .tick_per_epoch = config.tick_per_epoch(),
                            .tier_dir = TierDirOf(config),
                            .clocks = clocks});
      worker->local_tables_ = &parameters->tables();
      worker->job_ = std::make_unique<LocalJobClient>(clocks, parameters.get());
      worker->parameters_ = std::move(parameters);
    } else {
      const v1::JobDescription description = DescribeJob(config);
      OARLOCK_ASSIGN_OR_RETURN(
          WorkerConnection connection,
          ConnectWorker(config, role, clocks, &description));
      worker->connections_ = std::move(connection.servers);
      worker->job_ = std::move(connection.job);
      worker->parameters_ = std::move(connection.parameters);
    }
    return worker;
  }

  // `warnings` of how the job began.
  absl::Status Start(const v1::JobConfig& config,
                     std::vector<std::string> warnings) {
    OARLOCK_ASSIGN_OR_RETURN(
        trainer_, worker::Trainer::Create(
                      config, parameters_.get(), job_.get(),
                      {.clocks = clocks_, .warnings = std::move(warnings)}));
    if (metrics_ != nullptr) {
      metrics_->Serve([this](MetricsSnapshot* snapshot) {
        trainer_->CollectMetrics(snapshot);
        if (local_tables_ != nullptr) {
          pserver::CollectTableMetrics(*local_tables_, snapshot);
        }
      });
    }
    return trainer_->CreateTables();
  }

  client::JobClient& job() { return *job_; }
  worker::Trainer& trainer() { return *trainer_; }

 private:
  Clocks clocks_;
  std::unique_ptr<client::ServerConnections> connections_;
  std::unique_ptr<client::JobClient> job_;
  std::unique_ptr<client::ParameterClient> parameters_;
  std::unique_ptr<worker::Trainer> trainer_;
  // In parameters_, of a local run.
  const pserver::TableRegistry* local_tables_ = nullptr;
  // Tells what the others have.
  std::unique_ptr<MetricsServer> metrics_;
};

absl::StatusOr<cluster::RoleAssignment> RoleFromEnvironment(
    const cluster::ExplicitRole& arguments) {
  return cluster::ResolveRole(cluster::ReadEnvironment(), arguments);
}

Fleet::Fleet(const v1::JobConfig& config, const cluster::RoleAssignment& role,
             const Clocks& clocks)
    : config_(ConfigOf(config, role)), role_(role), clocks_(clocks) {}

Fleet::~Fleet() = default;

absl::Status Fleet::CheckConfig(v1::JobConfig config, uint32_t num_servers) {
  OARLOCK_RETURN_IF_ERROR(oarlock::worker::TakeFeatures(&config));
  OARLOCK_RETURN_IF_ERROR(GoOnWithModel(&config).status());
  return CheckFlags(config, num_servers);
}

data::DataOptions::Format Fleet::DataFormatOf(const v1::JobConfig& config) {
  return oarlock::worker::DataFormatOf(config);
}

absl::StatusOr<std::unique_ptr<Fleet>> Fleet::Init(
    const v1::JobConfig& config, const cluster::RoleAssignment& role,
    const Clocks& clocks) {
  if (role.role == cluster::Role::kCollective) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the environment describes a collective job (", role.reason,
        "), but this program trains with parameter servers; set "
        "PADDLE_PSERVERS_IP_PORT_LIST, or unset PADDLE_TRAINER_ENDPOINTS"));
  }
  v1::JobConfig taken = config;
  OARLOCK_RETURN_IF_ERROR(oarlock::worker::TakeFeatures(&taken));
  std::vector<std::string> warnings;
  // Servers know no model, but have the flags of a launcher's command line.
  if (role.role != cluster::Role::kServer || !config.load().empty()) {
    OARLOCK_ASSIGN_OR_RETURN(warnings, GoOnWithModel(&taken));
  }
  OARLOCK_RETURN_IF_ERROR(
      CheckFlags(taken, static_cast<uint32_t>(role.server_endpoints.size())));
  if (role.role == cluster::Role::kLocal)
    OARLOCK_RETURN_IF_ERROR(CheckLocal(config));
  BeginRole(role);
  auto fleet = absl::WrapUnique(new Fleet(taken, role, clocks));
  fleet->warnings_ = std::move(warnings);
  return fleet;
}

absl::Status Fleet::InitServer() {
  if (role_.restarts > 0 && config_.checkpoint_dir().empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat(cluster::RoleName(role_),
                     " has died and is started again, but its rows were in "
                     "memory only; with --checkpoint_dir it could go on"));
  }
  if (role_.restarts > 0 && !role_.restarted_together && server_index() == 0 &&
      config_.durability() != "log") {
    return absl::FailedPreconditionError(
        "server 0, which knows who works on what, has died and is started "
        "again by itself; start all processes of the job again with --resume");
  }
  StopSignal::Block();
  pserver::ServerOptions options;
  options.server_endpoints = role_.server_endpoints;
  options.server_index = role_.server_index;
  options.job_id = JobIdOf(config_, role_);
  options.num_workers = role_.num_workers;
  options.stay = role_.stay;
  options.listen_descriptor = role_.listen_descriptor;
  options.num_partitions = config_.num_partitions();
  options.lease = absl::Seconds(config_.lease_s());
  options.tick = absl::Seconds(config_.tick_s());
  options.tick_per_epoch = config_.tick_per_epoch();
  options.tier_dir = TierDirOf(config_);
  options.num_threads = config_.server_threads();
  options.max_held_bytes = static_cast<uint64_t>(config_.max_held_mb()) << 20;
  options.checkpoint_dir = config_.checkpoint_dir();
  options.checkpoint_interval = absl::Seconds(config_.checkpoint_interval_s());
  options.checkpoint_keep = static_cast<uint32_t>(config_.checkpoint_keep());
  options.on_checkpoint = config_.on_checkpoint();
  options.on_checkpoint_timeout =
      absl::Seconds(config_.on_checkpoint_timeout_s());
  options.log_pushes = config_.durability() == "log";
  options.log_bytes_max = config_.log_bytes_max();
  options.log_sync_interval = absl::Seconds(config_.log_sync_interval_s());
  // One that died goes on from where it can.
  options.resume = config_.resume() || role_.restarts > 0;
  options.resume_from_logs =
      config_.recovery() != "rollback" && !role_.restarted_together &&
      worker::ModeOf(config_) != worker::TrainingMode::kSync &&
      !worker::TrainingData::HasStaticSplit(config_);
  // All that go on together go back to their checkpoint together.
  options.replay_log = role_.restarts > 0 && !role_.restarted_together;
  options.load = config_.load();
  options.security = SecurityOf(config_, role_);
  options.clocks = clocks_;
  // First, so that a port in use costs the job nothing.
  OARLOCK_ASSIGN_OR_RETURN(
      std::unique_ptr<MetricsServer> metrics,
      ListenForMetrics(config_, role_, *clocks_.monotonic));
  OARLOCK_ASSIGN_OR_RETURN(std::unique_ptr<pserver::Server> server,
                           pserver::Server::Start(options));
  Log().info("listening on {} for job {} of {} workers, generation {}",
             server->endpoint(), options.job_id, options.num_workers,
             server->generation().value());
  server_ = std::make_unique<ServerRole>(std::move(server), std::move(metrics));
  return absl::OkStatus();
}

absl::Status Fleet::RunServer() {
  absl::Status status = server_->server().Wait();
  server_->server().Shutdown();
  if (status.ok()) Log().info("the job is over");
  return status;
}

absl::Status Fleet::Worked(absl::Status status) {
  if (status.ok() || worker_ == nullptr) return status;
  const absl::Status reported = worker_->job().Finish(status);
  // A server knows who is fenced, the coordinator by whom.
  if (absl::IsAborted(status) && absl::IsAborted(reported)) return reported;
  if (!reported.ok()) {
    Log().warn("could not tell the coordinator: {}",
               std::string(reported.message()));
  }
  return status;
}

absl::Status Fleet::InitWorker() {
  // Before threads are started, for TrainOnline.
  if (!config_.watch_dir().empty()) StopSignal::Block();
  OARLOCK_ASSIGN_OR_RETURN(log_dir_lock_,
                           PrepareLogDir(config_.log_dir(), role_));
  // That of the run before must not be taken for this one's, if this fails.
  if (IsFirstWorker()) {
    const std::string summary =
        absl::StrCat(config_.log_dir(), "/summary.json");
    std::error_code error;
    std::filesystem::rename(summary, absl::StrCat(summary, ".old"), error);
    if (!config_text_.empty()) {
      OARLOCK_RETURN_IF_ERROR(worker::WriteFileAtomically(
          absl::StrCat(config_.log_dir(), "/config.textproto"), config_text_));
    }
  }
  OARLOCK_ASSIGN_OR_RETURN(worker_, Worker::Create(config_, role_, clocks_));
  OARLOCK_RETURN_IF_ERROR(
      Worked(worker_->Start(config_, std::move(warnings_))));
  const absl::StatusOr<uint32_t> first = worker_->trainer().FirstEpoch();
  OARLOCK_RETURN_IF_ERROR(Worked(first.status()));
  epoch_ = *first;
  return absl::OkStatus();
}

absl::StatusOr<bool> Fleet::MayBeginEpoch() {
  absl::StatusOr<bool> begins = worker_->trainer().MayBeginEpoch(epoch_);
  OARLOCK_RETURN_IF_ERROR(Worked(begins.status()));
  return begins;
}

absl::Status Fleet::TrainFromDataset() {
  return Worked(worker_->trainer().TrainEpoch(epoch_++));
}

absl::Status Fleet::TrainOnline() {
  const StopSignal stop([job = &worker_->job()](int signal) {
    Log().info("signal {}: training is being stopped", signal);
    const absl::Status reported =
        job->StopTraining(absl::StrCat("signal ", signal));
    if (!reported.ok()) Log().warn("{}", std::string(reported.message()));
  });
  return Worked(worker_->trainer().TrainOnline());
}

absl::Status Fleet::InferFromDataset() {
  return Worked(worker_->trainer().Evaluate(epoch_ == 0 ? 0 : epoch_ - 1));
}

worker::TrainingData& Fleet::data() {
  return worker_->trainer().training_data();
}

absl::Status Fleet::LoadIntoMemory() {
  return Worked(data().LoadIntoMemory(epoch_));
}

absl::Status Fleet::PreloadIntoMemory() {
  return Worked(data().PreloadIntoMemory(epoch_));
}

absl::Status Fleet::WaitPreload() { return Worked(data().WaitPreload()); }

absl::Status Fleet::LocalShuffle() {
  return Worked(data().SetShuffle(data::ShuffleRule::kLocal));
}

absl::Status Fleet::GlobalShuffle() {
  return Worked(data().SetShuffle(data::ShuffleRule::kGlobal));
}

absl::Status Fleet::ReleaseMemory() { return Worked(data().ReleaseMemory()); }

uint64_t Fleet::MemoryBytes() { return data().memory_bytes(); }

absl::StatusOr<worker::TrainingSummary> Fleet::StopWorker() {
  absl::StatusOr<worker::TrainingSummary> summary =
      worker_->trainer().Summarize();
  OARLOCK_RETURN_IF_ERROR(Worked(summary.status()));
  if (IsFirstWorker()) {
    summary->servers = role_.role == cluster::Role::kLocal ? 0 : server_num();
    const worker::Trainer& trainer = worker_->trainer();
    RecordRun(config_, trainer.train_files(), trainer.test_files(), &*summary);
    const absl::Status kept = Keep(*summary);
    if (!kept.ok()) {
      // The figures of hours of training are not lost with a full disk.
      std::fputs(worker::SummaryTable(*summary).c_str(), stderr);
      return Worked(kept);
    }
  }
  OARLOCK_RETURN_IF_ERROR(worker_->job().Finish(absl::OkStatus()));
  return summary;
}

absl::Status Fleet::Keep(const worker::TrainingSummary& summary) {
  if (worker_->job().takes_cuts()) {
    OARLOCK_RETURN_IF_ERROR(worker_->job().Checkpoint());
  }
  std::error_code ignored;
  std::filesystem::create_directories(config_.log_dir(), ignored);
  return worker::WriteSummary(summary,
                              absl::StrCat(config_.log_dir(), "/summary.json"));
}

client::JobClient* Fleet::job() { return &worker_->job(); }

absl::Status RunRole(Fleet& fleet, worker::TrainingSummary* summary,
                     absl::FunctionRef<void(client::JobClient*)> on_start) {
  const v1::JobConfig& config = fleet.config();
  if (fleet.IsServer()) {
    OARLOCK_RETURN_IF_ERROR(fleet.InitServer());
    return fleet.RunServer();
  }
  OARLOCK_RETURN_IF_ERROR(fleet.InitWorker());
  on_start(fleet.job());
  if (!config.watch_dir().empty()) {
    OARLOCK_RETURN_IF_ERROR(fleet.TrainOnline());
  }
  while (config.watch_dir().empty() &&
         fleet.epoch() < static_cast<uint32_t>(config.epochs())) {
    OARLOCK_ASSIGN_OR_RETURN(const bool begins, fleet.MayBeginEpoch());
    if (!begins) break;
    OARLOCK_RETURN_IF_ERROR(fleet.TrainFromDataset());
    OARLOCK_RETURN_IF_ERROR(fleet.InferFromDataset());
  }
  OARLOCK_ASSIGN_OR_RETURN(worker::TrainingSummary result, fleet.StopWorker());
  if (summary != nullptr) *summary = std::move(result);
  return absl::OkStatus();
}

}  // namespace oarlock
