// Math threads share one calculation. They are OpenMP's, with which oneDNN
// computes, too. Each thread that calculates has a team of its own.

#ifndef OARLOCK_NN_CPU_MATH_THREADS_H_
#define OARLOCK_NN_CPU_MATH_THREADS_H_

#include <cstddef>

#include "absl/functional/function_ref.h"

namespace oarlock::nn {

// As many as OMP_NUM_THREADS says, else as there are cores that this process
// may use. On a thread that has called UseMathThreads: what it was given.
int DefaultMathThreads();

// Makes oneDNN compute with so many math threads, at least 1, when the calling
// thread calls it, for good; without this it takes DefaultMathThreads().
void UseMathThreads(int threads);

// Calls fn(begin, end) for at most `threads` ranges that make up [0, size), at
// the same time; returns when all have returned. fn does not throw.
void ParallelFor(int threads, size_t size,
                 absl::FunctionRef<void(size_t begin, size_t end)> fn);

}  // namespace oarlock::nn

#endif  // OARLOCK_NN_CPU_MATH_THREADS_H_
