#include "nn/cpu/math_threads.h"

#include <omp.h>

#include <algorithm>

#include "base/check.h"

namespace oarlock::nn {

int DefaultMathThreads() { return std::max(1, omp_get_max_threads()); }

void UseMathThreads(int threads) {
  OARLOCK_CHECK(threads >= 1);
  thread_local int current = 0;
  if (threads == current) return;
  omp_set_num_threads(threads);
  current = threads;
}

void ParallelFor(int threads, size_t size,
                 absl::FunctionRef<void(size_t begin, size_t end)> fn) {
#ifdef __SANITIZE_THREAD__
  // The sanitizer cannot detect how OpenMP threads wait for each other.
  threads = 1;
#endif
  const size_t ranges = std::min(static_cast<size_t>(threads), size);
  if (ranges <= 1) {
    if (size > 0) fn(0, size);
    return;
  }
#pragma omp parallel for num_threads(static_cast <int>(ranges)) schedule(static)
  for (size_t i = 0; i < ranges; ++i) {
    fn(i * size / ranges, (i + 1) * size / ranges);
  }
}

}  // namespace oarlock::nn
