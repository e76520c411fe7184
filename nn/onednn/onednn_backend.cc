#include "nn/onednn/onednn_backend.h"

#include <oneapi/dnnl/dnnl.h>

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/check.h"
#include "nn/cpu/cpu_backend.h"
#include "nn/cpu/cpu_kernels.h"
#include "nn/cpu/math_threads.h"
#include "nn/onednn/bfloat16_products.h"
#include "nn/onednn/onednn_convolutions.h"

namespace oarlock::nn {
namespace {

// The common part of both backends: convolutions.
class ConvolvingBackend : public CpuBackend {
 public:
  size_t ConvolutionScratch(size_t max_images,
                            const ConvolutionShape& shape) const final {
    return convolutions_.Scratch(max_images, shape);
  }
  void Convolution(const ConvolutionArgs& args, float* y) final {
    convolutions_.Forward(args, y);
  }
  void ConvolutionBackward(const ConvolutionArgs& args, const float* y,
                           const ConvolutionGradients& gradients) final {
    convolutions_.Backward(args, y, gradients);
  }

 protected:
  ConvolvingBackend(OneDnnConvolutions::Operands operands, int threads)
      : CpuBackend(threads), convolutions_(operands, threads) {}

 private:
  OneDnnConvolutions convolutions_;
};

class OneDnnBackend final : public ConvolvingBackend {
 public:
  explicit OneDnnBackend(int threads)
      : ConvolvingBackend(OneDnnConvolutions::Operands::kFloat32, threads) {}
  const char* name() const override { return "onednn"; }

 protected:
  void WideMatMul(size_t m, size_t n, size_t k, Matrix a, Matrix b, Write write,
                  float* c, size_t c_stride) override {
    UseMathThreads(threads());
    const auto dim = [](size_t size) { return static_cast<dnnl_dim_t>(size); };
    const dnnl_status_t status = dnnl_sgemm(
        a.transposed ? 'T' : 'N', b.transposed ? 'T' : 'N', dim(m), dim(n),
        dim(k), 1.0f, a.data, dim(a.stride), b.data, dim(b.stride),
        write == Write::kAdd ? 1.0f : 0.0f, c, dim(c_stride));
    OARLOCK_CHECK(status == dnnl_success);
  }
};

class OneDnnBfloat16Backend final : public ConvolvingBackend {
 public:
  explicit OneDnnBfloat16Backend(int threads)
      : ConvolvingBackend(OneDnnConvolutions::Operands::kBfloat16, threads),
        products_(threads) {}
  const char* name() const override { return "onednn_bfloat16"; }

  // Holds the rounded weight, then the rounded input.
  size_t LinearScratch(size_t max_rows, size_t inputs,
                       size_t outputs) const override {
    if (IsNarrow(inputs, outputs)) return 0;
    return (inputs * outputs + max_rows * inputs + 1) / 2;
  }

  void Linear(const LinearArgs& args, float* y) override {
    if (IsNarrow(args.inputs, args.outputs)) return CpuBackend::Linear(args, y);
    if (args.rows == 0) return;
    const Rounded rounded = RoundedIn(args);
    cpu_kernels::RoundToBfloat16(args.inputs, args.outputs, args.weight,
                                 args.outputs, rounded.weight);
    cpu_kernels::RoundToBfloat16(args.rows, args.inputs, args.x, args.inputs,
                                 rounded.x);
    Bfloat16Product product;
    product.m = args.rows;
    product.n = args.outputs;
    product.k = args.inputs;
    product.a = {rounded.x, args.inputs};
    product.b = {rounded.weight, args.outputs};
    product.bias = args.bias;
    product.activation = args.activation;
    product.c = y;
    product.c_stride = args.outputs;
    products_.Run(product);
  }

  void LinearBackward(const LinearArgs& args, const float* y,
                      const LinearGradients& gradients) override {
    if (args.rows == 0 || IsNarrow(args.inputs, args.outputs)) {
      return CpuBackend::LinearBackward(args, y, gradients);
    }
    const Rounded rounded = RoundedIn(args);
    const Bfloat16* dz = RoundOutputGradient(args, y, gradients);
    Bfloat16Product dweight;
    dweight.m = args.inputs;
    dweight.n = args.outputs;
    dweight.k = args.rows;
    dweight.a = {rounded.x, args.inputs, true};
    dweight.b = {dz, args.outputs};
    dweight.write = gradients.parameter_write;
    dweight.c = gradients.dweight;
    dweight.c_stride = args.outputs;
    products_.Run(dweight);
    if (gradients.dx == nullptr || gradients.dx_width == 0) return;
    Bfloat16Product dx;
    dx.m = args.rows;
    dx.n = gradients.dx_width;
    dx.k = args.outputs;
    dx.a = {dz, args.outputs};
    dx.b = {rounded.weight, args.outputs, true};
    dx.write = gradients.dx_write;
    dx.c = gradients.dx;
    dx.c_stride = gradients.dx_width;
    products_.Run(dx);
  }

 protected:
  void WideMatMul(size_t m, size_t n, size_t k, Matrix a, Matrix b, Write write,
                  float* c, size_t c_stride) override {
    Bfloat16Product product;
    product.m = m;
    product.n = n;
    product.k = k;
    product.a = Round(m, k, a, a_);
    product.b = Round(k, n, b, b_);
    product.write = write;
    product.c = c;
    product.c_stride = c_stride;
    products_.Run(product);
  }

 private:
  // The contents of a layer's scratch.
  struct Rounded {
    Bfloat16* weight;
    Bfloat16* x;
  };
  static Rounded RoundedIn(const LinearArgs& args) {
    Bfloat16* const weight = reinterpret_cast<Bfloat16*>(args.scratch);
    return {weight, weight + args.inputs * args.outputs};
  }

  // Returns the rounded gradient by the product, in a_. Also writes the
  // gradient by the bias.
  const Bfloat16* RoundOutputGradient(const LinearArgs& args, const float* y,
                                      const LinearGradients& gradients) {
    const size_t size = args.rows * args.outputs;
    if (a_.size() < size) a_.resize(size);
    if (gradients.dbias != nullptr) {
      cpu_kernels::AddBiasBackwardRounded(
          args.rows, args.outputs, y, args.activation, gradients.dy,
          gradients.parameter_write, gradients.dbias, a_.data());
    } else {
      cpu_kernels::RoundToBfloat16(args.rows, args.outputs, gradients.dy,
                                   args.outputs, a_.data());
    }
    return a_.data();
  }

  // Rounds `matrix`, [rows, cols] with `transposed` applied, to `buffer`.
  static Bfloat16Product::Operand Round(size_t rows, size_t cols, Matrix matrix,
                                        std::vector<Bfloat16>& buffer) {
    if (buffer.size() < rows * cols) buffer.resize(rows * cols);
    if (matrix.transposed) std::swap(rows, cols);
    cpu_kernels::RoundToBfloat16(rows, cols, matrix.data, matrix.stride,
                                 buffer.data());
    return {buffer.data(), cols, matrix.transposed};
  }

  Bfloat16Products products_;
  std::vector<Bfloat16> a_;
  std::vector<Bfloat16> b_;
};

}  // namespace

std::unique_ptr<MathBackend> NewOneDnnBackend(int threads) {
  return std::make_unique<OneDnnBackend>(threads);
}

absl::StatusOr<std::unique_ptr<MathBackend>> NewOneDnnBfloat16Backend(
    int threads) {
  if (!CpuMultipliesBfloat16()) {
    return absl::FailedPreconditionError(
        "products in bfloat16 need a CPU with AVX512_BF16 or AMX, and this one "
        "has neither; legal on it is --dense_math float32: choose that");
  }
  return std::make_unique<OneDnnBfloat16Backend>(threads);
}

}  // namespace oarlock::nn
