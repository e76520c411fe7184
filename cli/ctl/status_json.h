// What a job's servers tell, as JSON for programs. Field names are those of
// proto/v1/coordinator_service.proto; counts and sizes are numbers, 64-bit keys
// text, since many readers of JSON keep numbers in 53 bits. What is not known
// is null.

#ifndef OARLOCK_CLI_CTL_STATUS_JSON_H_
#define OARLOCK_CLI_CTL_STATUS_JSON_H_

#include <nlohmann/json.hpp>
#include <vector>

#include "cli/ctl/job_view.h"
#include "proto/v1/coordinator_job.pb.h"
#include "proto/v1/server_admin_tables.pb.h"

namespace oarlock::cli {

// The job, its workers and how far it is.
nlohmann::ordered_json JobStatusJson(const v1::JobStatusResponse& status);
nlohmann::ordered_json ServersJson(
    const std::vector<v1::ServerStatusResponse>& servers);
// Servers that were asked in vain.
nlohmann::ordered_json SilentJson(const std::vector<SilentServer>& silent);
// Tables by server, in all, and their skew.
nlohmann::ordered_json TablesJson(const std::vector<TableView>& tables);
// What an eviction did, by server.
nlohmann::ordered_json EvictionJson(
    const std::vector<v1::EvictResponse>& servers);
nlohmann::ordered_json HotKeysJson(const std::vector<HotKeysView>& tables);

}  // namespace oarlock::cli

#endif  // OARLOCK_CLI_CTL_STATUS_JSON_H_
