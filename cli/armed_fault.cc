#include "cli/armed_fault.h"

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/fault_point.h"
#include "cluster/environment.h"
#include "launch/launcher.h"
#include "pserver/checkpoint/fault_points.h"
#include "sparse_table/fault_points.h"
#include "storage/fault_points.h"

namespace oarlock::cli {

absl::Status ArmFaultOfEnvironment(const Clock& clock) {
  const cluster::EnvironmentMap environment = cluster::ReadEnvironment();
  const auto text = environment.find("OARLOCK_FAULT");
  if (text == environment.end() || text->second.empty()) {
    return absl::OkStatus();
  }
  const absl::Span<const FaultPointInfo> tables[] = {
      storage::kStorageFaultPoints, sparse_table::kSparseTableFaultPoints,
      pserver::kPserverFaultPoints};
  absl::StatusOr<Fault> fault = ParseFault(text->second, tables, clock);
  if (!fault.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("OARLOCK_FAULT: ", fault.status().message()));
  }
  const auto restart = environment.find(launch::kRestartVariable);
  const std::string number =
      restart == environment.end() ? "0" : restart->second;
  if (number == absl::StrCat(fault->restart)) ArmFault(*std::move(fault));
  return absl::OkStatus();
}

}  // namespace oarlock::cli
