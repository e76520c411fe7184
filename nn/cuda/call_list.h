// A list of kernel launches and products to run, with copies of their
// arguments.

#ifndef OARLOCK_NN_CUDA_CALL_LIST_H_
#define OARLOCK_NN_CUDA_CALL_LIST_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "nn/cuda/device.h"

namespace oarlock::nn::cuda {

// A value.
class CallList {
 public:
  void AddKernel(KernelId id, const void* kernel, size_t num_bytes,
                 size_t blocks);
  void AddProduct(Product product);
  void Clear();

  size_t size() const { return calls_.size(); }
  // For each call: the number of the kernel, or the number that stands for a
  // product.
  const std::vector<uint16_t>& kinds() const { return kinds_; }

  // Runs calls [begin, end) on `device`.
  void Do(size_t begin, size_t end, Device& device) const;
  // A list of calls [begin, end).
  CallList Part(size_t begin, size_t end) const;
  // Whether call i equals call j of `other`, arguments included.
  bool Equal(size_t i, const CallList& other, size_t j) const;
  // Whether `other` contains all calls of this list, from call `begin` on.
  bool IsAt(size_t begin, const CallList& other) const;

 private:
  struct Call {
    size_t blocks = 0;
    // Offset and size of its arguments in arguments_.
    size_t begin = 0;
    size_t num_bytes = 0;
  };

  void Add(uint16_t kind, const void* arguments, size_t num_bytes,
           size_t blocks);

  std::vector<uint16_t> kinds_;
  std::vector<Call> calls_;
  // The arguments of all calls, each aligned for its type.
  std::vector<std::byte> arguments_;
};

}  // namespace oarlock::nn::cuda

#endif  // OARLOCK_NN_CUDA_CALL_LIST_H_
