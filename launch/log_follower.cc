#include "launch/log_follower.h"

#include <array>
#include <cstddef>
#include <fstream>
#include <string_view>

#include "absl/time/time.h"
#include "base/output/patient_output.h"

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
    const auto read = static_cast<size_t>(file.gcount());
    const size_t written =
        WriteWhatFits(out_, std::string_view(bytes.data(), read));
    copied_ += static_cast<int64_t>(written);
    if (written < read) return;
  }
}

int64_t LogFollower::Finish() {
  while (true) {
    Poll();
    std::ifstream file(path_, std::ios::binary | std::ios::ate);
    const int64_t left = file ? int64_t{file.tellg()} - copied_ : 0;
    if (left <= 0) return 0;
    if (!AwaitRoom(out_, absl::Seconds(1))) return left;
  }
}

void LogFollower::Skip() {
  std::ifstream file(path_, std::ios::binary | std::ios::ate);
  if (file) copied_ = file.tellg();
}

}  // namespace oarlock::launch
