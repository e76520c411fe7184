#include "cli/server/cluster_command.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <google/protobuf/text_format.h>
#include <signal.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "cli/server/server_command.h"
#include "cluster/environment.h"
#include "cluster/job_file.h"
#include "cluster/listener.h"
#include "flags/command_line.h"
#include "launch/job_layout.h"
#include "launch/launch_plan.h"
#include "launch/launcher.h"
#include "launch/parent_process.h"
#include "nlohmann/json.hpp"
#include "proto/config/job_config.pb.h"
#include "proto/config/launch_config.pb.h"
#include "proto/config/server_config.pb.h"

namespace oarlock::cli {
namespace {

constexpr char kLoopback[] = "127.0.0.1";

flags::CommandSyntax Syntax() {
  return {
      .name = "oarlock cluster",
      .description =
          "Starts servers on free ports of this machine, which stay for one "
          "run "
          "of workers after\nanother, and prints where they are, as one line "
          "of "
          "JSON. SIGTERM or SIGINT ends them;\nso does the end of the process "
          "of --parent_pidfd. What is not named lies in a temporary\nfolder, "
          "which goes in the end.",
      .examples =
          "  # two servers; in Python: oarlock.join(ADDRESS), or "
          "oarlock.LocalCluster(servers=2)\n"
          "  oarlock cluster --servers 2\n",
  };
}

std::vector<flags::FlagSource> Sources(v1::ClusterConfig* cluster,
                                       v1::JobConfig* config) {
  std::vector<std::string> names = ServerFlags();
  names.push_back("log_dir");
  return {{cluster}, {config, std::move(names)}};
}

// The flags of `config` that are set, as words of a command line.
std::vector<std::string> ToWords(const v1::JobConfig& config) {
  std::vector<std::string> words;
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  config.GetReflection()->ListFields(config, &fields);
  for (const google::protobuf::FieldDescriptor* field : fields) {
    std::string value;
    google::protobuf::TextFormat::PrintFieldValueToString(config, field, -1,
                                                          &value);
    if (field->cpp_type() ==
        google::protobuf::FieldDescriptor::CPPTYPE_STRING) {
      value = config.GetReflection()->GetString(config, field);
    }
    words.push_back(absl::StrCat("--", field->name(), "=", value));
  }
  return words;
}

// A folder that nobody else has.
absl::StatusOr<std::string> MakeTemporaryFolder() {
  std::error_code error;
  std::string path =
      (std::filesystem::temp_directory_path(error) / "oarlock-cluster-XXXXXX")
          .string();
  if (error || mkdtemp(path.data()) == nullptr) {
    return absl::UnavailableError(absl::StrCat(
        "no temporary folder ", path, " can be made; name one by TMPDIR"));
  }
  return path;
}

launch::LaunchPlan PlanOf(
    const v1::ClusterConfig& cluster, const v1::JobConfig& config,
    const std::vector<std::unique_ptr<cluster::Listener>>& listeners) {
  launch::JobLayout layout;
  layout.nodes = {kLoopback};
  for (const auto& listener : listeners) {
    layout.servers.push_back({.host = kLoopback, .port = listener->port()});
  }
  v1::LaunchConfig launch;
  launch.set_max_restart(cluster.max_restart());
  launch.set_log_dir(config.log_dir());
  if (!config.job_id().empty()) launch.set_job_id(config.job_id());
  launch::LaunchPlan plan =
      launch::PlanProcesses(layout, launch, cluster::ReadEnvironment(),
                            /*num_cores=*/1);
  for (size_t i = 0; i < plan.processes.size(); ++i) {
    launch::ProcessPlan& process = plan.processes[i];
    launch::InheritListener(&process, listeners[i]->descriptor());
    // Of a run whose first worker does not say.
    process.environment["PADDLE_TRAINERS_NUM"] = "1";
    process.environment["PADDLE_TRAINERS"] = "1";
    process.environment.erase("PADDLE_TRAINER_ENDPOINTS");
  }
  return plan;
}

void PrintAddress(const launch::LaunchPlan& plan, const v1::JobConfig& config) {
  nlohmann::json line;
  line["server_endpoints"] = plan.server_endpoints;
  line["job_id"] = plan.job_id;
  line["log_dir"] = plan.log_dir;
  line["checkpoint_dir"] = config.checkpoint_dir();
  const absl::StatusOr<cluster::JobFile> job =
      cluster::ReadJobFile(plan.log_dir);
  line["token_file"] = job.ok() ? job->token_file : std::string();
  std::printf("%s\n", line.dump().c_str());
  std::fflush(stdout);
}

absl::StatusOr<int> Serve(const v1::ClusterConfig& cluster,
                          v1::JobConfig config, const Clocks& clocks) {
  OARLOCK_ASSIGN_OR_RETURN(const std::string temporary, MakeTemporaryFolder());
  const absl::Cleanup remove = [&temporary] {
    std::error_code error;
    std::filesystem::remove_all(temporary, error);
    if (error) {
      Log().warn("{} cannot be removed: {}", temporary, error.message());
    }
  };
  if (!config.has_log_dir()) config.set_log_dir(temporary + "/logs");
  if (!config.has_tier_dir()) config.set_tier_dir(temporary + "/tier");
  if (!config.has_checkpoint_dir()) {
    config.set_checkpoint_dir(temporary + "/checkpoints");
  }
  // A server that dies comes back with all that it had.
  if (!config.has_durability()) config.set_durability("log");
  std::vector<std::unique_ptr<cluster::Listener>> listeners;
  for (int i = 0; i < cluster.servers(); ++i) {
    OARLOCK_ASSIGN_OR_RETURN(
        listeners.emplace_back(),
        cluster::Listener::Listen(absl::StrCat(kLoopback, ":0")));
  }
  const launch::LaunchPlan plan = PlanOf(cluster, config, listeners);
  launch::LauncherOptions options;
  options.clocks = clocks;
  // Without a log all go back to their checkpoint together.
  if (config.durability() != "log") {
    options.restart_together = launch::LauncherOptions::Together::kServers;
  }
  options.token_file = config.token_file();
  options.tick = [&plan, &config, told = false]() mutable {
    if (!std::exchange(told, true)) PrintAddress(plan, config);
  };
  options.stop_request = launch::StopWithParent(
      cluster.parent_pidfd(), "the process that the servers are for");
  std::vector<std::string> argv = {"/proc/self/exe", "server", "--stay"};
  std::error_code error;
  const std::filesystem::path self =
      std::filesystem::read_symlink("/proc/self/exe", error);
  if (!error) argv[0] = self.string();
  config.clear_log_dir();
  for (std::string& word : ToWords(config)) argv.push_back(std::move(word));
  config.set_log_dir(plan.log_dir);
  return launch::Launcher(options).Run(plan, argv);
}

}  // namespace

flags::CommandText DescribeCluster() {
  v1::ClusterConfig cluster;
  v1::JobConfig config;
  return flags::DescribeCommand(Syntax(), Sources(&cluster, &config));
}

int RunCluster(int argc, char** argv, const Clocks& clocks) {
  const flags::CommandSyntax syntax = Syntax();
  v1::ClusterConfig cluster;
  v1::JobConfig config;
  const auto parsed = flags::ParseCommandLine(
      syntax, flags::Words(argc, argv, 2), Sources(&cluster, &config));
  if (const std::optional<int> code = flags::FinishEarly(syntax, parsed)) {
    return *code;
  }
  // Who reads its lines may end first, and then all has to be put away.
  signal(SIGPIPE, SIG_IGN);
  InitPatientLogging("cluster");
  const absl::StatusOr<int> exit_code = Serve(cluster, config, clocks);
  if (exit_code.ok()) return *exit_code;
  if (absl::IsInvalidArgument(exit_code.status())) {
    return flags::ReportUsageError(syntax, exit_code.status());
  }
  std::fprintf(stderr, "oarlock cluster: %s\n",
               std::string(exit_code.status().message()).c_str());
  return 1;
}

}  // namespace oarlock::cli
