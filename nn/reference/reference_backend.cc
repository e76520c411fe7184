#include "nn/reference/reference_backend.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/check.h"
#include "base/random.h"
#include "nn/reference/reference_interactions.h"

namespace oarlock::nn {
namespace {

float At(const Matrix& m, size_t i, size_t j) {
  return m.transposed ? m.data[j * m.stride + i] : m.data[i * m.stride + j];
}

void Put(Write write, double value, float* to) {
  *to = static_cast<float>(write == Write::kAdd ? *to + value : value);
}

// Calls visit(rows of the bag's keys, number of these keys, offset of the bag
// in `out`) for all bags, in order.
template <typename Visit>
void ForEachBag(const RowBags& bags, Visit visit) {
  for (size_t bag = 0; bag < bags.num_examples * bags.num_slots; ++bag) {
    const size_t begin = bags.offsets == nullptr ? bag : bags.offsets[bag];
    const size_t end =
        bags.offsets == nullptr ? bag + 1 : bags.offsets[bag + 1];
    visit(bags.row_of_key + begin, end - begin,
          bag / bags.num_slots * bags.ExampleStride() +
              bag % bags.num_slots * bags.width);
  }
}

class ReferenceBackend final : public ReferenceInteractions {
 public:
  const char* name() const override { return "reference"; }

  void MatMul(size_t m, size_t n, size_t k, Matrix a, Matrix b, Write write,
              float* c, size_t c_stride) override {
    for (size_t i = 0; i < m; ++i) {
      for (size_t j = 0; j < n; ++j) {
        double sum = 0;
        for (size_t l = 0; l < k; ++l) {
          sum += static_cast<double>(At(a, i, l)) * At(b, l, j);
        }
        Put(write, sum, &c[i * c_stride + j]);
      }
    }
  }

  void AddBias(size_t rows, size_t cols, const float* bias,
               Activation activation, float* y) override {
    for (size_t i = 0; i < rows * cols; ++i) {
      y[i] += bias[i % cols];
      if (activation == Activation::kRelu) y[i] = std::max(y[i], 0.0f);
    }
  }
  void AddBiasBackward(size_t rows, size_t cols, const float* y,
                       Activation activation, float* dy, Write write,
                       float* dbias) override {
    for (size_t j = 0; j < cols; ++j) {
      double sum = 0;
      for (size_t i = j; i < rows * cols; i += cols) {
        if (activation == Activation::kRelu && y[i] <= 0) dy[i] = 0;
        sum += dy[i];
      }
      if (write == Write::kAdd) sum += dbias[j];
      dbias[j] = static_cast<float>(sum);
    }
  }

  void Relu(size_t size, const float* x, float* y) override {
    for (size_t i = 0; i < size; ++i) y[i] = std::max(x[i], 0.0f);
  }
  void ReluBackward(size_t size, const float* y, const float* dy, Write write,
                    float* dx) override {
    for (size_t i = 0; i < size; ++i) {
      Put(write, y[i] <= 0 ? 0 : dy[i], &dx[i]);
    }
  }

  void Dropout(size_t size, float rate, uint64_t seed, const float* x,
               Write write, float* y) override {
    for (size_t i = 0; i < size; ++i) {
      const bool kept = RandomUniform(seed, i) >= rate;
      Put(write, kept ? x[i] / (1 - double{rate}) : 0, &y[i]);
    }
  }

  void CopyColumns(size_t rows, size_t cols, const float* x, size_t x_stride,
                   Write write, float* y, size_t y_stride) override {
    for (size_t i = 0; i < rows; ++i) {
      for (size_t j = 0; j < cols; ++j) {
        Put(write, x[i * x_stride + j], &y[i * y_stride + j]);
      }
    }
  }
  void SumColumns(size_t rows, size_t cols, const float* x, float* y) override {
    for (size_t i = 0; i < rows; ++i) {
      double sum = 0;
      for (size_t j = 0; j < cols; ++j) sum += x[i * cols + j];
      y[i] = static_cast<float>(sum);
    }
  }
  void SumColumnsBackward(size_t rows, size_t cols, const float* dy,
                          Write write, float* dx) override {
    for (size_t i = 0; i < rows * cols; ++i) Put(write, dy[i / cols], &dx[i]);
  }

  void SumBags(const RowBags& bags, const float* rows, float* out) override {
    std::vector<double> sum(bags.width);
    ForEachBag(bags, [&](const uint32_t* keys, size_t num_keys, size_t at) {
      std::fill(sum.begin(), sum.end(), 0);
      for (size_t key = 0; key < num_keys; ++key) {
        const float* row = rows + keys[key] * bags.row_dim + bags.column_begin;
        for (size_t c = 0; c < bags.width; ++c) sum[c] += row[c];
      }
      const double parts = bags.mean && num_keys > 0 ? num_keys : 1;
      for (size_t c = 0; c < bags.width; ++c) {
        out[at + c] = static_cast<float>(sum[c] / parts);
      }
    });
  }
  void SumBagsBackward(const RowBags& bags, const float* dout,
                       float* drows) override {
    ForEachBag(bags, [&](const uint32_t* keys, size_t num_keys, size_t at) {
      for (size_t key = 0; key < num_keys; ++key) {
        float* row = drows + keys[key] * bags.row_dim + bags.column_begin;
        const float parts = bags.mean ? num_keys : 1;
        for (size_t c = 0; c < bags.width; ++c) row[c] += dout[at + c] / parts;
      }
    });
  }

  void FmSecondOrder(const FmShape& shape, const float* v, float* sums,
                     float* y) override {
    for (size_t e = 0; e < shape.num_examples; ++e) {
      double result = 0;
      for (size_t c = 0; c < shape.width; ++c) {
        double sum = 0;
        double squares = 0;
        for (size_t s = 0; s < shape.num_vectors; ++s) {
          const double x = v[(e * shape.num_vectors + s) * shape.width + c];
          sum += x;
          squares += x * x;
        }
        sums[e * shape.width + c] = static_cast<float>(sum);
        result += (sum * sum - squares) / 2;
      }
      y[e] = static_cast<float>(result);
    }
  }
  void FmSecondOrderBackward(const FmShape& shape, const float* v,
                             const float* sums, const float* dy, Write write,
                             float* dv) override {
    for (size_t e = 0; e < shape.num_examples; ++e) {
      for (size_t s = 0; s < shape.num_vectors; ++s) {
        for (size_t c = 0; c < shape.width; ++c) {
          const size_t i = (e * shape.num_vectors + s) * shape.width + c;
          Put(write, dy[e] * (sums[e * shape.width + c] - v[i]), &dv[i]);
        }
      }
    }
  }

  void SoftmaxCrossEntropy(size_t rows, size_t classes, const float* logits,
                           const float* labels, float* probabilities,
                           double* loss_sum) override {
    double loss = 0;
    for (size_t i = 0; i < rows; ++i) {
      const float* x = logits + i * classes;
      OARLOCK_CHECK(labels[i] >= 0 && labels[i] < classes);
      const double most = *std::max_element(x, x + classes);
      double sum = 0;
      for (size_t c = 0; c < classes; ++c) sum += std::exp(x[c] - most);
      for (size_t c = 0; c < classes; ++c) {
        probabilities[i * classes + c] =
            static_cast<float>(std::exp(x[c] - most) / sum);
      }
      loss += std::log(sum) + most - x[static_cast<size_t>(labels[i])];
    }
    *loss_sum += loss;
  }
  void SoftmaxCrossEntropyBackward(size_t rows, size_t classes,
                                   const float* probabilities,
                                   const float* labels, float scale,
                                   Write write, float* dlogits) override {
    for (size_t i = 0; i < rows; ++i) {
      for (size_t c = 0; c < classes; ++c) {
        const size_t at = i * classes + c;
        const double target = static_cast<size_t>(labels[i]) == c ? 1 : 0;
        Put(write, scale * (probabilities[at] - target), &dlogits[at]);
      }
    }
  }

  void SigmoidCrossEntropy(size_t size, const float* logits,
                           const float* labels, float* probabilities,
                           double* loss_sum) override {
    double loss = 0;
    for (size_t i = 0; i < size; ++i) {
      const double x = logits[i];
      probabilities[i] = static_cast<float>(1 / (1 + std::exp(-x)));
      loss +=
          std::max(x, 0.0) - x * labels[i] + std::log1p(std::exp(-std::abs(x)));
    }
    *loss_sum += loss;
  }
  void SigmoidCrossEntropyBackward(size_t size, const float* probabilities,
                                   const float* labels, float scale,
                                   Write write, float* dlogits) override {
    for (size_t i = 0; i < size; ++i) {
      Put(write, scale * (probabilities[i] - labels[i]), &dlogits[i]);
    }
  }
};

}  // namespace

std::unique_ptr<MathBackend> NewReferenceBackend() {
  return std::make_unique<ReferenceBackend>();
}

}  // namespace oarlock::nn
