// Merges the gradients of bags by row on a device. bag_kernels.h describes the
// method.

#ifndef OARLOCK_NN_CUDA_BAG_GRADIENTS_H_
#define OARLOCK_NN_CUDA_BAG_GRADIENTS_H_

#include <cstddef>
#include <cstdint>

#include "nn/cuda/device.h"
#include "nn/math_backend.h"

namespace oarlock::nn::cuda {

class BagGradients {
 public:
  explicit BagGradients(Device* device)
      : device_(*device), pairs_(device), counts_(device), sums_(device) {}

  // As MathBackend::SumBagsBackward. The order of additions in the sum of a row
  // depends only on the keys.
  void Add(const RowBags& bags, const float* dout, float* drows);

 private:
  // The pairs of all keys, sorted by row.
  SortedPairs Sort(const RowBags& bags);

  Device& device_;
  DeviceBuffer pairs_;
  DeviceBuffer counts_;
  DeviceBuffer sums_;
};

}  // namespace oarlock::nn::cuda

#endif  // OARLOCK_NN_CUDA_BAG_GRADIENTS_H_
