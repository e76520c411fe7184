// Processes for programs that measure what they exchange: this one and forks
// of it, which do what they are told.

#ifndef OARLOCK_BENCH_COLLECTIVE_RANKS_H_
#define OARLOCK_BENCH_COLLECTIVE_RANKS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "bench/common/repetitions.h"

namespace oarlock_bench {

// `num_calls` exchanges of `num_bytes` each in one repetition.
struct Work {
  uint64_t kind = 0;
  uint64_t num_bytes = 0;
  uint64_t num_calls = 0;
};

// One of `count` processes; constructed before any thread is started.
class Ranks {
 public:
  explicit Ranks(int count);

  // 0 in the process that was started, 1 and on in its forks.
  int rank() const { return rank_; }

  // Rank 0: has all do the work, call by call, and gives the figures:
  //   p50_us             of a call, at rank 0
  //   bytes_per_second   of the vector, by that time
  //   cpu_us             of a call, all processes together
  Figures Measure(const Work& work,
                  const std::function<void(const Work&)>& call);

  // The others: work until rank 0 ends.
  void Serve(const std::function<void(const Work&)>& call);

 private:
  int rank_ = 0;
  // Rank 0: to each of the others; the others: to rank 0.
  std::vector<int> pipes_;
};

// Ends the program when `ok` does not hold.
void Require(bool ok, const char* what);

}  // namespace oarlock_bench

#endif  // OARLOCK_BENCH_COLLECTIVE_RANKS_H_
