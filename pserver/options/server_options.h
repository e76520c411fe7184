// The options with which a server starts. Flags only fill this.

#ifndef OARLOCK_PSERVER_OPTIONS_SERVER_OPTIONS_H_
#define OARLOCK_PSERVER_OPTIONS_SERVER_OPTIONS_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/types.h"
#include "cluster/security_options.h"
#include "proto/v1/table.pb.h"

namespace oarlock::pserver {

// With what a server that has gone back to a cut begins.
struct RollBackOptions {
  // Folder of the cut's checkpoint; empty: as the job began.
  std::string directory;
  // Under which the server goes on.
  Generation generation{0};
  // Those that the checkpoint lacks are created again.
  std::vector<v1::TableConfig> tables;
  // On server 0: what workers of the runs before are told, the number of the
  // next run, and the generations of all servers before, as far as it knows.
  std::string reason;
  uint64_t next_run = 1;
  std::vector<uint64_t> generations;
};

struct ServerOptions {
  // "host:port" of every server of the job, in the order of their indices.
  // At least one. The first is the coordinator.
  std::vector<std::string> server_endpoints;
  // This server's place in that list.
  uint32_t server_index = 0;
  // Where to listen, when that is not this server's endpoint. Port 0: any free
  // one, for a job of one server.
  std::string listen_address;
  // A descriptor of this process that listens already, on this server's
  // endpoint: taken in place of listening. -1: none.
  int listen_descriptor = -1;
  // Clients of another job are refused. 1 to 256 bytes.
  std::string job_id = "default";
  // 1 to 65536.
  uint32_t num_workers = 1;
  // The job outlives its workers, who come in runs of up to kMaxWorkersOfRun,
  // and ends when it is drained. `num_workers` is the size of a run whose first
  // worker does not say one.
  bool stay = false;
  static constexpr uint32_t kMaxWorkersOfRun = 4096;
  // A power of two, num_servers to 65536.
  uint32_t num_partitions = 256;
  // Time without a heartbeat after which a worker is taken for dead. 0.1 s to 1
  // h.
  absl::Duration lease = absl::Seconds(6);
  // How long the coordinator waits for the successor of a lost worker, 0 to 1
  // h.
  absl::Duration restart_grace = absl::Seconds(3);
  // How long after the first worker the last one may register, and how long
  // this server waits for its coordinator to come up. 0.1 s to 1 day.
  absl::Duration start_timeout = absl::Minutes(5);
  // How long workers may take to leave a job that is being ended, 0 to 1 h.
  absl::Duration drain_grace = absl::Seconds(3);
  // When a coordinator that was there is silent for this long, this server
  // gives it up and ends too. 1 s to 1 day.
  absl::Duration coordinator_timeout = absl::Seconds(60);
  // Between two checks of leases and waits by the coordinator, on the monotonic
  // clock. 1 ms to 1 s.
  absl::Duration deadline_interval = absl::Milliseconds(100);
  // Between two heartbeats of this server to the coordinator, on the monotonic
  // clock, and how long one of them may take. 1 ms to 10 s.
  absl::Duration heartbeat_interval = absl::Milliseconds(300);
  absl::Duration heartbeat_call_timeout = absl::Seconds(1);
  // One unit of the job's logical time, by which rows age; the coordinator's
  // value counts. 0.1 s to 1 day.
  absl::Duration tick = absl::Seconds(1);
  // See CoordinatorOptions.
  bool tick_per_epoch = false;
  // Where tables with a memory budget keep their rows on disk, each in a folder
  // server-N/table-M. The folder is empty at first and is removed with the
  // server. Empty: such tables are refused.
  std::string tier_dir;
  // Threads that answer calls, 0 to 256. 0: this server's share of the host's
  // cores, 1 to 16. On loopback it is its share of half of the cores, since the
  // workers run there too.
  int num_threads = 0;
  // Of pushes that wait for their round or cut: those that are ahead, and those
  // of the lowest round, each (pserver/aggregator/hold_budget.h). 1 MiB to
  // 2^60.
  uint64_t max_held_bytes = uint64_t{1} << 30;
  // Of responses to pulls that are on the way. 64 MiB to 2^60.
  uint64_t max_response_bytes = uint64_t{1} << 30;
  // Where the job's checkpoints are stored, seen by all servers; empty: none
  // are made.
  std::string checkpoint_dir;
  // Between two checkpoints; 0: by command alone. 0 to 1e9 s.
  absl::Duration checkpoint_interval = absl::Minutes(5);
  // Checkpoints that stay. 1 to 1,000,000.
  uint32_t checkpoint_keep = 2;
  // What server 0 runs when one has become current (CheckpointHook); empty:
  // nothing. 1 s to 1e9 s.
  std::string on_checkpoint;
  absl::Duration on_checkpoint_timeout = absl::Hours(1);
  // Continue from the newest checkpoint in checkpoint_dir, if there is one.
  // Without `resume` a folder that has one is refused.
  bool resume = false;
  // With `resume`: continue from the logs of the run before, where these
  // suffice (coordinator/log/log_compatibility.h).
  bool resume_from_logs = false;
  // Write down every push before it is applied, in checkpoint_dir.
  bool log_pushes = false;
  // This process replaces one that died: it continues from its log too.
  bool replay_log = false;
  // Of this start of the system. Empty: as it says itself (BootId).
  std::string boot_id;
  // Of the log. 1 MiB to 9e18; 0 to 1 h.
  uint64_t log_bytes_max = uint64_t{1} << 30;
  absl::Duration log_sync_interval = absl::Milliseconds(100);
  // Begin with the parameters of this checkpoint; empty: with new ones.
  std::string load;
  // Set by the server itself, for a life that is not its first one, beside
  // `resume`.
  std::optional<RollBackOptions> roll_back;
  // The same: CheckpointLoopOptions has it.
  std::function<void(const std::string& folder)> on_current;
  cluster::SecurityOptions security;
  // The coordinator takes leases and its other times from the wall clock, since
  // they outlive its process. Must outlive the server.
  Clocks clocks;

  // InvalidArgument names the field, its value and what is legal.
  absl::Status Validate() const;

  // Worker indices are below it.
  uint32_t max_workers() const {
    return stay && num_workers < kMaxWorkersOfRun ? kMaxWorkersOfRun
                                                  : num_workers;
  }
  // Its own endpoint as others call it.
  const std::string& endpoint() const { return server_endpoints[server_index]; }
  const std::string& listen_endpoint() const {
    return listen_address.empty() ? endpoint() : listen_address;
  }
  // num_threads, chosen where that is 0.
  int NumThreads() const;
};

}  // namespace oarlock::pserver

#endif  // OARLOCK_PSERVER_OPTIONS_SERVER_OPTIONS_H_
