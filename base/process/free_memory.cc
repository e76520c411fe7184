#include "base/process/free_memory.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>

namespace oarlock {
namespace {

// 0: unknown.
uint64_t AvailableBytes() {
  std::ifstream meminfo("/proc/meminfo");
  std::string name;
  uint64_t kib = 0;
  std::string unit;
  while (meminfo >> name >> kib) {
    if (name == "MemAvailable:") return kib << 10;
    std::getline(meminfo, unit);
  }
  return 0;
}

uint64_t AddressSpaceBytes() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
    return std::numeric_limits<uint64_t>::max();
  }
  std::ifstream statm("/proc/self/statm");
  uint64_t pages = 0;
  statm >> pages;
  const uint64_t used = pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  return limit.rlim_cur > used ? limit.rlim_cur - used : 0;
}

}  // namespace

uint64_t FreeMemoryBytes() {
  const uint64_t available = AvailableBytes();
  if (available == 0) return 0;
  // Not 0, which would say that nothing is known.
  return std::max<uint64_t>(1, std::min(available, AddressSpaceBytes()));
}

}  // namespace oarlock
