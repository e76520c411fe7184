#include "launch/log_follower.h"

#include <array>
#include <fstream>

namespace oarlock::launch {

void LogFollower::Poll() {
  std::ifstream file(path_, std::ios::binary | std::ios::ate);
  if (!file) return;
  const int64_t size = file.tellg();
  if (size < copied_) copied_ = 0;
  if (size <= copied_) return;
  file.seekg(copied_);
  std::array<char, 1 << 16> bytes;
  while (file.read(bytes.data(), bytes.size()), file.gcount() > 0) {
    std::fwrite(bytes.data(), 1, file.gcount(), out_);
    copied_ += file.gcount();
  }
  std::fflush(out_);
}

void LogFollower::Skip() {
  std::ifstream file(path_, std::ios::binary | std::ios::ate);
  if (file) copied_ = file.tellg();
}

}  // namespace oarlock::launch
