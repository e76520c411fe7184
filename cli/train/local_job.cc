#include "cli/train/local_job.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "cli/train/job_events.h"
#include "cli/train/job_observer.h"
#include "cli/train/job_watch.h"
#include "client/server_connections.h"
#include "cluster/endpoint.h"
#include "cluster/environment.h"
#include "cluster/job_file.h"
#include "cluster/listener.h"
#include "cluster/security_options.h"
#include "launch/job_layout.h"
#include "launch/launch_plan.h"
#include "launch/launcher.h"
#include "launch/parent_process.h"
#include "worker/config/training_mode.h"
#include "worker/report/summary.h"

namespace oarlock::cli {
namespace {

// In the log folder, by the first worker.
constexpr char kSummaryFile[] = "summary.json";
// After which launchers give ports.
constexpr char kStartPortVariable[] = "FLAGS_START_PORT";

// Where the launcher's servers come in, by their indices.
using Listeners = std::vector<std::unique_ptr<cluster::Listener>>;

// Servers elsewhere take no part in the layout's node.
absl::Status TakeServers(const std::vector<std::string>& endpoints,
                         launch::JobLayout* layout) {
  layout->nodes.push_back("the servers");
  layout->servers.clear();
  for (const std::string& text : endpoints) {
    OARLOCK_ASSIGN_OR_RETURN(const cluster::Endpoint endpoint,
                             cluster::ParseEndpoint(text));
    layout->servers.push_back(
        {.host = endpoint.host, .port = endpoint.port, .node = 1});
  }
  return absl::OkStatus();
}

// Binds ports of this machine for good, so that of many jobs that begin at a
// time no two get the same one.
absl::StatusOr<Listeners> Listen(launch::JobLayout* layout) {
  Listeners listeners;
  for (launch::ProcessLocation& server : layout->servers) {
    OARLOCK_ASSIGN_OR_RETURN(
        listeners.emplace_back(),
        cluster::Listener::Listen(absl::StrCat(server.host, ":0")));
    server.port = listeners.back()->port();
  }
  return listeners;
}

// Fills `listeners` where the job is one of a program's.
absl::StatusOr<launch::LaunchPlan> PlanOf(
    const v1::TrainConfig& train, const v1::JobConfig& config,
    const std::vector<std::string>& server_endpoints, Listeners* listeners) {
  const cluster::EnvironmentMap environment = cluster::ReadEnvironment();
  v1::LaunchConfig launch;
  // At least one, which those that are there take the place of.
  launch.set_server_num(std::max(1, train.server_num()));
  launch.set_worker_num(train.worker_num());
  launch.set_max_restart(train.max_restart());
  launch.set_log_dir(config.log_dir());
  if (!config.job_id().empty()) launch.set_job_id(config.job_id());
  OARLOCK_ASSIGN_OR_RETURN(launch::JobLayout layout,
                           launch::LayOutJob(launch, environment, {}));
  if (!server_endpoints.empty()) {
    OARLOCK_RETURN_IF_ERROR(TakeServers(server_endpoints, &layout));
  } else if (train.events() && !environment.contains(kStartPortVariable)) {
    OARLOCK_ASSIGN_OR_RETURN(*listeners, Listen(&layout));
  }
  launch::LaunchPlan plan = launch::PlanProcesses(
      layout, launch, environment, launch::Machine().num_cores());
  // Servers stand first.
  for (size_t i = 0; i < listeners->size(); ++i) {
    launch::InheritListener(&plan.processes[i], (*listeners)[i]->descriptor());
  }
  return plan;
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
  if (security.token_file.empty() &&
      plan.NumLocal(cluster::Role::kServer) > 0) {
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

}  // namespace

absl::StatusOr<int> RunLocalJob(
    const v1::TrainConfig& train, const v1::JobConfig& config,
    const std::vector<std::string>& server_endpoints,
    const std::vector<std::string>& argv, const Clocks& clocks) {
  InitPatientLogging("launcher");
  Listeners listeners;
  OARLOCK_ASSIGN_OR_RETURN(const launch::LaunchPlan plan,
                           PlanOf(train, config, server_endpoints, &listeners));
  OARLOCK_ASSIGN_OR_RETURN(const cluster::SecurityOptions security,
                           SecurityOf(config));
  std::printf(
      "oarlock   job %s: %d servers, %d workers with %d threads each, %s   "
      "logs in %s\n",
      plan.job_id.c_str(), static_cast<int>(plan.server_endpoints.size()),
      train.worker_num(), config.thread_num(), config.mode().c_str(),
      config.log_dir().c_str());
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
  options.stop_request = launch::StopWithParent(
      train.parent_pidfd(), "the process that the job is for");
  options.token_file = security.token_file;
  // Until the summary is read: nobody else may write it meanwhile.
  launch::Launcher launcher(options);
  int exit_code;
  {
    JobObserver observer(ObserverOf(plan, security, clocks));
    // One of the two, since only one thread may ask.
    std::optional<JobEvents> events;
    std::optional<JobWatch> watch;
    if (train.events()) {
      events.emplace(JobEvents::Job{[&] { return observer.Status(); },
                                    [&](const std::string& reason) {
                                      return observer.Stop(reason);
                                    },
                                    [&](const std::string& reason) {
                                      return observer.Drain(reason);
                                    }},
                     config.epochs(), clocks);
    } else {
      watch.emplace([&] { return observer.Status(); }, config.epochs(),
                    *clocks.monotonic);
    }
    OARLOCK_ASSIGN_OR_RETURN(exit_code, launcher.Run(plan, argv));
    events.reset();
    if (train.events() && !server_endpoints.empty()) {
      // Servers that do not stay are gone.
      const absl::StatusOr<std::string> folder = observer.CheckpointDir();
      if (folder.ok()) JobEvents::TellCheckpointDir(*folder);
    }
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
