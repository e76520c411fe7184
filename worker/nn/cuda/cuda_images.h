// Operations on images on a device. A convolution is a product of patches
// (im2col), a chunk of images at a time.

#ifndef OARLOCK_WORKER_NN_CUDA_CUDA_IMAGES_H_
#define OARLOCK_WORKER_NN_CUDA_CUDA_IMAGES_H_

#include <cstddef>
#include <cstdint>

#include "worker/nn/cuda/device_math.h"
#include "worker/nn/image_operations.h"

namespace oarlock::cuda {

// The arguments are those of ImageOperations, in the device's memory.
class CudaImages {
 public:
  explicit CudaImages(DeviceMath* math)
      : math_(*math), patches_(&math->device()), sums_(&math->device()) {}

  void Convolution(const ConvolutionArgs& args, float* y);
  void ConvolutionBackward(const ConvolutionArgs& args, const float* y,
                           const ConvolutionGradients& gradients);
  void MaxPool(const PoolingShape& shape, Activation activation, const float* x,
               float* y, uint8_t* chosen);
  void MaxPoolBackward(const PoolingShape& shape, const float* dy,
                       const uint8_t* chosen, Write write, float* dx);
  void AveragePool(const PoolingShape& shape, const float* x, float* y);
  void AveragePoolBackward(const PoolingShape& shape, const float* dy,
                           Write write, float* dx);
  void BatchNormTraining(const BatchNormArgs& args, float* y);
  void BatchNormInference(const BatchNormArgs& args, float* y);
  void BatchNormBackward(const BatchNormArgs& args, const float* y,
                         const BatchNormGradients& gradients);
  void ScaleBytes(size_t pixels, size_t channels, const uint8_t* bytes,
                  const ByteScale& scale, float* y);

 private:
  void Normalize(const BatchNormArgs& args, const float* mean,
                 const float* variance, float* y);

  DeviceMath& math_;
  DeviceBuffer patches_;
  DeviceBuffer sums_;
};

}  // namespace oarlock::cuda

#endif  // OARLOCK_WORKER_NN_CUDA_CUDA_IMAGES_H_
