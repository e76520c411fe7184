#include "base/process/boot_id.h"

#include <fstream>

namespace oarlock {

std::string BootId() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  return id;
}

}  // namespace oarlock
