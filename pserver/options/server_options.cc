#include "pserver/options/server_options.h"

#include <algorithm>
#include <bit>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "cluster/endpoint.h"
#include "cluster/loopback.h"
#include "wire/wire_limits.h"

namespace oarlock::pserver {
namespace {

constexpr size_t kMaxJobIdBytes = 256;
constexpr size_t kMaxServers = 65536;
constexpr uint32_t kMaxWorkers = 65536;
constexpr uint32_t kMaxPartitions = 65536;
constexpr int kMaxAutomaticThreads = 16;

absl::Status CheckRange(absl::string_view name, int64_t value, int64_t min,
                        int64_t max) {
  if (value >= min && value <= max) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, " is ", value, "; legal are ", min, " to ", max));
}

absl::Status CheckRange(absl::string_view name, absl::Duration value,
                        absl::Duration min, absl::Duration max) {
  if (value >= min && value <= max) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      name, " is ", absl::FormatDuration(value), "; legal are ",
      absl::FormatDuration(min), " to ", absl::FormatDuration(max)));
}

}  // namespace

absl::Status ServerOptions::Validate() const {
  OARLOCK_RETURN_IF_ERROR(CheckRange(
      "number of servers", static_cast<int64_t>(server_endpoints.size()), 1,
      kMaxServers));
  OARLOCK_RETURN_IF_ERROR(
      CheckRange("server_index", server_index, 0,
                 static_cast<int64_t>(server_endpoints.size()) - 1));
  OARLOCK_RETURN_IF_ERROR(CheckRange("length of job_id",
                                     static_cast<int64_t>(job_id.size()), 1,
                                     kMaxJobIdBytes));
  OARLOCK_RETURN_IF_ERROR(
      CheckRange("num_workers", num_workers, 1, kMaxWorkers));
  OARLOCK_RETURN_IF_ERROR(CheckRange(
      "num_partitions", num_partitions,
      static_cast<int64_t>(server_endpoints.size()), kMaxPartitions));
  if (!std::has_single_bit(num_partitions)) {
    return absl::InvalidArgumentError(
        absl::StrCat("num_partitions is ", num_partitions,
                     "; legal is a power of two, for example ",
                     std::bit_floor(num_partitions)));
  }
  const absl::Duration hour = absl::Hours(1), day = absl::Hours(24);
  OARLOCK_RETURN_IF_ERROR(
      CheckRange("lease", lease, absl::Milliseconds(100), hour));
  OARLOCK_RETURN_IF_ERROR(
      CheckRange("restart_grace", restart_grace, absl::ZeroDuration(), hour));
  OARLOCK_RETURN_IF_ERROR(
      CheckRange("start_timeout", start_timeout, absl::Milliseconds(100), day));
  OARLOCK_RETURN_IF_ERROR(
      CheckRange("drain_grace", drain_grace, absl::ZeroDuration(), hour));
  OARLOCK_RETURN_IF_ERROR(CheckRange("coordinator_timeout", coordinator_timeout,
                                     absl::Seconds(1), day));
  const absl::Duration shortest = absl::Milliseconds(1);
  OARLOCK_RETURN_IF_ERROR(CheckRange("deadline_interval", deadline_interval,
                                     shortest, absl::Seconds(1)));
  OARLOCK_RETURN_IF_ERROR(CheckRange("heartbeat_interval", heartbeat_interval,
                                     shortest, absl::Seconds(10)));
  OARLOCK_RETURN_IF_ERROR(CheckRange("heartbeat_call_timeout",
                                     heartbeat_call_timeout, shortest,
                                     absl::Seconds(10)));
  OARLOCK_RETURN_IF_ERROR(
      CheckRange("tick", tick, absl::Milliseconds(100), day));
  OARLOCK_RETURN_IF_ERROR(CheckRange("num_threads", num_threads, 0, 256));
  OARLOCK_RETURN_IF_ERROR(CheckRange("checkpoint_interval", checkpoint_interval,
                                     absl::ZeroDuration(), absl::Seconds(1e9)));
  OARLOCK_RETURN_IF_ERROR(
      CheckRange("checkpoint_keep", checkpoint_keep, 1, 1000000));
  OARLOCK_RETURN_IF_ERROR(CheckRange("on_checkpoint_timeout",
                                     on_checkpoint_timeout, absl::Seconds(1),
                                     absl::Seconds(1e9)));
  if (!on_checkpoint.empty() && checkpoint_dir.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("on_checkpoint is '", on_checkpoint,
                     "', but no checkpoint is made; give a checkpoint_dir"));
  }
  OARLOCK_RETURN_IF_ERROR(CheckRange("log_sync_interval", log_sync_interval,
                                     absl::ZeroDuration(), hour));
  if (log_bytes_max < (1 << 20)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "log_bytes_max is ", log_bytes_max, "; legal is at least ", 1 << 20));
  }
  if (log_pushes && checkpoint_dir.empty()) {
    return absl::InvalidArgumentError(
        "log_pushes needs a checkpoint_dir, where the log lies");
  }
  constexpr int64_t kMost = int64_t{1} << 60;
  OARLOCK_RETURN_IF_ERROR(CheckRange(
      "max_held_bytes", static_cast<int64_t>(max_held_bytes), 1 << 20, kMost));
  return CheckRange("max_response_bytes",
                    static_cast<int64_t>(max_response_bytes),
                    wire::kMaxMessageBytes, kMost);
}

int ServerOptions::NumThreads() const {
  if (num_threads > 0) return num_threads;
  const bool simulated = cluster::IsLoopback(endpoint());
  int servers_here = 0;
  for (const std::string& other : server_endpoints) {
    servers_here += simulated
                        ? cluster::IsLoopback(other)
                        : cluster::HostOf(other) == cluster::HostOf(endpoint());
  }
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  return std::clamp(cores / (simulated ? 2 * servers_here : servers_here), 1,
                    kMaxAutomaticThreads);
}

}  // namespace oarlock::pserver
