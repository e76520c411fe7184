// Operations on images on a device. A convolution is the device's own where it
// has one (ConvolutionPass), or else a product of patches (im2col), a chunk of
// images at a time.

#ifndef OARLOCK_NN_CUDA_CUDA_IMAGES_H_
#define OARLOCK_NN_CUDA_CUDA_IMAGES_H_

#include <cstddef>
#include <cstdint>

#include "nn/cuda/convolution_pass.h"
#include "nn/cuda/device_math.h"
#include "nn/image_operations.h"

namespace oarlock::nn::cuda {

// The arguments are those of ImageOperations, in the device's memory.
class CudaImages {
 public:
  explicit CudaImages(DeviceMath* math)
      : math_(*math),
        patches_(&math->device()),
        weight_(&math->device()),
        workspace_(&math->device()),
        sums_(&math->device()) {}

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
  // By the device's own convolution. False, and no array has changed, where it
  // has none for these arguments.
  bool ConvolveByDevice(const ConvolutionArgs& args, float* y);
  bool WeightGradientByDevice(const ConvolutionArgs& args,
                              const ConvolutionGradients& gradients);
  bool InputGradientByDevice(const ConvolutionArgs& args,
                             const ConvolutionGradients& gradients);
  // A pass without arrays.
  ConvolutionPass PassOf(ConvolutionPass::Kind kind,
                         const ConvolutionArgs& args) const;
  // Gives the pass a workspace; false where the device has no convolution for
  // it.
  bool Prepare(ConvolutionPass* pass);
  // Puts args.weight into weight_, as a pass has it.
  const float* TurnWeight(const ConvolutionArgs& args);

  void ConvolveByPatches(const ConvolutionArgs& args, float* y);
  // dweight and dx, those that are not null.
  void GradientsByPatches(const ConvolutionArgs& args,
                          const ConvolutionGradients& gradients);

  void Normalize(const BatchNormArgs& args, const float* mean,
                 const float* variance, float* y);

  DeviceMath& math_;
  DeviceBuffer patches_;
  // Of a pass: its weight or dweight, and its workspace.
  DeviceBuffer weight_;
  DeviceBuffer workspace_;
  DeviceBuffer sums_;
};

}  // namespace oarlock::nn::cuda

#endif  // OARLOCK_NN_CUDA_CUDA_IMAGES_H_
