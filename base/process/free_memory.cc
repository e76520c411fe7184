#include "base/process/free_memory.h"

#include <fstream>
#include <string>

namespace oarlock {

uint64_t FreeMemoryBytes() {
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

}  // namespace oarlock
