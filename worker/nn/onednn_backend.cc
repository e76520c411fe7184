#include "worker/nn/onednn_backend.h"

#include <omp.h>
#include <oneapi/dnnl/dnnl.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>

#include "base/check.h"
#include "worker/nn/cpu_kernels.h"
#include "worker/nn/host_backend.h"

namespace oarlock {
namespace {

// oneDNN starts an OpenMP team per calling thread, one thread per core, unless
// that thread has said otherwise.
void ComputeInThisThreadOnly() {
  thread_local const bool limited = [] {
    omp_set_num_threads(1);
    return true;
  }();
  OARLOCK_CHECK(limited);
}

float Into(Write write, float was, float value) {
  return write == Write::kAdd ? was + value : value;
}

class OneDnnBackend final : public HostBackend {
 public:
  const char* name() const override { return "onednn"; }

  void MatMul(size_t m, size_t n, size_t k, Matrix a, Matrix b, Write write,
              float* c, size_t c_stride) override {
    if (m == 0 || n == 0) return;
    if (k == 0) {
      if (write == Write::kAdd) return;
      for (size_t i = 0; i < m; ++i) Fill(n, 0, c + i * c_stride);
      return;
    }
    ComputeInThisThreadOnly();
    const auto dim = [](size_t size) { return static_cast<dnnl_dim_t>(size); };
    const dnnl_status_t status = dnnl_sgemm(
        a.transposed ? 'T' : 'N', b.transposed ? 'T' : 'N', dim(m), dim(n),
        dim(k), 1.0f, a.data, dim(a.stride), b.data, dim(b.stride),
        write == Write::kAdd ? 1.0f : 0.0f, c, dim(c_stride));
    OARLOCK_CHECK(status == dnnl_success);
  }

  void AddBias(size_t rows, size_t cols, const float* bias,
               Activation activation, float* y) override {
    cpu_kernels::AddBias(rows, cols, bias, activation, y);
  }
  void AddBiasBackward(size_t rows, size_t cols, const float* y,
                       Activation activation, float* dy, Write write,
                       float* dbias) override {
    cpu_kernels::AddBiasBackward(rows, cols, y, activation, dy, write, dbias);
  }
  void Relu(size_t size, const float* x, float* y) override {
    cpu_kernels::Relu(size, x, y);
  }
  void ReluBackward(size_t size, const float* y, const float* dy, Write write,
                    float* dx) override {
    cpu_kernels::ReluBackward(size, y, dy, write, dx);
  }
  void CopyColumns(size_t rows, size_t cols, const float* x, size_t x_stride,
                   Write write, float* y, size_t y_stride) override {
    cpu_kernels::CopyColumns(rows, cols, x, x_stride, write, y, y_stride);
  }
  void SumColumns(size_t rows, size_t cols, const float* x, float* y) override {
    cpu_kernels::SumColumns(rows, cols, x, y);
  }
  void SumColumnsBackward(size_t rows, size_t cols, const float* dy,
                          Write write, float* dx) override {
    cpu_kernels::SumColumnsBackward(rows, cols, dy, write, dx);
  }
  void SumBags(const RowBags& bags, const float* rows, float* out) override {
    cpu_kernels::SumBags(bags, rows, out);
  }
  void SumBagsBackward(const RowBags& bags, const float* dout,
                       float* drows) override {
    cpu_kernels::SumBagsBackward(bags, dout, drows);
  }
  void FmSecondOrder(const FmShape& shape, const float* v, float* sums,
                     float* y) override {
    cpu_kernels::FmSecondOrder(shape, v, sums, y);
  }
  void FmSecondOrderBackward(const FmShape& shape, const float* v,
                             const float* sums, const float* dy, Write write,
                             float* dv) override {
    cpu_kernels::FmSecondOrderBackward(shape, v, sums, dy, write, dv);
  }

  double SoftmaxCrossEntropy(size_t rows, size_t classes, const float* logits,
                             const float* labels,
                             float* probabilities) override {
    double loss = 0;
    for (size_t i = 0; i < rows; ++i) {
      const float* x = logits + i * classes;
      float* p = probabilities + i * classes;
      OARLOCK_CHECK(labels[i] >= 0 && labels[i] < static_cast<float>(classes));
      const float most = *std::max_element(x, x + classes);
      float sum = 0;
      for (size_t c = 0; c < classes; ++c) {
        p[c] = std::exp(x[c] - most);
        sum += p[c];
      }
      const float scale = 1 / sum;
      for (size_t c = 0; c < classes; ++c) p[c] *= scale;
      loss += std::log(sum) + (most - x[static_cast<size_t>(labels[i])]);
    }
    return loss;
  }
  void SoftmaxCrossEntropyBackward(size_t rows, size_t classes,
                                   const float* probabilities,
                                   const float* labels, float scale,
                                   Write write, float* dlogits) override {
    for (size_t i = 0; i < rows; ++i) {
      const size_t label = static_cast<size_t>(labels[i]);
      for (size_t c = 0; c < classes; ++c) {
        const size_t at = i * classes + c;
        const float target = c == label ? 1.0f : 0.0f;
        dlogits[at] =
            Into(write, dlogits[at], scale * (probabilities[at] - target));
      }
    }
  }

  double SigmoidCrossEntropy(size_t size, const float* logits,
                             const float* labels,
                             float* probabilities) override {
    double loss = 0;
    for (size_t i = 0; i < size; ++i) {
      const float x = logits[i];
      const float e = std::exp(-std::abs(x));  // never overflows
      probabilities[i] = (x >= 0 ? 1 : e) / (1 + e);
      loss += std::max(x, 0.0f) - x * labels[i] + std::log1p(e);
    }
    return loss;
  }
  void SigmoidCrossEntropyBackward(size_t size, const float* probabilities,
                                   const float* labels, float scale,
                                   Write write, float* dlogits) override {
    for (size_t i = 0; i < size; ++i) {
      dlogits[i] =
          Into(write, dlogits[i], scale * (probabilities[i] - labels[i]));
    }
  }
};

}  // namespace

std::unique_ptr<MathBackend> NewOneDnnBackend() {
  return std::make_unique<OneDnnBackend>();
}

}  // namespace oarlock
