// What there is to know of this machine before a job runs on it.

#ifndef OARLOCK_CLI_DOCTOR_MACHINE_FACTS_H_
#define OARLOCK_CLI_DOCTOR_MACHINE_FACTS_H_

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "base/clock.h"

namespace oarlock::cli {

inline constexpr uint64_t kUnlimited = std::numeric_limits<uint64_t>::max();

// As it was found; judged elsewhere (doctor_findings.h).
struct MachineFacts {
  // Soft and hard limit of this process.
  uint64_t open_files = kUnlimited;
  uint64_t open_files_max = kUnlimited;
  // Threads: the least of the limits of user, kernel and control group.
  uint64_t threads_max = kUnlimited;
  uint64_t core_bytes = 0;
  // 0: not known. Of a control group where that is less.
  uint64_t memory_bytes = 0;
  uint64_t free_memory_bytes = 0;
  // "always", "madvise", "never"; empty: the kernel has none.
  std::string transparent_huge_pages;
  // Size of /dev/shm; 0: there is none.
  uint64_t shared_memory_bytes = 0;
  absl::Time now = absl::InfinitePast();
  bool clock_is_synchronised = false;
  // Why a listener on 127.0.0.1 is not possible; empty: it is.
  std::string listen_error;
  // Those of the launchers' usual ports that somebody listens on.
  std::vector<int> busy_ports;
  // Ports that the kernel gives to outgoing connections; 0: not known.
  int first_own_port = 0;
  int last_own_port = 0;
  // Of those that Oarlock has code for, as /proc/cpuinfo names them.
  std::vector<std::string> cpu_features;
  // Versions, and which GPUs or why none.
  std::string onednn;
  std::string rocksdb;
  std::string gpus;
  // Of the folder that the command runs in.
  std::string folder;
  uint64_t free_disk_bytes = 0;
};

// The ports that `oarlock launch` takes on many nodes, and PaddlePaddle's.
inline constexpr int kUsualPorts[] = {6170, 6171, 6172, 6173, 6174};

// `root` stands before /proc and /sys: empty, or a test's folder. `wall_clock`
// is the clock that is looked at.
MachineFacts ReadMachineFacts(const std::string& root, const Clock& wall_clock);

}  // namespace oarlock::cli

#endif  // OARLOCK_CLI_DOCTOR_MACHINE_FACTS_H_
