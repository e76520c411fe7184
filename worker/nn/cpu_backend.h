// What the CPU's fast backends share: memory of the host, every operation that
// is no large product by Highway (cpu_kernels.h), and products with a side of
// at most kNarrow, which a library for matrices does at a fraction of the
// memory's speed.

#ifndef OARLOCK_WORKER_NN_CPU_BACKEND_H_
#define OARLOCK_WORKER_NN_CPU_BACKEND_H_

#include <cstddef>
#include <vector>

#include "worker/nn/cpu_kernels.h"
#include "worker/nn/host_backend.h"
#include "worker/nn/math_backend.h"

namespace oarlock {

class CpuBackend : public HostBackend {
 public:
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
  double SoftmaxCrossEntropy(size_t rows, size_t classes, const float* logits,
                             const float* labels, float* probabilities) final;
  void SoftmaxCrossEntropyBackward(size_t rows, size_t classes,
                                   const float* probabilities,
                                   const float* labels, float scale,
                                   Write write, float* dlogits) final;
  double SigmoidCrossEntropy(size_t size, const float* logits,
                             const float* labels, float* probabilities) final;
  void SigmoidCrossEntropyBackward(size_t size, const float* probabilities,
                                   const float* labels, float scale,
                                   Write write, float* dlogits) final;

 protected:
  // MatMul of sizes above 0 that is not narrow.
  virtual void WideMatMul(size_t m, size_t n, size_t k, Matrix a, Matrix b,
                          Write write, float* c, size_t c_stride) = 0;
  // Whether a product of an [*, inputs] by an [inputs, outputs] matrix, and
  // both of its gradients, are narrow.
  static bool IsNarrow(size_t inputs, size_t outputs) {
    return inputs <= cpu_kernels::kNarrow || outputs <= cpu_kernels::kNarrow;
  }

 private:
  // The narrow operand, its narrow side outermost.
  std::vector<float> narrow_;
};

}  // namespace oarlock

#endif  // OARLOCK_WORKER_NN_CPU_BACKEND_H_
