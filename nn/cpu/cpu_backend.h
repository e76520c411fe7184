// The common part of the fast backends for the CPU. They use host memory. They
// compute with Highway (cpu_kernels.h and siblings) every operation except
// large products and convolutions. This includes products with a side of at
// most kNarrow: a matrix library computes them at a fraction of the memory's
// speed.

#ifndef OARLOCK_NN_CPU_CPU_BACKEND_H_
#define OARLOCK_NN_CPU_CPU_BACKEND_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "nn/cpu/batch_norm_kernels.h"
#include "nn/cpu/cpu_interactions.h"
#include "nn/cpu/cpu_kernels.h"
#include "nn/math_backend.h"

namespace oarlock::nn {

class CpuBackend : public CpuInteractions {
 public:
  // `threads` threads, at least 1, compute the operations on images and those
  // of derived classes.
  explicit CpuBackend(int threads) : threads_(threads) {}

  void MatMul(size_t m, size_t n, size_t k, Matrix a, Matrix b, Write write,
              float* c, size_t c_stride) final;

  void AddBias(size_t rows, size_t cols, const float* bias,
               Activation activation, float* y) final;
  void AddBiasBackward(size_t rows, size_t cols, const float* y,
                       Activation activation, float* dy, Write write,
                       float* dbias) final;
  void Relu(size_t size, const float* x, float* y) final;
  void ReluBackward(size_t size, const float* y, const float* dy, Write write,
                    float* dx) final;
  void Dropout(size_t size, float rate, uint64_t seed, const float* x,
               Write write, float* y) final;
  void CopyColumns(size_t rows, size_t cols, const float* x, size_t x_stride,
                   Write write, float* y, size_t y_stride) final;
  void SumColumns(size_t rows, size_t cols, const float* x, float* y) final;
  void SumColumnsBackward(size_t rows, size_t cols, const float* dy,
                          Write write, float* dx) final;
  void SumBags(const RowBags& bags, const float* rows, float* out) final;
  void SumBagsBackward(const RowBags& bags, const float* dout,
                       float* drows) final;
  void FmSecondOrder(const FmShape& shape, const float* v, float* sums,
                     float* y) final;
  void FmSecondOrderBackward(const FmShape& shape, const float* v,
                             const float* sums, const float* dy, Write write,
                             float* dv) final;
  void SoftmaxCrossEntropy(size_t rows, size_t classes, const float* logits,
                           const float* labels, float* probabilities,
                           double* loss_sum) final;
  void SoftmaxCrossEntropyBackward(size_t rows, size_t classes,
                                   const float* probabilities,
                                   const float* labels, float scale,
                                   Write write, float* dlogits) final;
  void SigmoidCrossEntropy(size_t size, const float* logits,
                           const float* labels, float* probabilities,
                           double* loss_sum) final;
  void SigmoidCrossEntropyBackward(size_t size, const float* probabilities,
                                   const float* labels, float scale,
                                   Write write, float* dlogits) final;

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

 protected:
  int threads() const { return threads_; }
  // MatMul for sizes above 0 that are not narrow.
  virtual void WideMatMul(size_t m, size_t n, size_t k, Matrix a, Matrix b,
                          Write write, float* c, size_t c_stride) = 0;
  // Whether the product of an [*, inputs] and an [inputs, outputs] matrix is
  // narrow; then both of its gradients are narrow too.
  static bool IsNarrow(size_t inputs, size_t outputs) {
    return inputs <= cpu_kernels::kNarrow || outputs <= cpu_kernels::kNarrow;
  }

 private:
  // The number of threads that pays off for an operation on `floats` floats.
  int ThreadsFor(size_t floats) const;
  // Calls fn with some of the images, and with the offsets in x and y at which
  // they begin.
  void ForImages(
      const PoolingShape& shape,
      absl::FunctionRef<void(const PoolingShape& some, size_t x, size_t y)> fn);
  batch_norm_kernels::Room BatchNormRoom(size_t rows, size_t channels);

  const int threads_;
  // The narrow operand, its narrow side outermost.
  std::vector<float> narrow_;
  // Memory of BatchNormRoom.
  std::vector<double> sums_;
  std::vector<float> parts_;
  std::vector<float> columns_;
};

}  // namespace oarlock::nn

#endif  // OARLOCK_NN_CPU_CPU_BACKEND_H_
