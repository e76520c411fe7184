// Math threads share one calculation. They are OpenMP threads, which oneDNN
// uses too. Each thread that starts calculations has a team of its own.

#ifndef OARLOCK_NN_CPU_MATH_THREADS_H_
#define OARLOCK_NN_CPU_MATH_THREADS_H_

#include <cstddef>

#include "absl/functional/function_ref.h"

namespace oarlock::nn {

// The value of OMP_NUM_THREADS, else the number of cores that this process may
// use. On a thread that has called UseMathThreads: the argument of its last
// call.
int DefaultMathThreads();

// Sets the number of math threads, at least 1, that oneDNN uses when the
// calling thread calls it. The setting stays until the thread calls this
// function again. Without it oneDNN uses DefaultMathThreads().
void UseMathThreads(int threads);

// Calls fn(begin, end) for at most `threads` ranges that make up [0, size), at
// the same time; returns when all have returned. fn does not throw.
void ParallelFor(int threads, size_t size,
                 absl::FunctionRef<void(size_t begin, size_t end)> fn);

}  // namespace oarlock::nn

#endif  // OARLOCK_NN_CPU_MATH_THREADS_H_
