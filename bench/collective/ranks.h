// Two processes for programs that measure what they exchange: this one and a
// fork of it, which does what it is told.

#ifndef OARLOCK_BENCH_COLLECTIVE_RANKS_H_
#define OARLOCK_BENCH_COLLECTIVE_RANKS_H_

#include <cstddef>
#include <cstdint>
#include <functional>

#include "bench/common/repetitions.h"

namespace oarlock_bench {

// `num_calls` exchanges of `num_bytes` each in one repetition.
struct Work {
  uint64_t kind = 0;
  uint64_t num_bytes = 0;
  uint64_t num_calls = 0;
};

// One of two processes; constructed before any thread is started.
class TwoRanks {
 public:
  TwoRanks();

  // 0 in the process that was started, 1 in its fork.
  int rank() const { return rank_; }

  // Rank 0: has both do the work, call by call, and gives the figures:
  //   p50_us             of a call, at rank 0
  //   bytes_per_second   of the vector, by that time
  //   cpu_us             of a call, both processes together
  Figures Measure(const Work& work,
                  const std::function<void(const Work&)>& call);

  // Rank 1: works until rank 0 ends.
  void Serve(const std::function<void(const Work&)>& call);

 private:
  int rank_;
  // To the other one.
  int pipe_;
};

// Ends the program when `ok` does not hold.
void Require(bool ok, const char* what);

}  // namespace oarlock_bench

#endif  // OARLOCK_BENCH_COLLECTIVE_RANKS_H_
