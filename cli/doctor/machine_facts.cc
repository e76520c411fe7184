#include "cli/doctor/machine_facts.h"

#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/timex.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/process/listen_check.h"
#include "nn/cuda/gpu.h"
#include "nn/onednn/bfloat16_products.h"
#include "storage/rocksdb_status.h"

namespace oarlock::cli {
namespace {

std::string ReadFile(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// kUnlimited where the file is not there or holds no number ("max").
uint64_t ReadLimit(const std::string& path) {
  uint64_t value;
  return absl::SimpleAtoi(ReadFile(path), &value) ? value : kUnlimited;
}

uint64_t LimitOf(rlim_t limit) {
  return limit == RLIM_INFINITY ? kUnlimited : limit;
}

void ReadLimits(const std::string& root, MachineFacts* facts) {
  rlimit limit = {};
  getrlimit(RLIMIT_NOFILE, &limit);
  facts->open_files = LimitOf(limit.rlim_cur);
  facts->open_files_max = LimitOf(limit.rlim_max);
  getrlimit(RLIMIT_CORE, &limit);
  facts->core_bytes = LimitOf(limit.rlim_cur);
  getrlimit(RLIMIT_NPROC, &limit);
  facts->threads_max =
      std::min({LimitOf(limit.rlim_cur),
                ReadLimit(root + "/proc/sys/kernel/threads-max"),
                ReadLimit(root + "/sys/fs/cgroup/pids.max")});
}

// "MemTotal:  8042512 kB", in bytes; 0: no such line.
uint64_t MemoryLine(const std::string& meminfo, absl::string_view name) {
  for (absl::string_view line : absl::StrSplit(meminfo, '\n')) {
    const std::vector<absl::string_view> words =
        absl::StrSplit(line, ' ', absl::SkipEmpty());
    uint64_t kib;
    if (words.size() >= 2 && words[0] == name &&
        absl::SimpleAtoi(words[1], &kib)) {
      return kib << 10;
    }
  }
  return 0;
}

void ReadMemory(const std::string& root, MachineFacts* facts) {
  const std::string meminfo = ReadFile(root + "/proc/meminfo");
  facts->memory_bytes = MemoryLine(meminfo, "MemTotal:");
  facts->free_memory_bytes = MemoryLine(meminfo, "MemAvailable:");
  const uint64_t group_max = ReadLimit(root + "/sys/fs/cgroup/memory.max");
  if (group_max < facts->memory_bytes) {
    const uint64_t used = ReadLimit(root + "/sys/fs/cgroup/memory.current");
    facts->memory_bytes = group_max;
    facts->free_memory_bytes = std::min(facts->free_memory_bytes,
                                        group_max - std::min(used, group_max));
  }
  // "always [madvise] never".
  const std::string choice =
      ReadFile(root + "/sys/kernel/mm/transparent_hugepage/enabled");
  const size_t open = choice.find('[');
  const size_t close = choice.find(']');
  if (open != std::string::npos && close != std::string::npos && open < close) {
    facts->transparent_huge_pages = choice.substr(open + 1, close - open - 1);
  }
  struct statvfs shm = {};
  if (statvfs("/dev/shm", &shm) == 0) {
    facts->shared_memory_bytes = uint64_t{shm.f_blocks} * shm.f_frsize;
  }
}

void ReadClock(const Clock& wall_clock, MachineFacts* facts) {
  facts->now = wall_clock.Now();
  timex state = {};
  facts->clock_is_synchronised = adjtimex(&state) != TIME_ERROR;
}

void ReadPorts(const std::string& root, MachineFacts* facts) {
  const absl::Status any = CheckCanListen("127.0.0.1:0");
  if (!any.ok()) facts->listen_error = std::string(any.message());
  for (const int port : kUsualPorts) {
    if (absl::IsAlreadyExists(
            CheckCanListen(absl::StrCat("127.0.0.1:", port)))) {
      facts->busy_ports.push_back(port);
    }
  }
  std::istringstream range(
      ReadFile(root + "/proc/sys/net/ipv4/ip_local_port_range"));
  range >> facts->first_own_port >> facts->last_own_port;
}

void ReadCpu(const std::string& root, MachineFacts* facts) {
  for (absl::string_view line :
       absl::StrSplit(ReadFile(root + "/proc/cpuinfo"), '\n')) {
    if (!absl::ConsumePrefix(&line, "flags")) continue;
    const std::vector<absl::string_view> flags =
        absl::StrSplit(line, absl::ByAnyChar(" \t:"), absl::SkipEmpty());
    for (const char* feature : {"avx2", "avx512f", "avx512_bf16", "amx_bf16"}) {
      if (std::find(flags.begin(), flags.end(), feature) != flags.end()) {
        facts->cpu_features.push_back(feature);
      }
    }
    return;  // The first processor's.
  }
}

void ReadLibraries(MachineFacts* facts) {
  facts->onednn = nn::OnednnVersion();
  facts->rocksdb = storage::RocksDbVersion();
  const nn::cuda::Gpus gpus = nn::cuda::FindGpus();
  facts->gpus = gpus.count > 0 ? absl::StrCat(gpus.count, " GPUs")
                               : absl::StrCat("no GPU: ", gpus.why_none);
}

void ReadDisk(MachineFacts* facts) {
  std::error_code error;
  facts->folder = std::filesystem::current_path(error).string();
  struct statvfs disk = {};
  if (statvfs(".", &disk) == 0) {
    facts->free_disk_bytes = uint64_t{disk.f_bavail} * disk.f_frsize;
  }
}

}  // namespace

MachineFacts ReadMachineFacts(const std::string& root,
                              const Clock& wall_clock) {
  MachineFacts facts;
  ReadLimits(root, &facts);
  ReadMemory(root, &facts);
  ReadClock(wall_clock, &facts);
  ReadPorts(root, &facts);
  ReadCpu(root, &facts);
  ReadLibraries(&facts);
  ReadDisk(&facts);
  return facts;
}

}  // namespace oarlock::cli
