#include "launch/multi_node_job.h"

#include <grpcpp/create_channel.h>

#include <cstdio>
#include <memory>
#include <optional>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/process/listen_check.h"
#include "base/status_macros.h"
#include "cluster/endpoint.h"
#include "cluster/retry.h"
#include "cluster/security.h"
#include "launch/job_layout.h"
#include "launch/launch_plan.h"
#include "launch/node_rendezvous.h"
#include "launch/node_rendezvous_client.h"
#include "launch/node_rendezvous_server.h"
#include "launch/program.h"

namespace oarlock::launch {
namespace {

absl::StatusOr<cluster::SecurityOptions> SecurityOf(
    const v1::RendezvousConfig& rendezvous,
    const cluster::EnvironmentMap& environment) {
  cluster::SecurityOptions security;
  security.insecure = rendezvous.insecure();
  security.token_file = rendezvous.token_file();
  security.tls_cert_file = rendezvous.tls_cert_file();
  security.tls_key_file = rendezvous.tls_key_file();
  security.tls_ca_file = rendezvous.tls_ca_file();
  return cluster::SecurityFrom(environment, std::move(security));
}

constexpr int kServeAttempts = 3;

v1::NodeReport ReportOf(const v1::LaunchConfig& config,
                        const cluster::EnvironmentMap& environment) {
  v1::NodeReport report;
  report.set_protocol_version(kNodeRendezvousVersion);
  report.set_job_id(JobIdOf(config, environment));
  report.set_num_nodes(config.nnodes());
  report.set_max_restart(config.max_restart());
  report.set_rank(config.rank());
  std::random_device random;
  report.set_launcher_id(static_cast<uint64_t>(random()) << 32 | random());
  return report;
}

class MultiNodeJob {
 public:
  MultiNodeJob(const v1::LaunchConfig& config,
               const v1::RendezvousConfig& rendezvous,
               const cluster::EnvironmentMap& environment,
               const std::vector<std::string>& argv,
               const LauncherOptions& options, const Machine& machine)
      : config_(config),
        rendezvous_config_(rendezvous),
        environment_(environment),
        argv_(argv),
        options_(options),
        machine_(machine) {
    AddSecurity(rendezvous, &environment_);
  }

  absl::StatusOr<int> Run();

 private:
  absl::Status Connect(const v1::NodeShare& share);
  // Null: another launcher does.
  absl::StatusOr<std::unique_ptr<NodeRendezvousServer>> Serve(
      const v1::NodeReport& report,
      const cluster::SecurityOptions& security) const;
  // One attempt: the exit code, or nothing when there is another one.
  absl::StatusOr<std::optional<int>> RunAttempt(const v1::NodesReady& attempt);
  // Tells the others how the processes of this node have ended.
  std::optional<int> EndAttempt(const Launcher& launcher, int exit_code);

  const v1::LaunchConfig& config_;
  const v1::RendezvousConfig& rendezvous_config_;
  cluster::EnvironmentMap environment_;
  const std::vector<std::string>& argv_;
  const LauncherOptions& options_;
  const Machine& machine_;
  // Ends after client_, which calls it.
  std::unique_ptr<NodeRendezvousServer> server_;
  std::unique_ptr<NodeRendezvousClient> client_;
};

absl::StatusOr<std::unique_ptr<NodeRendezvousServer>> MultiNodeJob::Serve(
    const v1::NodeReport& report,
    const cluster::SecurityOptions& security) const {
  if (config_.rank() > 0) return nullptr;
  const bool certain = config_.rank() == 0;
  // Launchers of one machine may all try, and be in each other's way.
  for (int attempt = 1;; ++attempt) {
    if (!certain && !CheckCanListen(config_.master()).ok()) return nullptr;
    absl::StatusOr<std::unique_ptr<NodeRendezvousServer>> server =
        NodeRendezvousServer::Start(
            {.expected = report,
             .endpoint = config_.master(),
             .rendezvous_timeout =
                 absl::Seconds(rendezvous_config_.rendezvous_timeout_s()),
             .heartbeat_timeout =
                 absl::Seconds(rendezvous_config_.heartbeat_timeout_s())},
            security, *options_.clocks.monotonic);
    if (server.ok() || certain || attempt == kServeAttempts) return server;
  }
}

absl::Status MultiNodeJob::Connect(const v1::NodeShare& share) {
  OARLOCK_ASSIGN_OR_RETURN(const cluster::SecurityOptions security,
                           SecurityOf(rendezvous_config_, environment_));
  const v1::NodeReport report = ReportOf(config_, environment_);
  v1::NodeReport expected = report;
  *expected.mutable_ready() = share;
  // The token of a node that comes is as good as node 0's.
  OARLOCK_RETURN_IF_ERROR(cluster::CheckServable(config_.master(), security));
  OARLOCK_ASSIGN_OR_RETURN(server_, Serve(expected, security));
  Log().info("this node is {}; {} nodes meet at {}{}", share.host(),
             config_.nnodes(), config_.master(),
             server_ == nullptr ? "" : ", here");
  OARLOCK_ASSIGN_OR_RETURN(
      auto credentials,
      cluster::MakeChannelCredentials(
          security, absl::MakeConstSpan(&config_.master(), 1)));
  OARLOCK_ASSIGN_OR_RETURN(std::string token, cluster::ReadToken(security));
  client_ = std::make_unique<NodeRendezvousClient>(
      NodeRendezvousClient::Options{
          .report = report,
          .endpoint = config_.master(),
          .token = std::move(token),
          .rendezvous_timeout =
              absl::Seconds(rendezvous_config_.rendezvous_timeout_s()),
          .heartbeat_timeout =
              absl::Seconds(rendezvous_config_.heartbeat_timeout_s()),
          .clocks = options_.clocks},
      grpc::CreateCustomChannel(config_.master(), std::move(credentials),
                                cluster::MakeChannelArguments()));
  return absl::OkStatus();
}

std::optional<int> MultiNodeJob::EndAttempt(const Launcher& launcher,
                                            int exit_code) {
  const bool stop_requested = client_->over().has_value();
  const v1::AttemptOver over =
      exit_code == 0 ? client_->Done()
                     : client_->Failed(launcher.failure(), launcher.is_final());
  if (over.success()) return 0;
  if (over.again() && !launcher.is_final()) {
    Log().warn("{}; all processes of all nodes are started again",
               over.reason());
    return std::nullopt;
  }
  if (!stop_requested) Log().error("the job has failed: {}", over.reason());
  return exit_code == 0 ? 1 : exit_code;
}

absl::StatusOr<std::optional<int>> MultiNodeJob::RunAttempt(
    const v1::NodesReady& attempt) {
  OARLOCK_ASSIGN_OR_RETURN(const JobLayout layout,
                           LayOutNodes(config_, attempt));
  LaunchPlan plan =
      PlanProcesses(layout, config_, environment_, machine_.num_cores());
  // Ranks are started again by all nodes together.
  if (plan.collective) plan.max_restart = 0;
  Log().info("attempt {}: this is node {} of {}, with {} processes",
             attempt.attempt(), attempt.node(), layout.nodes.size(),
             plan.processes.size());
  if (config_.print_config() && attempt.attempt() == 0) {
    std::fputs(DescribePlan(plan).c_str(), stdout);
    std::fflush(stdout);
  }
  LauncherOptions options = options_;
  options.attempts_before = static_cast<int>(attempt.attempt());
  options.stop_request =
      [this]() -> std::optional<LauncherOptions::StopRequest> {
    const std::optional<v1::AttemptOver> over = client_->over();
    if (!over.has_value()) return std::nullopt;
    return LauncherOptions::StopRequest{over->reason(), over->again()};
  };
  Launcher launcher(std::move(options));
  const absl::StatusOr<int> exit_code = launcher.Run(plan, argv_);
  if (!exit_code.ok()) {
    client_->Failed(std::string(exit_code.status().message()), true);
    return exit_code.status();
  }
  return EndAttempt(launcher, *exit_code);
}

absl::StatusOr<int> MultiNodeJob::Run() {
  // What is wrong here need not trouble the others.
  OARLOCK_RETURN_IF_ERROR(ResolveProgram(argv_, environment_).status());
  OARLOCK_ASSIGN_OR_RETURN(v1::NodeShare share,
                           ShareOfNode(config_, environment_, machine_));
  OARLOCK_RETURN_IF_ERROR(Connect(share));
  while (true) {
    OARLOCK_ASSIGN_OR_RETURN(const v1::NodesReady attempt,
                             client_->Join(share));
    OARLOCK_ASSIGN_OR_RETURN(const std::optional<int> exit_code,
                             RunAttempt(attempt));
    if (exit_code.has_value()) return *exit_code;
    // Free ports of the last attempt may have been taken meanwhile.
    absl::StatusOr<v1::NodeShare> next =
        ShareOfNode(config_, environment_, machine_);
    if (!next.ok()) {
      client_->Failed(std::string(next.status().message()), true);
      return next.status();
    }
    share = *std::move(next);
  }
}

}  // namespace

void AddSecurity(const v1::RendezvousConfig& rendezvous,
                 cluster::EnvironmentMap* environment) {
  if (rendezvous.insecure())
    (*environment)["OARLOCK_INSECURE"] = absl::StrCat(1);
  const auto add = [&](const char* name, const std::string& file) {
    if (!file.empty()) (*environment)[name] = file;
  };
  add("OARLOCK_TOKEN_FILE", rendezvous.token_file());
  add("OARLOCK_TLS_CERT_FILE", rendezvous.tls_cert_file());
  add("OARLOCK_TLS_KEY_FILE", rendezvous.tls_key_file());
  add("OARLOCK_TLS_CA_FILE", rendezvous.tls_ca_file());
}

absl::StatusOr<int> RunMultiNodeJob(const v1::LaunchConfig& config,
                                    const v1::RendezvousConfig& rendezvous,
                                    const cluster::EnvironmentMap& environment,
                                    const std::vector<std::string>& argv,
                                    const LauncherOptions& options,
                                    const Machine& machine) {
  return MultiNodeJob(config, rendezvous, environment, argv, options, machine)
      .Run();
}

}  // namespace oarlock::launch
