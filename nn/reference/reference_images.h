// The operations on images as plain loops with sums in double precision: the
// part of the reference backend that image_operations.h declares.

#ifndef OARLOCK_NN_REFERENCE_REFERENCE_IMAGES_H_
#define OARLOCK_NN_REFERENCE_REFERENCE_IMAGES_H_

#include <cstddef>
#include <cstdint>

#include "nn/host_backend.h"

namespace oarlock::nn {

class ReferenceImages : public HostBackend {
 public:
  void Convolution(const ConvolutionArgs& args, float* y) final;
  void ConvolutionBackward(const ConvolutionArgs& args, const float* y,
                           const ConvolutionGradients& gradients) final;
  void MaxPool(const PoolingShape& shape, Activation activation, const float* x,
               float* y, uint8_t* chosen) final;
  void MaxPoolBackward(const PoolingShape& shape, const float* dy,
                       const uint8_t* chosen, Write write, float* dx) final;
  void AveragePool(const PoolingShape& shape, const float* x, float* y) final;
  void AveragePoolBackward(const PoolingShape& shape, const float* dy,
                           Write write, float* dx) final;
  void BatchNormTraining(const BatchNormArgs& args, float* y) final;
  void BatchNormInference(const BatchNormArgs& args, float* y) final;
  void BatchNormBackward(const BatchNormArgs& args, const float* y,
                         const BatchNormGradients& gradients) final;
  void ScaleBytes(size_t pixels, size_t channels, const uint8_t* bytes,
                  const ByteScale& scale, float* y) final;
};

}  // namespace oarlock::nn

#endif  // OARLOCK_NN_REFERENCE_REFERENCE_IMAGES_H_
