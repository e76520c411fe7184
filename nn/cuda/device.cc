#include "nn/cuda/device.h"

#include <cstdio>
#include <cstdlib>

namespace oarlock::nn::cuda {

void DeviceFailed(const std::string& message) {
  std::fprintf(stderr, "oarlock: %s\n", message.c_str());
  std::fflush(stderr);
  // Destructors would call the device again.
  std::_Exit(1);
}

}  // namespace oarlock::nn::cuda
