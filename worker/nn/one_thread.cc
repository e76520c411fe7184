#include "worker/nn/one_thread.h"

#include <omp.h>

#include "base/check.h"

namespace oarlock {

void ComputeInThisThreadOnly() {
  thread_local const bool limited = [] {
    omp_set_num_threads(1);
    return true;
  }();
  OARLOCK_CHECK(limited);
}

}  // namespace oarlock
