// Operations on images on a device. The device's own convolution is used where
// it has one (ConvolutionPass). Otherwise a convolution is a product of patches
// (im2col), computed a chunk of images at a time.

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
  // Use the device's own convolution. Return false, and change no array, where
  // it has none for these arguments.
  bool ConvolveByDevice(const ConvolutionArgs& args, float* y);
  bool WeightGradientByDevice(const ConvolutionArgs& args,
                              const ConvolutionGradients& gradients);
  bool InputGradientByDevice(const ConvolutionArgs& args,
                             const ConvolutionGradients& gradients);
  // A ConvolutionPass whose arrays are null.
  ConvolutionPass PassOf(ConvolutionPass::Kind kind,
                         const ConvolutionArgs& args) const;
  // Gives `pass` a workspace. False where the device has no convolution for it.
  bool Prepare(ConvolutionPass* pass);
  // Writes args.weight to weight_, in the layout of ConvolutionPass.
  const float* TurnWeight(const ConvolutionArgs& args);

  void ConvolveByPatches(const ConvolutionArgs& args, float* y);
  // Computes dweight and dx, where they are not null.
  void GradientsByPatches(const ConvolutionArgs& args,
                          const ConvolutionGradients& gradients);

  void Normalize(const BatchNormArgs& args, const float* mean,
                 const float* variance, float* y);

  DeviceMath& math_;
  DeviceBuffer patches_;
  // For a ConvolutionPass: its weight or dweight, and its workspace.
  DeviceBuffer weight_;
  DeviceBuffer workspace_;
  DeviceBuffer sums_;
};

}  // namespace oarlock::nn::cuda

#endif  // OARLOCK_NN_CUDA_CUDA_IMAGES_H_
