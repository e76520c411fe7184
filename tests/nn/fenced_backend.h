// A backend with memory of its own, as a GPU has: it computes like the
// reference, and crashes when an operation is given an address that did not
// come from its Allocate.

#ifndef OARLOCK_TESTS_NN_FENCED_BACKEND_H_
#define OARLOCK_TESTS_NN_FENCED_BACKEND_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "base/check.h"
#include "nn/host_interactions.h"
#include "nn/math_backend.h"
#include "nn/reference/reference_backend.h"

namespace oarlock::nn {

class FencedBackend : public HostInteractions {
 public:
  FencedBackend() : HostInteractions(NewReferenceBackend()) {}
  ~FencedBackend() override { OARLOCK_CHECK(blocks_.empty()); }
  const char* name() const override { return "fenced"; }

  void* Allocate(size_t num_bytes) override {
    void* memory = math_->Allocate(num_bytes);
    if (memory != nullptr) blocks_[static_cast<char*>(memory)] = num_bytes;
    return memory;
  }
  void Free(void* memory) override {
    OARLOCK_CHECK(blocks_.erase(static_cast<char*>(memory)) == 1);
    math_->Free(memory);
  }
  void CopyIn(const void* host, size_t num_bytes, void* to) override {
    math_->CopyIn(host, num_bytes, Own(to, num_bytes));
  }
  void CopyOutLater(const void* from, size_t num_bytes, void* host) override {
    later_.push_back([this, from = Own(from, num_bytes), num_bytes, host] {
      math_->CopyOut(Own(from, num_bytes), num_bytes, host);
    });
  }
  // As late as can be, so that who does not wait is found out.
  void Finish() override {
    for (const std::function<void()>& work : later_) work();
    later_.clear();
  }
  bool uses_host_memory() const override { return false; }
  void Fill(size_t size, float value, float* y) override {
    math_->Fill(size, value, Floats(y, size));
  }

  void MatMul(size_t m, size_t n, size_t k, Matrix a, Matrix b, Write write,
              float* c, size_t c_stride) override {
    if (m * n * k > 0) {
      Floats(a.data, (a.transposed ? k : m) * a.stride);
      Floats(b.data,
             ((b.transposed ? n : k) - 1) * b.stride + (b.transposed ? k : n));
      Floats(c, (m - 1) * c_stride + n);
    }
    math_->MatMul(m, n, k, a, b, write, c, c_stride);
  }
  void AddBias(size_t rows, size_t cols, const float* bias,
               Activation activation, float* y) override {
    math_->AddBias(rows, cols, Floats(bias, cols), activation,
                   Floats(y, rows * cols));
  }
  void AddBiasBackward(size_t rows, size_t cols, const float* y,
                       Activation activation, float* dy, Write write,
                       float* dbias) override {
    if (activation != Activation::kNone) Floats(y, rows * cols);
    math_->AddBiasBackward(rows, cols, y, activation, Floats(dy, rows * cols),
                           write, Floats(dbias, cols));
  }
  void Relu(size_t size, const float* x, float* y) override {
    math_->Relu(size, Floats(x, size), Floats(y, size));
  }
  void ReluBackward(size_t size, const float* y, const float* dy, Write write,
                    float* dx) override {
    math_->ReluBackward(size, Floats(y, size), Floats(dy, size), write,
                        Floats(dx, size));
  }
  void Dropout(size_t size, float rate, uint64_t seed, const float* x,
               Write write, float* y) override {
    math_->Dropout(size, rate, seed, Floats(x, size), write, Floats(y, size));
  }
  void CopyColumns(size_t rows, size_t cols, const float* x, size_t x_stride,
                   Write write, float* y, size_t y_stride) override {
    if (rows > 0) {
      Floats(x, (rows - 1) * x_stride + cols);
      Floats(y, (rows - 1) * y_stride + cols);
    }
    math_->CopyColumns(rows, cols, x, x_stride, write, y, y_stride);
  }
  void SumColumns(size_t rows, size_t cols, const float* x, float* y) override {
    math_->SumColumns(rows, cols, Floats(x, rows * cols), Floats(y, rows));
  }
  void SumColumnsBackward(size_t rows, size_t cols, const float* dy,
                          Write write, float* dx) override {
    math_->SumColumnsBackward(rows, cols, Floats(dy, rows), write,
                              Floats(dx, rows * cols));
  }
  void SumBags(const RowBags& bags, const float* rows, float* out) override {
    Own(rows, sizeof(float));
    math_->SumBags(Fenced(bags), rows, Floats(out, OutSize(bags)));
  }
  void SumBagsBackward(const RowBags& bags, const float* dout,
                       float* drows) override {
    Own(drows, sizeof(float));
    math_->SumBagsBackward(Fenced(bags), Floats(dout, OutSize(bags)), drows);
  }
  void GatherRows(const CachedRows& cached, const float* missed, float* entries,
                  float* rows) override {
    if (cached.num_rows > 0) {
      Own(cached.miss_of_row, cached.num_rows * sizeof(uint32_t));
      Own(cached.entry_of_row, cached.num_rows * sizeof(uint32_t));
      Own(entries, sizeof(float));
    }
    math_->GatherRows(cached, missed, entries,
                      Floats(rows, cached.num_rows * cached.row_dim));
  }
  void FmSecondOrder(const FmShape& shape, const float* v, float* sums,
                     float* y) override {
    const size_t e = shape.num_examples;
    math_->FmSecondOrder(shape, Floats(v, e * shape.num_vectors * shape.width),
                         Floats(sums, e * shape.width), Floats(y, e));
  }
  void FmSecondOrderBackward(const FmShape& shape, const float* v,
                             const float* sums, const float* dy, Write write,
                             float* dv) override {
    const size_t e = shape.num_examples;
    const size_t size = e * shape.num_vectors * shape.width;
    math_->FmSecondOrderBackward(shape, Floats(v, size),
                                 Floats(sums, e * shape.width), Floats(dy, e),
                                 write, Floats(dv, size));
  }
  void SoftmaxCrossEntropy(size_t rows, size_t classes, const float* logits,
                           const float* labels, float* probabilities,
                           double* loss_sum) override {
    double loss = 0;
    math_->SoftmaxCrossEntropy(rows, classes, Floats(logits, rows * classes),
                               Floats(labels, rows),
                               Floats(probabilities, rows * classes), &loss);
    later_.push_back([loss, loss_sum] { *loss_sum += loss; });
  }
  void SoftmaxCrossEntropyBackward(size_t rows, size_t classes,
                                   const float* probabilities,
                                   const float* labels, float scale,
                                   Write write, float* dlogits) override {
    math_->SoftmaxCrossEntropyBackward(
        rows, classes, Floats(probabilities, rows * classes),
        Floats(labels, rows), scale, write, Floats(dlogits, rows * classes));
  }
  void SigmoidCrossEntropy(size_t size, const float* logits,
                           const float* labels, float* probabilities,
                           double* loss_sum) override {
    double loss = 0;
    math_->SigmoidCrossEntropy(size, Floats(logits, size), Floats(labels, size),
                               Floats(probabilities, size), &loss);
    later_.push_back([loss, loss_sum] { *loss_sum += loss; });
  }
  void SigmoidCrossEntropyBackward(size_t size, const float* probabilities,
                                   const float* labels, float scale,
                                   Write write, float* dlogits) override {
    math_->SigmoidCrossEntropyBackward(size, Floats(probabilities, size),
                                       Floats(labels, size), scale, write,
                                       Floats(dlogits, size));
  }

  void Convolution(const ConvolutionArgs& args, float* y) override {
    Fence(args);
    math_->Convolution(args, Floats(y, args.images * args.shape.output_size()));
  }
  void ConvolutionBackward(const ConvolutionArgs& args, const float* y,
                           const ConvolutionGradients& gradients) override {
    Fence(args);
    const ConvolutionGradients& g = gradients;
    const size_t out_size = args.images * args.shape.output_size();
    if (args.activation != Activation::kNone) Floats(y, out_size);
    Floats(g.dy, out_size);
    Floats(g.dweight, args.shape.weight_size());
    if (g.dbias != nullptr) Floats(g.dbias, args.shape.out_channels);
    if (g.dx != nullptr) Floats(g.dx, args.images * args.shape.input_size());
    math_->ConvolutionBackward(args, y, gradients);
  }
  void MaxPool(const PoolingShape& shape, Activation activation, const float* x,
               float* y, uint8_t* chosen) override {
    math_->MaxPool(shape, activation, Floats(x, InputSize(shape)),
                   Floats(y, shape.output_size()),
                   Own(chosen, shape.output_size()));
  }
  void MaxPoolBackward(const PoolingShape& shape, const float* dy,
                       const uint8_t* chosen, Write write, float* dx) override {
    math_->MaxPoolBackward(shape, Floats(dy, shape.output_size()),
                           Own(chosen, shape.output_size()), write,
                           Floats(dx, InputSize(shape)));
  }
  void AveragePool(const PoolingShape& shape, const float* x,
                   float* y) override {
    math_->AveragePool(shape, Floats(x, InputSize(shape)),
                       Floats(y, shape.output_size()));
  }
  void AveragePoolBackward(const PoolingShape& shape, const float* dy,
                           Write write, float* dx) override {
    math_->AveragePoolBackward(shape, Floats(dy, shape.output_size()), write,
                               Floats(dx, InputSize(shape)));
  }
  void BatchNormTraining(const BatchNormArgs& args, float* y) override {
    Fence(args);
    Floats(args.running_mean, args.channels);
    Floats(args.running_variance, args.channels);
    math_->BatchNormTraining(args, Floats(y, args.rows * args.channels));
  }
  void BatchNormInference(const BatchNormArgs& args, float* y) override {
    Fence(args);
    Floats(args.running_mean, args.channels);
    Floats(args.running_variance, args.channels);
    math_->BatchNormInference(args, Floats(y, args.rows * args.channels));
  }
  void BatchNormBackward(const BatchNormArgs& args, const float* y,
                         const BatchNormGradients& gradients) override {
    Fence(args);
    const BatchNormGradients& g = gradients;
    const size_t size = args.rows * args.channels;
    Floats(g.dy, size);
    Floats(g.dscale, args.channels);
    Floats(g.dshift, args.channels);
    if (g.dx != nullptr) Floats(g.dx, size);
    if (g.dresidual != nullptr) Floats(g.dresidual, size);
    math_->BatchNormBackward(args, Floats(y, size), gradients);
  }
  void ScaleBytes(size_t pixels, size_t channels, const uint8_t* bytes,
                  const ByteScale& scale, float* y) override {
    math_->ScaleBytes(pixels, channels, Own(bytes, pixels * channels), scale,
                      Floats(y, pixels * channels));
  }

 private:
  void Fence(const ConvolutionArgs& args) const {
    Floats(args.x, args.images * args.shape.input_size());
    Floats(args.weight, args.shape.weight_size());
    if (args.bias != nullptr) Floats(args.bias, args.shape.out_channels);
  }
  void Fence(const BatchNormArgs& args) const {
    Floats(args.x, args.rows * args.channels);
    Floats(args.scale, args.channels);
    Floats(args.shift, args.channels);
    Floats(args.scratch, 2 * args.channels);
    if (args.residual != nullptr) {
      Floats(args.residual, args.rows * args.channels);
    }
  }
  static size_t InputSize(const PoolingShape& shape) {
    return shape.images * shape.image.area() * shape.channels;
  }
  template <typename T>
  T* Own(T* memory, size_t num_bytes) const {
    if (num_bytes == 0) return memory;
    const char* begin =
        static_cast<const char*>(static_cast<const void*>(memory));
    auto block = blocks_.upper_bound(const_cast<char*>(begin));
    OARLOCK_CHECK(block != blocks_.begin());
    --block;
    OARLOCK_CHECK(begin + num_bytes <= block->first + block->second);
    return memory;
  }
  template <typename T>
  T* Floats(T* memory, size_t size) const {
    return Own(memory, size * sizeof(float));
  }
  static size_t OutSize(const RowBags& bags) {
    if (bags.num_examples == 0) return 0;
    return (bags.num_examples - 1) * bags.ExampleStride() +
           bags.num_slots * bags.width;
  }
  const RowBags& Fenced(const RowBags& bags) const {
    const size_t num_bags = bags.num_examples * bags.num_slots;
    if (bags.offsets != nullptr) {
      Own(bags.offsets, (num_bags + 1) * sizeof(uint32_t));
    } else {
      Own(bags.row_of_key, num_bags * sizeof(uint32_t));
    }
    return bags;
  }

  const std::unique_ptr<MathBackend> math_ = NewReferenceBackend();
  std::map<char*, size_t> blocks_;
  // What comes to the host with Finish.
  std::vector<std::function<void()>> later_;
};

}  // namespace oarlock::nn

#endif  // OARLOCK_TESTS_NN_FENCED_BACKEND_H_
