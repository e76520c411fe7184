#include "nn/cuda/cuda_backend.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/check.h"
#include "nn/cuda/bag_gradients.h"
#include "nn/cuda/cuda_images.h"
#include "nn/cuda/cuda_interactions.h"
#include "nn/cuda/device_math.h"
#include "nn/cuda/replaying_device.h"

namespace oarlock::nn::cuda {
namespace {

// The first base class, so that the device is destroyed after everything that
// uses its memory.
struct OwnedDevice {
  std::unique_ptr<Device> device;
};

class CudaBackend final : private OwnedDevice, public CudaInteractions {
 public:
  CudaBackend(std::unique_ptr<Device> device, const CudaOptions& options)
      : OwnedDevice{std::move(device)},
        CudaInteractions(OwnedDevice::device.get(), options.numbers),
        options_(options),
        images_(&math_),
        bag_gradients_(OwnedDevice::device.get()),
        output_gradient_(OwnedDevice::device.get()),
        loss_partials_(OwnedDevice::device.get()),
        loss_sums_(OwnedDevice::device.get()) {}

  const char* name() const override {
    switch (options_.numbers) {
      case Numbers::kFloat32:
        return "cuda";
      case Numbers::kTf32:
        return "cuda_tf32";
      case Numbers::kBfloat16:
        break;
    }
    return "cuda_bfloat16";
  }

  void* Allocate(size_t num_bytes) override {
    return num_bytes == 0 ? nullptr : device->Allocate(num_bytes);
  }
  void Free(void* memory) override {
    if (memory != nullptr) device->Free(memory);
  }
  void CopyIn(const void* host, size_t num_bytes, void* to) override {
    if (num_bytes > 0) device->CopyIn(host, num_bytes, to);
  }
  void CopyOutLater(const void* from, size_t num_bytes, void* host) override {
    if (num_bytes > 0) device->CopyOutLater(from, num_bytes, host);
  }
  void Finish() override;
  bool uses_host_memory() const override { return options_.inputs_on_device; }
  Device* compute_device() override { return OwnedDevice::device.get(); }
  void Fill(size_t size, float value, float* y) override {
    device->Run(ForEach<FillBody>{{size, value, y}});
  }

  void MatMul(size_t m, size_t n, size_t k, Matrix a, Matrix b, Write write,
              float* c, size_t c_stride) override {
    math_.Multiply({m, n, k, a.data, a.stride, a.transposed, b.data, b.stride,
                    b.transposed, write, c, c_stride});
  }
  void AddBias(size_t rows, size_t cols, const float* bias,
               Activation activation, float* y) override {
    device->Run(ForEach<AddBiasBody>{{rows * cols, cols, activation, bias, y}});
  }
  void AddBiasBackward(size_t rows, size_t cols, const float* y,
                       Activation activation, float* dy, Write write,
                       float* dbias) override {
    math_.SumRows(rows, cols, BiasGradientTerm{cols, activation, y, dy}, 1,
                  write, dbias);
  }
  void Relu(size_t size, const float* x, float* y) override {
    device->Run(ForEach<ReluBody>{{size, x, y}});
  }
  void ReluBackward(size_t size, const float* y, const float* dy, Write write,
                    float* dx) override {
    device->Run(ForEach<ReluBackwardBody>{{size, write, y, dy, dx}});
  }
  void Dropout(size_t size, float rate, uint64_t seed, const float* x,
               Write write, float* y) override {
    device->Run(ForEach<DropoutBody>{{size, rate, seed, write, x, y}});
  }

  size_t LinearScratch(size_t max_rows, size_t inputs,
                       size_t outputs) const override;
  void Linear(const LinearArgs& args, float* y) override;
  void LinearBackward(const LinearArgs& args, const float* y,
                      const LinearGradients& gradients) override;

  void CopyColumns(size_t rows, size_t cols, const float* x, size_t x_stride,
                   Write write, float* y, size_t y_stride) override {
    device->Run(ForEach<CopyColumnsBody>{
        {rows * cols, cols, x_stride, y_stride, write, x, y}});
  }
  void SumColumns(size_t rows, size_t cols, const float* x, float* y) override {
    device->Run(SumColumnsKernel{rows, cols, x, y});
  }
  void SumColumnsBackward(size_t rows, size_t cols, const float* dy,
                          Write write, float* dx) override {
    device->Run(
        ForEach<SumColumnsBackwardBody>{{rows * cols, cols, write, dy, dx}});
  }

  void SumBags(const RowBags& bags, const float* rows, float* out) override {
    device->Run(ForEach<SumBagsBody>{
        {bags.num_examples * bags.num_slots * bags.width,
         bags.row_dim,
         bags.column_begin,
         bags.mean,
         {bags.num_slots, bags.ExampleStride(), bags.width},
         bags.row_of_key,
         bags.offsets,
         rows,
         out}});
  }
  void SumBagsBackward(const RowBags& bags, const float* dout,
                       float* drows) override {
    bag_gradients_.Add(bags, dout, drows);
  }

  void GatherRows(const CachedRows& cached, const float* missed, float* entries,
                  float* rows) override {
    device->Run(ForEach<GatherRowsBody>{
        {cached.num_rows * cached.row_dim, cached.row_dim, cached.miss_of_row,
         cached.entry_of_row, missed, entries, rows}});
  }

  void FmSecondOrder(const FmShape& shape, const float* v, float* sums,
                     float* y) override {
    device->Run(FmKernel{shape.num_examples, shape.num_vectors, shape.width, v,
                         sums, y});
  }
  void FmSecondOrderBackward(const FmShape& shape, const float* v,
                             const float* sums, const float* dy, Write write,
                             float* dv) override {
    device->Run(ForEach<FmBackwardBody>{
        {shape.num_examples * shape.num_vectors * shape.width,
         shape.num_vectors, shape.width, write, v, sums, dy, dv}});
  }

  void SoftmaxCrossEntropy(size_t rows, size_t classes, const float* logits,
                           const float* labels, float* probabilities,
                           double* loss_sum) override {
    AddLoss(rows, SoftmaxTerm{classes, logits, labels, probabilities},
            loss_sum);
  }
  void SoftmaxCrossEntropyBackward(size_t rows, size_t classes,
                                   const float* probabilities,
                                   const float* labels, float scale,
                                   Write write, float* dlogits) override {
    device->Run(
        ForEach<SoftmaxBackwardBody>{{rows * classes, classes, scale, write,
                                      probabilities, labels, dlogits}});
  }
  void SigmoidCrossEntropy(size_t size, const float* logits,
                           const float* labels, float* probabilities,
                           double* loss_sum) override {
    AddLoss(size, SigmoidTerm{logits, labels, probabilities}, loss_sum);
  }
  void SigmoidCrossEntropyBackward(size_t size, const float* probabilities,
                                   const float* labels, float scale,
                                   Write write, float* dlogits) override {
    device->Run(ForEach<SigmoidBackwardBody>{
        {size, scale, write, probabilities, labels, dlogits}});
  }

  void Convolution(const ConvolutionArgs& args, float* y) override {
    images_.Convolution(args, y);
  }
  void ConvolutionBackward(const ConvolutionArgs& args, const float* y,
                           const ConvolutionGradients& gradients) override {
    images_.ConvolutionBackward(args, y, gradients);
  }
  void MaxPool(const PoolingShape& shape, Activation activation, const float* x,
               float* y, uint8_t* chosen) override {
    images_.MaxPool(shape, activation, x, y, chosen);
  }
  void MaxPoolBackward(const PoolingShape& shape, const float* dy,
                       const uint8_t* chosen, Write write, float* dx) override {
    images_.MaxPoolBackward(shape, dy, chosen, write, dx);
  }
  void AveragePool(const PoolingShape& shape, const float* x,
                   float* y) override {
    images_.AveragePool(shape, x, y);
  }
  void AveragePoolBackward(const PoolingShape& shape, const float* dy,
                           Write write, float* dx) override {
    images_.AveragePoolBackward(shape, dy, write, dx);
  }
  void BatchNormTraining(const BatchNormArgs& args, float* y) override {
    images_.BatchNormTraining(args, y);
  }
  void BatchNormInference(const BatchNormArgs& args, float* y) override {
    images_.BatchNormInference(args, y);
  }
  void BatchNormBackward(const BatchNormArgs& args, const float* y,
                         const BatchNormGradients& gradients) override {
    images_.BatchNormBackward(args, y, gradients);
  }
  void ScaleBytes(size_t pixels, size_t channels, const uint8_t* bytes,
                  const ByteScale& scale, float* y) override {
    images_.ScaleBytes(pixels, channels, bytes, scale, y);
  }

 private:
  // The contents of a layer's scratch where operands are rounded. Rows are
  // padded to DeviceMath::RoundedStride.
  struct Rounded {
    uint16_t* weight;
    uint16_t* x;
  };
  static Rounded RoundedIn(const LinearArgs& args) {
    uint16_t* const weight = reinterpret_cast<uint16_t*>(args.scratch);
    return {weight,
            weight + args.inputs * DeviceMath::RoundedStride(args.outputs)};
  }
  bool Rounds() const { return options_.numbers == Numbers::kBfloat16; }

  // The output of SumLossKernel.
  struct LossSum {
    double loss;
    double illegal_labels;
  };
  // The most losses that wait for Finish: more than networks have.
  static constexpr size_t kMostLosses = 16;

  template <typename Term>
  void AddLoss(size_t rows, const Term& term, double* loss_sum) {
    if (rows == 0) return;
    if (losses_to_.size() == kMostLosses) Finish();
    LossSum* const sums = loss_sums_.Get<LossSum>(kMostLosses);
    const size_t blocks = LossPartials<Term>{rows, term, nullptr}.blocks();
    double* const partials = loss_partials_.Get<double>(2 * blocks);
    device->Run(LossPartials<Term>{rows, term, partials});
    device->Run(SumLossKernel{blocks, partials, &sums[losses_to_.size()].loss});
    losses_to_.push_back(loss_sum);
  }

  const CudaOptions options_;
  CudaImages images_;
  BagGradients bag_gradients_;
  DeviceBuffer output_gradient_;
  DeviceBuffer loss_partials_;
  DeviceBuffer loss_sums_;
  // The loss sums to which Finish adds them, in the same order.
  std::vector<double*> losses_to_;
};

void CudaBackend::Finish() {
  LossSum sums[kMostLosses];
  if (!losses_to_.empty()) {
    device->CopyOutLater(loss_sums_.Get<LossSum>(kMostLosses),
                         losses_to_.size() * sizeof(LossSum), sums);
  }
  device->Finish();
  for (size_t i = 0; i < losses_to_.size(); ++i) {
    OARLOCK_CHECK(sums[i].illegal_labels == 0);
    *losses_to_[i] += sums[i].loss;
  }
  losses_to_.clear();
}

size_t CudaBackend::LinearScratch(size_t max_rows, size_t inputs,
                                  size_t outputs) const {
  if (!Rounds()) return 0;
  const size_t rounded = inputs * DeviceMath::RoundedStride(outputs) +
                         max_rows * DeviceMath::RoundedStride(inputs);
  return rounded / 2;
}

void CudaBackend::Linear(const LinearArgs& args, float* y) {
  if (args.rows == 0) return;
  if (!Rounds()) {
    math_.Multiply({args.rows, args.outputs, args.inputs, args.x, args.inputs,
                    false, args.weight, args.outputs, false, Write::kOverwrite,
                    y, args.outputs, args.bias, args.activation});
    return;
  }
  const Rounded rounded = RoundedIn(args);
  math_.Round(args.inputs, args.outputs, args.weight, args.outputs,
              rounded.weight);
  math_.Round(args.rows, args.inputs, args.x, args.inputs, rounded.x);
  Product product =
      RowMajorProduct(Numbers::kBfloat16, args.rows, args.outputs, args.inputs,
                      {rounded.x, DeviceMath::RoundedStride(args.inputs)},
                      {rounded.weight, DeviceMath::RoundedStride(args.outputs)},
                      y, args.outputs);
  product.bias = args.bias;
  product.activation = args.activation;
  device->Multiply(product);
}

void CudaBackend::LinearBackward(const LinearArgs& args, const float* y,
                                 const LinearGradients& gradients) {
  if (args.rows == 0 || !Rounds()) {
    return MathBackend::LinearBackward(args, y, gradients);
  }
  const LinearGradients& g = gradients;
  if (g.dbias != nullptr) {
    AddBiasBackward(args.rows, args.outputs, y, args.activation, g.dy,
                    g.parameter_write, g.dbias);
  }
  const size_t dz_stride = DeviceMath::RoundedStride(args.outputs);
  uint16_t* const dz = output_gradient_.Get<uint16_t>(args.rows * dz_stride);
  math_.Round(args.rows, args.outputs, g.dy, args.outputs, dz);
  const Rounded rounded = RoundedIn(args);
  Product dweight =
      RowMajorProduct(Numbers::kBfloat16, args.inputs, args.outputs, args.rows,
                      {rounded.x, DeviceMath::RoundedStride(args.inputs), true},
                      {dz, dz_stride}, g.dweight, args.outputs);
  dweight.write = g.parameter_write;
  device->Multiply(dweight);
  if (g.dx == nullptr || g.dx_width == 0) return;
  Product dx = RowMajorProduct(
      Numbers::kBfloat16, args.rows, g.dx_width, args.outputs, {dz, dz_stride},
      {rounded.weight, dz_stride, true}, g.dx, g.dx_width);
  dx.write = g.dx_write;
  device->Multiply(dx);
}

}  // namespace

std::unique_ptr<MathBackend> NewCudaBackend(std::unique_ptr<Device> device,
                                            const CudaOptions& options) {
  if (options.graphs) device = NewReplayingDevice(std::move(device));
  return std::make_unique<CudaBackend>(std::move(device), options);
}

}  // namespace oarlock::nn::cuda
