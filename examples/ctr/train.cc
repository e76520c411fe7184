// Click-through rate prediction with Fleet: PaddlePaddle's quick start
// (train.py) in C++. The same program is every role of the job:
//
//   train --is_local 1                                   one process
//   oarlock launch --worker_num 2 --server_num 2 train   a local cluster
//
// Data: Criteo's click logs, one example a line, in raw_data/part-*.

#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/status_macros.h"
#include "examples/ctr/args.h"
#include "flags/command_line.h"
#include "fleet/fleet.h"

namespace {

using oarlock::Fleet;
using oarlock::cluster::RoleAssignment;
using oarlock::worker::TrainingSummary;

absl::Status TrainLoop(Fleet& fleet, const oarlock::v1::JobConfig& config) {
  for (int epoch = 0; epoch < config.epochs(); ++epoch) {
    OARLOCK_RETURN_IF_ERROR(fleet.TrainFromDataset());
    OARLOCK_RETURN_IF_ERROR(fleet.InferFromDataset());
  }
  return absl::OkStatus();
}

absl::StatusOr<RoleAssignment> RoleOf(const ctr::Args& args) {
  if (!args.is_local) return oarlock::RoleFromEnvironment(args.role);
  RoleAssignment role;
  role.reason = "--is_local 1: local run";
  return role;
}

absl::Status Run(Fleet& fleet, const oarlock::v1::JobConfig& config) {
  if (fleet.IsServer()) {
    OARLOCK_RETURN_IF_ERROR(fleet.InitServer());
    return fleet.RunServer();
  }
  OARLOCK_RETURN_IF_ERROR(fleet.InitWorker());
  OARLOCK_RETURN_IF_ERROR(TrainLoop(fleet, config));
  OARLOCK_ASSIGN_OR_RETURN(const TrainingSummary summary, fleet.StopWorker());
  if (fleet.IsFirstWorker()) {
    std::printf("%s", oarlock::worker::SummaryTable(summary).c_str());
  }
  return absl::OkStatus();
}

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "train: %s\n", std::string(status.message()).c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  const absl::StatusOr<ctr::Args> args = ctr::ParseArgs(argc, argv);
  if (!args.ok()) return ctr::ReportUsage(args.status());
  if (args->help.has_value()) {
    std::printf("%s", args->help->c_str());
    return 0;
  }
  const absl::StatusOr<RoleAssignment> role = RoleOf(*args);
  if (!role.ok()) return ctr::ReportUsage(role.status());
  const absl::StatusOr<std::unique_ptr<Fleet>> fleet =
      Fleet::Init(args->config, *role);
  if (!fleet.ok()) {
    // Flags that contradict each other are the command line's.
    return absl::IsInvalidArgument(fleet.status())
               ? ctr::ReportUsage(fleet.status())
               : Fail(fleet.status());
  }
  const absl::Status status = Run(**fleet, args->config);
  return status.ok() ? 0 : Fail(status);
}
