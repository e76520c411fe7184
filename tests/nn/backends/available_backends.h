// The backends that this machine has.

#ifndef OARLOCK_TESTS_NN_BACKENDS_AVAILABLE_BACKENDS_H_
#define OARLOCK_TESTS_NN_BACKENDS_AVAILABLE_BACKENDS_H_

#include <string>
#include <vector>

#include "nn/backends/backends.h"

namespace oarlock::nn {

// Without "onednn_bfloat16" where the CPU cannot.
inline std::vector<std::string> AvailableBackends() {
  std::vector<std::string> names = {"reference", "onednn"};
  if (NewMathBackend("onednn_bfloat16").ok()) {
    names.push_back("onednn_bfloat16");
  }
  return names;
}

}  // namespace oarlock::nn

#endif  // OARLOCK_TESTS_NN_BACKENDS_AVAILABLE_BACKENDS_H_
