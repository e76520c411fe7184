// Status answers of servers as tables for people.

#ifndef OARLOCK_CLI_STATUS_TEXT_H_
#define OARLOCK_CLI_STATUS_TEXT_H_

#include <string>
#include <vector>

#include "proto/admin.pb.h"

namespace oarlock {

// Rows of cells in columns of equal width, two spaces apart; lines end with
// "\n". Cells that look like numbers are right-aligned. The first row is the
// head. Missing cells are empty.
std::string FormatColumns(const std::vector<std::vector<std::string>>& rows);

// The job, its workers and how far it is.
std::string FormatJobStatus(const v1::JobStatusResponse& status);
// One server in a line.
std::string FormatServerStatus(const v1::ServerStatusResponse& status);
// What an eviction did, in a line.
std::string FormatEviction(const v1::EvictResponse& response);
// Its tables: rows, bytes, traffic, what admission and eviction did.
std::string FormatTables(const v1::ServerStatusResponse& status);

}  // namespace oarlock

#endif  // OARLOCK_CLI_STATUS_TEXT_H_
