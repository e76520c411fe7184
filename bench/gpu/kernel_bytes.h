// The fewest bytes that a kernel moves between a GPU's memory and its
// multiprocessors: each number that it needs read once, each that it makes
// written once, and one that it adds to read besides.

#ifndef OARLOCK_BENCH_GPU_KERNEL_BYTES_H_
#define OARLOCK_BENCH_GPU_KERNEL_BYTES_H_

#include <cstddef>
#include <functional>
#include <optional>

#include "nn/cuda/device.h"

namespace oarlock::gpu_bench {

// Copies of the device's memory, which what a kernel moves may depend on:
// how many keys share a row, how large parameters are.
using ReadMemory =
    std::function<void(const void* from, size_t num_bytes, void* host)>;

// Of the kernel `id`, a struct at `kernel`, before it runs. Nothing where
// nobody has counted: kernels of images and of attention.
std::optional<double> BytesOfKernel(nn::cuda::KernelId id, const void* kernel,
                                    const ReadMemory& read);

double BytesOfProduct(const nn::cuda::Product& product);

}  // namespace oarlock::gpu_bench

#endif  // OARLOCK_BENCH_GPU_KERNEL_BYTES_H_
