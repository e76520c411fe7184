// The building blocks of kernels. A GPU runs their code block by block. A CPU
// can run the same code in loops, so that tests need no GPU.
//
// A kernel is a struct of its arguments:
//
//   struct Kernel {
//     static constexpr unsigned kThreads = 128;     // of a block, power of 2
//     size_t blocks() const;                        // 0: nothing to do
//     OARLOCK_DEVICE void operator()(const Block& block) const;
//   };
//
// The code between two barriers is a call of Block::ForThreads. Threads
// exchange data through OARLOCK_SHARED arrays. Code outside ForThreads is the
// same for all threads of the block and writes nothing. ForEach makes a kernel
// from a struct whose call operator handles number i.
//
// The compiler of GPU code and the host compiler see different bodies of the
// same functions. Inline namespaces separate the two at link time.

#ifndef OARLOCK_NN_CUDA_KERNELS_DEVICE_CODE_H_
#define OARLOCK_NN_CUDA_KERNELS_DEVICE_CODE_H_

#include <cstddef>
#include <cstdint>

#include "nn/operation.h"

#ifdef __CUDACC__
#define OARLOCK_DEVICE __device__
#define OARLOCK_SHARED __shared__
#define OARLOCK_KERNEL_SIDE gpu_side
#else
#define OARLOCK_DEVICE
#define OARLOCK_SHARED
#define OARLOCK_KERNEL_SIDE host_side
#endif

namespace oarlock::nn::cuda {
inline namespace OARLOCK_KERNEL_SIDE {

// A running block of threads.
class Block {
 public:
#ifdef __CUDACC__
  __device__ Block() : index_(blockIdx.x) {}
#else
  // `turn` changes the order in which threads run: no result may depend on it.
  Block(size_t index, unsigned num_threads, unsigned turn)
      : index_(index), num_threads_(num_threads), turn_(turn) {}
#endif

  // The block's number in the grid.
  OARLOCK_DEVICE size_t index() const { return index_; }

  // Calls body(t) for every thread t of the block; returns when all threads
  // have finished.
  template <typename Body>
  OARLOCK_DEVICE void ForThreads(const Body& body) const {
#ifdef __CUDACC__
    body(threadIdx.x);
    __syncthreads();
#else
    // An odd factor permutes a power of two.
    for (unsigned i = 0; i < num_threads_; ++i) {
      body((i * (2 * turn_ + 1) + turn_) & (num_threads_ - 1));
    }
#endif
  }

 private:
  const size_t index_;
#ifndef __CUDACC__
  const unsigned num_threads_;
  const unsigned turn_;
#endif
};

inline constexpr size_t BlocksFor(size_t size, size_t per_block) {
  return (size + per_block - 1) / per_block;
}

// The kernel that calls body(i) for i < body.count.
template <typename Body>
struct ForEach {
  static constexpr unsigned kThreads = 256;
  Body body;

  size_t blocks() const { return BlocksFor(body.count, kThreads); }
  OARLOCK_DEVICE void operator()(const Block& block) const {
    block.ForThreads([&](unsigned t) {
      const size_t i = block.index() * kThreads + t;
      if (i < body.count) body(i);
    });
  }
};

// values[0] = the sum of values[0] to values[kThreads - 1], always in the same
// order.
template <unsigned kThreads, typename Value>
OARLOCK_DEVICE void SumOfBlock(const Block& block, Value* values) {
  for (unsigned half = kThreads / 2; half > 0; half /= 2) {
    block.ForThreads([&](unsigned t) {
      if (t < half) values[t] += values[t + half];
    });
  }
}

// values[0] = the sum of term(i) for begin <= i < end, always in the same
// order.
template <unsigned kThreads, typename Value, typename Term>
OARLOCK_DEVICE void SumOfTerms(const Block& block, size_t begin, size_t end,
                               const Term& term, Value* values) {
  block.ForThreads([&](unsigned t) {
    Value sum = {};
    for (size_t i = begin + t; i < end; i += kThreads) sum += term(i);
    values[t] = sum;
  });
  SumOfBlock<kThreads>(block, values);
}

OARLOCK_DEVICE inline void Put(Write write, float value, float* to) {
  *to = write == Write::kAdd ? *to + value : value;
}

OARLOCK_DEVICE inline float Activate(Activation activation, float value) {
  // NaN stays NaN, as with std::max(value, 0).
  return activation == Activation::kRelu && value < 0 ? 0 : value;
}

}  // namespace OARLOCK_KERNEL_SIDE
}  // namespace oarlock::nn::cuda

#endif  // OARLOCK_NN_CUDA_KERNELS_DEVICE_CODE_H_
