// One suite for all backends: random arguments of odd shapes against the
// reference, and small cases computed by hand for all, the reference too.

#include "nn/math_backend.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "nn/backends/backends.h"
#include "tests/nn/backends/conforming_backends.h"
#include "tests/nn/backends/math_backend_testing.h"

namespace oarlock::nn {
namespace {

INSTANTIATE_TEST_SUITE_P(All, MathBackendTest,
                         ::testing::ValuesIn(ConformingBackends()),
                         [](const auto& info) { return info.param; });

TEST_P(MathBackendTest, MemoryIsAlignedAndKeepsWhatIsCopiedIn) {
  EXPECT_EQ(math_->Allocate(0), nullptr);
  for (size_t bytes : {1, 4, 63, 64, 4097}) {
    BackendArray array(math_.get(), bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(array.data()) % 64, 0u);
    std::string in(bytes, 'x'), out(bytes, 'y');
    math_->CopyIn(in.data(), bytes, array.data());
    math_->CopyOut(array.data(), bytes, out.data());
    EXPECT_EQ(in, out);
  }
}

TEST_P(MathBackendTest, ReservedArrayGrowsAndNeverShrinks) {
  BackendArray array;
  array.Reserve(math_.get(), 100);
  void* const first = array.data();
  array.Reserve(math_.get(), 40);
  EXPECT_EQ(array.data(), first);
  EXPECT_EQ(array.num_bytes(), 100u);
  array.Reserve(math_.get(), 4000);
  EXPECT_EQ(array.num_bytes(), 4000u);
}

TEST_P(MathBackendTest, FillWritesExactlyItsSize) {
  for (size_t size : {0, 1, 5, 33}) {
    Compare({}, {std::vector<float>(size, kNan)},
            [&](MathBackend& math, Arrays& in, Arrays& out) {
              math.Fill(size, 2.5f, out[0].data());
            });
  }
}

TEST_P(MathBackendTest, ProductOfHandComputedMatrices) {
  Array a(math_.get(), {1, 2, 3, 4, 5, 6});   // [2, 3]
  Array b(math_.get(), {1, 0, 2, -1, 3, 1});  // [3, 2]
  Array c(math_.get(), std::vector<float>(4, kNan));
  math_->MatMul(2, 2, 3, {a.data(), 3}, {b.data(), 2}, Write::kOverwrite,
                c.data(), 2);
  EXPECT_EQ(c.Read(), (std::vector<float>{14, 1, 32, 1}));
  math_->MatMul(2, 2, 3, {a.data(), 3}, {b.data(), 2}, Write::kAdd, c.data(),
                2);
  EXPECT_EQ(c.Read(), (std::vector<float>{28, 2, 64, 2}));
  // a^T (read as [3, 2]) times b^T (read as [2, 3]).
  Array d(math_.get(), std::vector<float>(9, kNan));
  math_->MatMul(3, 3, 2, {a.data(), 3, true}, {b.data(), 2, true},
                Write::kOverwrite, d.data(), 3);
  EXPECT_EQ(d.Read(), (std::vector<float>{1, -2, 7, 2, -1, 11, 3, 0, 15}));
}

TEST_P(MathBackendTest, ProductsOfAllShapesTranspositionsAndStrides) {
  const size_t shapes[][3] = {{1, 1, 1},     {1, 2, 400},   {7, 13, 5},
                              {33, 2, 40},   {100, 40, 27}, {0, 3, 4},
                              {3, 0, 4},     {3, 4, 0},     {17, 1, 13},
                              {27, 31, 100}, {9, 37, 3},    {64, 5, 6}};
  for (const auto& [m, n, k] : shapes) {
    for (const bool ta : {false, true}) {
      for (const bool tb : {false, true}) {
        for (const Write write : {Write::kOverwrite, Write::kAdd}) {
          for (const size_t pad : {0, 3}) {
            const size_t lda = (ta ? m : k) + pad;
            const size_t ldb = (tb ? k : n) + pad;
            const size_t ldc = n + pad;
            const size_t a_size = (ta ? k : m) * lda;
            const size_t b_size = (tb ? n : k) * ldb;
            const auto multiply = [&](MathBackend& math, Arrays& in,
                                      Arrays& out) {
              math.MatMul(m, n, k, {in[0].data(), lda, ta},
                          {in[1].data(), ldb, tb}, write, out[0].data(), ldc);
            };
            Compare({Random(a_size), Random(b_size)}, {Before(m * ldc, write)},
                    multiply, ProductTolerance(k, false));
            Compare({RandomBfloat16(a_size), RandomBfloat16(b_size)},
                    {Before(m * ldc, write)}, multiply,
                    ProductTolerance(k, true));
          }
        }
      }
    }
  }
}

TEST_P(MathBackendTest, ProductLeavesColumnsBeyondItsWidthAlone) {
  Array a(math_.get(), {1, 2});
  Array c(math_.get(), {7, 7, 7, 7, 7, 7});
  math_->MatMul(2, 1, 1, {a.data(), 1}, {a.data(), 1}, Write::kOverwrite,
                c.data(), 3);
  EXPECT_EQ(c.Read(), (std::vector<float>{1, 7, 7, 2, 7, 7}));
  // Nothing to sum over: zeros, and only there.
  math_->MatMul(2, 1, 0, {a.data(), 1}, {a.data(), 1}, Write::kOverwrite,
                c.data(), 3);
  EXPECT_EQ(c.Read(), (std::vector<float>{0, 7, 7, 0, 7, 7}));
}

TEST_P(MathBackendTest, BiasAndActivationForwardAndBackward) {
  for (size_t rows : kRows) {
    for (size_t cols : kCols) {
      for (auto activation : {Activation::kNone, Activation::kRelu}) {
        Compare({Random(cols)}, {Random(rows * cols)},
                [&](MathBackend& math, Arrays& in, Arrays& out) {
                  math.AddBias(rows, cols, in[0].data(), activation,
                               out[0].data());
                });
        const bool relu = activation == Activation::kRelu;
        Compare({Random(rows * cols)},
                {Random(rows * cols), std::vector<float>(cols, kNan)},
                [&](MathBackend& math, Arrays& in, Arrays& out) {
                  math.AddBiasBackward(
                      rows, cols, relu ? in[0].data() : nullptr, activation,
                      out[0].data(), Write::kOverwrite, out[1].data());
                });
        Compare({Random(rows * cols)}, {Random(rows * cols), Random(cols)},
                [&](MathBackend& math, Arrays& in, Arrays& out) {
                  math.AddBiasBackward(
                      rows, cols, relu ? in[0].data() : nullptr, activation,
                      out[0].data(), Write::kAdd, out[1].data());
                });
      }
    }
  }
}

struct LinearCase {
  size_t rows, inputs, outputs, dx_width;
  bool bias;
  Activation activation;
  Write write;
};

// Forward and backward; y as backward sees it is an input of the call, so that
// both backends mask alike.
auto RunLinear(const LinearCase& c) {
  return [c](MathBackend& math, Arrays& in, Arrays& out) {
    BackendArray scratch(
        &math,
        math.LinearScratch(c.rows + 3, c.inputs, c.outputs) * sizeof(float));
    LinearArgs args = {.rows = c.rows,
                       .inputs = c.inputs,
                       .outputs = c.outputs,
                       .activation = c.activation,
                       .x = in[0].data(),
                       .weight = in[1].data(),
                       .bias = c.bias ? in[2].data() : nullptr,
                       .scratch = scratch.floats()};
    math.Linear(args, out[0].data());
    LinearGradients gradients = {.dy = in[4].data(),
                                 .parameter_write = c.write,
                                 .dweight = out[1].data(),
                                 .dbias = c.bias ? out[2].data() : nullptr,
                                 .dx = c.dx_width > 0 ? out[3].data() : nullptr,
                                 .dx_width = c.dx_width,
                                 .dx_write = c.write};
    math.LinearBackward(args, in[3].data(), gradients);
  };
}

TEST_P(MathBackendTest, LinearLayersForwardAndBackward) {
  std::vector<LinearCase> cases;
  const size_t sizes[][3] = {{0, 5, 6},  {1, 5, 6},    {7, 13, 5}, {50, 40, 27},
                             {33, 2, 9}, {33, 40, 2},  {20, 1, 1}, {3, 4, 5},
                             {9, 5, 4},  {100, 63, 64}};
  for (const auto& [rows, in, out] : sizes) {
    for (const Write write : {Write::kOverwrite, Write::kAdd}) {
      cases.push_back({rows, in, out, in, true, Activation::kRelu, write});
      cases.push_back(
          {rows, in, out, (in + 1) / 2, true, Activation::kNone, write});
      cases.push_back({rows, in, out, 0, false, Activation::kNone, write});
    }
  }
  for (const LinearCase& c : cases) {
    for (const bool exact : {false, true}) {
      const auto operand = [&](size_t size) {
        return exact ? RandomBfloat16(size) : Random(size);
      };
      const size_t longest = std::max({c.rows, c.inputs, c.outputs});
      Compare({operand(c.rows * c.inputs), operand(c.inputs * c.outputs),
               Random(c.outputs), Random(c.rows * c.outputs),
               operand(c.rows * c.outputs)},
              {std::vector<float>(c.rows * c.outputs, kNan),
               Before(c.inputs * c.outputs, c.write),
               c.bias ? Before(c.outputs, c.write) : Random(c.outputs),
               c.dx_width > 0 ? Before(c.rows * c.dx_width, c.write)
                              : Random(c.rows)},
              RunLinear(c), ProductTolerance(longest, exact));
    }
  }
}

TEST_P(MathBackendTest, LinearRunsBatchesOfChangingSize) {
  // A file's last batch is short; what a larger one left must not matter.
  for (const size_t rows : {40, 3, 40, 17}) {
    const LinearCase c = {
        rows, 20, 30, 20, true, Activation::kRelu, Write::kOverwrite};
    Compare({RandomBfloat16(rows * 20), RandomBfloat16(20 * 30), Random(30),
             Random(rows * 30), RandomBfloat16(rows * 30)},
            {Before(rows * 30, c.write), Before(20 * 30, c.write),
             Before(30, c.write), Before(rows * 20, c.write)},
            RunLinear(c), ProductTolerance(40, true));
  }
}

TEST_P(MathBackendTest, ReluPassesNoGradientAtZero) {
  Array x(math_.get(), {-1, 0, 2});
  Array y(math_.get(), std::vector<float>(3, kNan));
  math_->Relu(3, x.data(), y.data());
  EXPECT_EQ(y.Read(), (std::vector<float>{0, 0, 2}));
  Array dy(math_.get(), {5, 6, 7});
  Array dx(math_.get(), std::vector<float>(3, kNan));
  math_->ReluBackward(3, y.data(), dy.data(), Write::kOverwrite, dx.data());
  EXPECT_EQ(dx.Read(), (std::vector<float>{0, 0, 7}));
  Array bias(math_.get(), {1, 1, 1});
  Array dbias(math_.get(), std::vector<float>(3, kNan));
  math_->AddBiasBackward(1, 3, y.data(), Activation::kRelu, dy.data(),
                         Write::kOverwrite, dbias.data());
  EXPECT_EQ(dy.Read(), (std::vector<float>{0, 0, 7}));
  EXPECT_EQ(dbias.Read(), (std::vector<float>{0, 0, 7}));
}

TEST_P(MathBackendTest, ReluAndItsGradientOfAllSizes) {
  for (size_t size : {0, 1, 7, 8, 9, 100, 1003}) {
    Compare({Random(size)}, {std::vector<float>(size, kNan)},
            [&](MathBackend& math, Arrays& in, Arrays& out) {
              math.Relu(size, in[0].data(), out[0].data());
            });
    for (const Write write : {Write::kOverwrite, Write::kAdd}) {
      Compare({Random(size), Random(size)}, {Before(size, write)},
              [&](MathBackend& math, Arrays& in, Arrays& out) {
                math.ReluBackward(size, in[0].data(), in[1].data(), write,
                                  out[0].data());
              });
    }
  }
}

// What is NaN here is NaN in the reference, and there by hand.
TEST_P(MathBackendTest, NanStaysNan) {
  Array x(math_.get(), {-1, kNan, 2});
  Array y(math_.get(), {0, 0, 0});
  math_->Relu(3, x.data(), y.data());
  EXPECT_TRUE(std::isnan(y.Read()[1]));
  Array dy(math_.get(), {5, kNan, 7});
  Array dx(math_.get(), {0, 0, 0});
  math_->ReluBackward(3, y.data(), dy.data(), Write::kOverwrite, dx.data());
  EXPECT_TRUE(std::isnan(dx.Read()[1]));
  const auto spoilt = [&](size_t size) {
    std::vector<float> values = Random(size);
    for (size_t i = 0; i < size; i += 5) values[i] = kNan;
    return values;
  };
  for (const size_t size : {1, 7, 37, 1003}) {
    Compare({spoilt(size), spoilt(size), spoilt(3 * size)},
            {std::vector<float>(size), std::vector<float>(size), Random(size),
             spoilt(3 * size)},
            [&](MathBackend& math, Arrays& in, Arrays& out) {
              math.Relu(size, in[0].data(), out[0].data());
              math.ReluBackward(size, out[0].data(), in[1].data(),
                                Write::kOverwrite, out[1].data());
              math.AddBias(3, size, in[0].data(), Activation::kRelu,
                           out[3].data());
              math.AddBiasBackward(3, size, out[3].data(), Activation::kRelu,
                                   in[2].data(), Write::kAdd, out[2].data());
            });
  }
  // Row 1 of the input, then a column of the weights.
  for (const bool in_weights : {false, true}) {
    const LinearCase c = {
        6, 33, 17, 33, true, Activation::kRelu, Write::kOverwrite};
    std::vector<float> input = Random(c.rows * c.inputs);
    std::vector<float> weights = Random(c.inputs * c.outputs);
    (in_weights ? weights : input)[c.inputs + 3] = kNan;
    Compare({input, weights, Random(c.outputs), Random(c.rows * c.outputs),
             Random(c.rows * c.outputs)},
            {std::vector<float>(c.rows * c.outputs),
             std::vector<float>(c.inputs * c.outputs),
             std::vector<float>(c.outputs),
             std::vector<float>(c.rows * c.dx_width)},
            RunLinear(c), ProductTolerance(c.inputs, false));
  }
}

TEST_P(MathBackendTest, ColumnsAreCopiedAndSummed) {
  for (size_t rows : kRows) {
    for (size_t cols : kCols) {
      Compare({Random(rows * cols)}, {std::vector<float>(rows, kNan)},
              [&](MathBackend& math, Arrays& in, Arrays& out) {
                math.SumColumns(rows, cols, in[0].data(), out[0].data());
              });
      for (const Write write : {Write::kOverwrite, Write::kAdd}) {
        Compare({Random(rows)}, {Before(rows * cols, write)},
                [&](MathBackend& math, Arrays& in, Arrays& out) {
                  math.SumColumnsBackward(rows, cols, in[0].data(), write,
                                          out[0].data());
                });
        Compare({Random(rows * (cols + 2))}, {Before(rows * (cols + 5), write)},
                [&](MathBackend& math, Arrays& in, Arrays& out) {
                  math.CopyColumns(rows, cols, in[0].data(), cols + 2, write,
                                   out[0].data(), cols + 5);
                });
      }
    }
  }
}

}  // namespace
}  // namespace oarlock::nn
