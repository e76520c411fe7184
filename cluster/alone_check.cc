#include "cluster/alone_check.h"

#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace oarlock::cluster {
namespace {

// Each has the number of processes.
constexpr const char* kCounts[] = {
    "PADDLE_NNODES", "WORLD_SIZE",      "SLURM_NTASKS",        "SLURM_NPROCS",
    "PMI_SIZE",      "DMLC_NUM_WORKER", "OMPI_COMM_WORLD_SIZE"};

// Tasks of {"cluster": {"worker": ["host:port", ...], "ps": [...]}, ...}; 0 for
// anything else.
int64_t TasksOf(const std::string& tf_config) {
  const nlohmann::json json =
      nlohmann::json::parse(tf_config, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("cluster") ||
      !json["cluster"].is_object()) {
    return 0;
  }
  int64_t tasks = 0;
  for (const auto& [job, endpoints] : json["cluster"].items()) {
    if (endpoints.is_array() || endpoints.is_object()) {
      tasks += static_cast<int64_t>(endpoints.size());
    }
  }
  return tasks;
}

absl::Status NotAlone(const std::string& name, const std::string& value,
                      int64_t processes) {
  constexpr size_t kShownBytes = 200;
  return absl::InvalidArgumentError(absl::StrCat(
      name, "=", value.substr(0, kShownBytes), " says that this is one of ",
      processes,
      " processes, and no role is set: each would train alone; start them with "
      "oarlock launch, set TRAINING_ROLE and the servers, or give --alone "
      "(OARLOCK_ALONE=1)"));
}

}  // namespace

absl::Status CheckAlone(const EnvironmentMap& environment) {
  const auto value = [&](const char* name) -> std::string {
    const auto found = environment.find(name);
    return found == environment.end() ? "" : found->second;
  };
  if (value("OARLOCK_ALONE") == "1") return absl::OkStatus();
  for (const char* const name : kCounts) {
    int64_t processes = 0;
    const std::string text = value(name);
    if (absl::SimpleAtoi(text, &processes) && processes > 1) {
      return NotAlone(name, text, processes);
    }
  }
  const std::string tf_config = value("TF_CONFIG");
  const int64_t tasks = TasksOf(tf_config);
  if (tasks > 1) return NotAlone("TF_CONFIG", tf_config, tasks);
  // A server or scheduler beside a single worker.
  const std::string role = value("DMLC_ROLE");
  if (!role.empty() && role != "worker") return NotAlone("DMLC_ROLE", role, 2);
  return absl::OkStatus();
}

}  // namespace oarlock::cluster
