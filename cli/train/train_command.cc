#include "cli/train/train_command.h"

#include <google/protobuf/text_format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "cli/train/job_events.h"
#include "cli/train/local_job.h"
#include "cluster/environment.h"
#include "flags/command_line.h"
#include "fleet/fleet.h"
#include "nn/backends/device_choice.h"
#include "proto/config/job_config.pb.h"
#include "proto/config/launch_config.pb.h"
#include "proto/config/train_config.pb.h"
#include "worker/report/summary.h"

namespace oarlock::cli {
namespace {

flags::CommandSyntax Syntax() {
  return {
      .name = "oarlock train",
      .description =
          "Trains a CTR model: alone, as one role of a job, or with a whole "
          "cluster on this machine.",
      .examples =
          "  # 2 servers and 2 workers on this machine\n"
          "  oarlock train --server_num 2 --worker_num 2 "
          "--train_files 'data/part-*' --test_files data/test\n"
          "  # one process, no servers\n"
          "  oarlock train --train_files 'data/part-*' --thread_num 2\n"
          "  # one role of a job; the other roles are started likewise\n"
          "  oarlock train --role TRAINER --trainer_id 0 --trainers 2 "
          "--pserver_endpoints 10.0.0.1:6174,10.0.0.2:6174 "
          "--train_files 'data/part-*'\n",
      .takes_config = true,
  };
}

// This very program, whatever it was called by.
std::string OwnPath() {
  std::error_code error;
  const std::filesystem::path path =
      std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? "/proc/self/exe" : path.string();
}

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "oarlock train: %s\n",
               std::string(status.message()).c_str());
  return status.code() == absl::StatusCode::kInvalidArgument
             ? flags::kUsageExitCode
             : 1;
}

// Everything that the command line and its files have set, so that
// `oarlock train -c FILE` does it again. Named flags have the same names.
std::string RepeatingConfig(const v1::JobConfig& config,
                            const v1::TrainConfig& train) {
  google::protobuf::TextFormat::Printer printer;
  std::string of_job, of_train;
  printer.PrintToString(config, &of_job);
  printer.PrintToString(train, &of_train);
  return absl::StrCat(
      "# oarlock train -c THIS_FILE repeats the run, in the "
      "folder where it was started.\n",
      of_train, of_job);
}

// Checkpoints are made, and gone on from, by servers.
bool NeedsServer(const v1::JobConfig& config) {
  return config.resume() || !config.load().empty() ||
         config.durability() == "log" || !config.checkpoint_dir().empty();
}

// This process ends when the one that a pidfd stands for does. What it has
// started ends with it.
void EndWithParent(int pidfd) {
  std::thread([pidfd] {
    pollfd wait = {.fd = pidfd, .events = POLLIN, .revents = 0};
    while (poll(&wait, 1, -1) <= 0) {
    }
    _exit(1);
  }).detach();
}

int RunOneRole(const v1::JobConfig& config, const v1::TrainConfig& train,
               const cluster::RoleAssignment& role, const Clocks& clocks) {
  absl::StatusOr<std::unique_ptr<Fleet>> fleet =
      Fleet::Init(config, role, clocks);
  if (!fleet.ok()) return Fail(fleet.status());
  // Asks the fleet's client.
  std::optional<JobEvents> events;
  if ((*fleet)->IsFirstWorker()) {
    (*fleet)->SetConfigText(RepeatingConfig(config, train));
  }
  const auto on_start = [&](client::JobClient* job) {
    if (role.role != cluster::Role::kLocal) return;
    if (train.parent_pidfd() >= 0) {
      EndWithParent(train.parent_pidfd());
    }
    if (train.events()) {
      events.emplace(JobEvents::Job{[job] { return job->GetJobStatus(); },
                                    [job](const std::string& reason) {
                                      return job->StopTraining(reason);
                                    },
                                    [](const std::string&) {
                                      return absl::FailedPreconditionError(
                                          "a local run makes no checkpoints");
                                    }},
                     config.epochs(), clocks);
    }
  };
  worker::TrainingSummary summary;
  const absl::Status status = RunRole(**fleet, &summary, on_start);
  events.reset();
  if (!status.ok()) return std::min(Fail(status), 1);
  if ((*fleet)->IsFirstWorker()) {
    std::printf("%ssummary   %s/summary.json\n",
                worker::SummaryTable(summary).c_str(),
                config.log_dir().c_str());
  }
  return 0;
}

}  // namespace

flags::CommandText DescribeTrain() {
  v1::JobConfig config;
  v1::TrainConfig train;
  v1::RoleConfig role_config;
  return flags::DescribeCommand(Syntax(),
                                {{{&config}, {&train}, {&role_config}}});
}

int RunTrain(int argc, char** argv, const Clocks& clocks) {
  const flags::CommandSyntax syntax = Syntax();
  v1::JobConfig config;
  v1::TrainConfig train;
  v1::RoleConfig role_config;
  const absl::StatusOr<flags::ParsedCommandLine> parsed =
      flags::ParseCommandLine(syntax, flags::Words(argc, argv, 2),
                              {{{&config}, {&train}, {&role_config}}});
  if (std::optional<int> exit_code = flags::FinishEarly(syntax, parsed)) {
    return *exit_code;
  }
  bool starts_cluster = train.server_num() > 0 || train.worker_num() > 0;
  cluster::ExplicitRole arguments = cluster::ToExplicitRole(role_config);
  // Of servers that are there already, and workers that are not.
  std::vector<std::string> endpoints;
  if (train.worker_num() > 0 && train.server_num() == 0 && !arguments.role) {
    endpoints = absl::StrSplit(arguments.pserver_endpoints.value_or(""), ',',
                               absl::SkipEmpty());
    if (!endpoints.empty()) arguments.pserver_endpoints.reset();
  }
  // Its processes get roles.
  arguments.alone = arguments.alone || starts_cluster;
  const absl::StatusOr<cluster::RoleAssignment> role =
      RoleFromEnvironment(arguments);
  if (!role.ok()) return flags::ReportUsageError(syntax, role.status());
  if (role->role == cluster::Role::kLocal && !starts_cluster &&
      NeedsServer(config)) {
    train.set_server_num(1);
    train.set_worker_num(1);
    starts_cluster = true;
  }
  // Before processes are started for it.
  const absl::Status consistent = Fleet::CheckConfig(
      config, static_cast<uint32_t>(train.server_num() + endpoints.size()));
  if (!consistent.ok()) return Fail(consistent);
  if (role->role != cluster::Role::kLocal || !starts_cluster) {
    return RunOneRole(config, train, *role, clocks);
  }
  if ((train.server_num() == 0 && endpoints.empty()) ||
      train.worker_num() == 0) {
    return flags::ReportUsageError(
        syntax, absl::InvalidArgumentError(
                    "a local cluster has at least one server and one worker; "
                    "give both --server_num and --worker_num, or "
                    "--pserver_endpoints and --worker_num, or none for a local "
                    "run"));
  }
  // Its workers are on this machine.
  const absl::Status device =
      nn::ChooseDevice(config.device(), config.dense_math(), /*worker=*/0,
                       cluster::SelectedGpus(cluster::ReadEnvironment()))
          .status();
  if (!device.ok()) return Fail(device);
  std::vector<std::string> children = flags::Words(argc, argv, 1);
  children.insert(children.begin(), OwnPath());
  const absl::StatusOr<int> exit_code =
      RunLocalJob(train, config, endpoints, children, clocks);
  if (!exit_code.ok()) return Fail(exit_code.status());
  return *exit_code;
}

}  // namespace oarlock::cli
