// What a job's servers tell, as tables for people.

#ifndef OARLOCK_CLI_CTL_STATUS_TEXT_H_
#define OARLOCK_CLI_CTL_STATUS_TEXT_H_

#include <string>
#include <vector>

#include "cli/ctl/job_view.h"
#include "proto/v1/coordinator_job.pb.h"
#include "proto/v1/server_admin_tables.pb.h"

namespace oarlock::cli {

// Rows of cells in columns of equal width, two spaces apart; lines end with
// "\n". Cells that look like numbers are right-aligned. The first row is the
// head. Missing cells are empty.
std::string FormatColumns(const std::vector<std::vector<std::string>>& rows);

// The job, its workers and how far it is.
std::string FormatJobStatus(const v1::JobStatusResponse& status);
// One server a line: what it holds and does.
std::string FormatServers(const std::vector<v1::ServerStatusResponse>& servers);
// The servers that were asked in vain, a line each; empty if none were.
std::string FormatSilent(const std::vector<SilentServer>& silent);
// Each table by server: rows, bytes, traffic.
std::string FormatTables(const std::vector<TableView>& tables);
// How unevenly the load of sparse tables lies; empty without one.
std::string FormatSkew(const std::vector<TableView>& tables);
// What an eviction did on all servers, in a line.
std::string FormatEviction(const std::vector<v1::EvictResponse>& servers);
std::string FormatHotKeys(const std::vector<HotKeysView>& tables);

}  // namespace oarlock::cli

#endif  // OARLOCK_CLI_CTL_STATUS_TEXT_H_
