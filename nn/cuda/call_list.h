// Launches and products that are to be done, with copies of their arguments.

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
  // Of each call: the kernel's number, or that of a product.
  const std::vector<uint16_t>& kinds() const { return kinds_; }

  // Does calls [begin, end).
  void Do(size_t begin, size_t end, Device& device) const;
  // Calls [begin, end).
  CallList Part(size_t begin, size_t end) const;
  // Whether call i is call j of `other`, with the same arguments.
  bool Equal(size_t i, const CallList& other, size_t j) const;
  // Whether all of these are in `other`, from call `begin` on.
  bool IsAt(size_t begin, const CallList& other) const;

 private:
  struct Call {
    size_t blocks = 0;
    // Of its arguments, in arguments_.
    size_t begin = 0;
    size_t num_bytes = 0;
  };

  void Add(uint16_t kind, const void* arguments, size_t num_bytes,
           size_t blocks);

  std::vector<uint16_t> kinds_;
  std::vector<Call> calls_;
  // Aligned for all of them.
  std::vector<std::byte> arguments_;
};

}  // namespace oarlock::nn::cuda

#endif  // OARLOCK_NN_CUDA_CALL_LIST_H_
