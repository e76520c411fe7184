#include "cli/train/local_job.h"

#include <cstdio>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "cli/train/job_watch.h"
#include "client/server_connections.h"
#include "cluster/environment.h"
#include "cluster/job_file.h"
#include "cluster/security_options.h"
#include "launch/launch_plan.h"
#include "launch/launcher.h"
#include "worker/config/training_mode.h"
#include "worker/report/summary.h"

namespace oarlock::cli {
namespace {

// In the log folder, by the first worker.
constexpr char kSummaryFile[] = "summary.json";

absl::StatusOr<launch::LaunchPlan> PlanOf(const v1::TrainConfig& train,
                                          const v1::JobConfig& config) {
  v1::LaunchConfig launch;
  launch.set_server_num(train.server_num());
  launch.set_worker_num(train.worker_num());
  launch.set_max_restart(train.max_restart());
  launch.set_log_dir(config.log_dir());
  if (!config.job_id().empty()) launch.set_job_id(config.job_id());
  return launch::PlanLaunch(launch, cluster::ReadEnvironment());
}

absl::StatusOr<cluster::SecurityOptions> SecurityOf(
    const v1::JobConfig& config) {
  cluster::SecurityOptions flags;
  flags.tls_cert_file = config.tls_cert_file();
  flags.tls_key_file = config.tls_key_file();
  flags.tls_ca_file = config.tls_ca_file();
  flags.token_file = config.token_file();
  return cluster::SecurityFrom(cluster::ReadEnvironment(), std::move(flags));
}

client::ConnectionOptions ObserverOf(const launch::LaunchPlan& plan,
                                     const cluster::SecurityOptions& security,
                                     const Clocks& clocks) {
  client::ConnectionOptions options;
  options.clocks = clocks;
  options.endpoints = plan.server_endpoints;
  options.job_id = plan.job_id;
  options.client_name = "progress line";
  options.connect_timeout = absl::Milliseconds(100);
  options.rpc_timeout = absl::Milliseconds(200);
  options.security = security;
  // The launcher makes one.
  if (security.token_file.empty()) {
    options.security.token_file = cluster::JobTokenPath(plan.log_dir);
  }
  return options;
}

// All processes return to the last checkpoint when a server dies.
bool RollsBack(const v1::JobConfig& config) {
  if (config.recovery() == "auto") return config.durability() != "log";
  return config.recovery() == "rollback";
}

// Whose death takes all others with it.
launch::LauncherOptions::Together Together(const v1::JobConfig& config) {
  if (config.checkpoint_dir().empty()) {
    return launch::LauncherOptions::Together::kNobody;
  }
  if (RollsBack(config)) return launch::LauncherOptions::Together::kServers;
  return config.durability() == "log"
             ? launch::LauncherOptions::Together::kNobody
             : launch::LauncherOptions::Together::kCoordinator;
}

// A round that a worker's death has left incomplete cannot be completed by
// another one; from the last cut on all give the same bits again.
bool RoundsRollBack(const v1::JobConfig& config) {
  return worker::ModeOf(config) == worker::TrainingMode::kSync &&
         !config.checkpoint_dir().empty();
}

// Connects on the first call that succeeds. Servers that are away are not
// waited for: the job may be over.
JobWatch::Source StatusSource(const client::ConnectionOptions& options) {
  auto connections =
      std::make_shared<std::unique_ptr<client::ServerConnections>>();
  return [options, connections]() -> absl::StatusOr<v1::JobStatusResponse> {
    if (*connections == nullptr) {
      OARLOCK_ASSIGN_OR_RETURN(*connections,
                               client::ServerConnections::Connect(options));
    }
    v1::JobStatusResponse response;
    OARLOCK_RETURN_IF_ERROR(
        (*connections)
            ->CallWithRetries(
                ServerIndex(0), options.rpc_timeout,
                [&](grpc::ClientContext* context) {
                  return (*connections)
                      ->coordinator()
                      .GetJobStatus(context, v1::JobStatusRequest(), &response);
                }));
    return response;
  };
}

}  // namespace

absl::StatusOr<int> RunLocalJob(const v1::TrainConfig& train,
                                const v1::JobConfig& config,
                                const std::vector<std::string>& argv,
                                const Clocks& clocks) {
  InitPatientLogging("launcher");
  OARLOCK_ASSIGN_OR_RETURN(const launch::LaunchPlan plan,
                           PlanOf(train, config));
  OARLOCK_ASSIGN_OR_RETURN(const cluster::SecurityOptions security,
                           SecurityOf(config));
  std::printf(
      "oarlock   job %s: %d servers, %d workers with %d threads each, %s   "
      "logs in %s\n",
      plan.job_id.c_str(), train.server_num(), train.worker_num(),
      config.thread_num(), config.mode().c_str(), config.log_dir().c_str());
  std::printf("servers   %s\n",
              absl::StrJoin(plan.server_endpoints, ", ").c_str());
  std::fflush(stdout);
  launch::LauncherOptions options;
  options.clocks = clocks;
  options.restart_together = Together(config);
  options.workers_restart_all = RoundsRollBack(config);
  options.workers_end_on_signal = !config.watch_dir().empty();
  if (!config.on_checkpoint().empty()) {
    options.server_linger += absl::Seconds(config.on_checkpoint_timeout_s());
  }
  options.outputs = {kSummaryFile};
  options.token_file = security.token_file;
  // Until the summary is read: nobody else may write it meanwhile.
  launch::Launcher launcher(options);
  int exit_code;
  {
    JobWatch watch(StatusSource(ObserverOf(plan, security, clocks)),
                   config.epochs(), *clocks.monotonic);
    OARLOCK_ASSIGN_OR_RETURN(exit_code, launcher.Run(plan, argv));
  }
  if (exit_code != 0) return exit_code;
  const std::string summary_path =
      absl::StrCat(config.log_dir(), "/", kSummaryFile);
  OARLOCK_ASSIGN_OR_RETURN(const worker::TrainingSummary summary,
                           worker::ReadSummary(summary_path));
  std::printf("%ssummary   %s\n", worker::SummaryTable(summary).c_str(),
              summary_path.c_str());
  return 0;
}

}  // namespace oarlock::cli
