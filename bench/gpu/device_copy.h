// How fast a GPU copies its own memory: what kernels that mostly move numbers
// can reach at best.

#ifndef OARLOCK_BENCH_GPU_DEVICE_COPY_H_
#define OARLOCK_BENCH_GPU_DEVICE_COPY_H_

#include <cstddef>

namespace oarlock::gpu_bench {

// Seconds of one copy by the driver within the memory of the current GPU, of
// several in a row, by the GPU's own clock. Waits for all work on the GPU.
// Ends the process where a call fails, or without the CUDA toolkit.
double SecondsOfDeviceCopy(const void* from, size_t num_bytes, void* to);

}  // namespace oarlock::gpu_bench

#endif  // OARLOCK_BENCH_GPU_DEVICE_COPY_H_
