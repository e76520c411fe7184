// One suite for all backends: random arguments of odd shapes against the
// reference, and small cases computed by hand for all, the reference too.

#include "worker/nn/math_backend.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "tests/worker/nn/available_backends.h"
#include "worker/nn/backends.h"
#include "worker/nn/reference_backend.h"

namespace oarlock {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
// Floats behind each output that nobody may write.
constexpr size_t kGuard = 8;
constexpr float kGuardValue = 12345;

// An array in a backend's memory.
class Array {
 public:
  Array(MathBackend* math, const std::vector<float>& values)
      : math_(math),
        size_(values.size()),
        memory_(math, (size_ + kGuard) * sizeof(float)) {
    std::vector<float> all = values;
    all.resize(size_ + kGuard, kGuardValue);
    math->CopyIn(all.data(), all.size() * sizeof(float), memory_.data());
  }
  float* data() { return memory_.floats(); }
  std::vector<float> Read() const {
    std::vector<float> all(size_ + kGuard);
    math_->CopyOut(memory_.data(), all.size() * sizeof(float), all.data());
    for (size_t i = size_; i < all.size(); ++i) {
      EXPECT_EQ(all[i], kGuardValue) << "written " << i - size_ << " behind";
    }
    all.resize(size_);
    return all;
  }

 private:
  MathBackend* math_;
  size_t size_;
  BackendArray memory_;
};

class Indices {
 public:
  Indices(MathBackend* math, const std::vector<uint32_t>& values)
      : memory_(math, values.size() * sizeof(uint32_t)) {
    math->CopyIn(values.data(), values.size() * sizeof(uint32_t),
                 memory_.data());
  }
  const uint32_t* data() const {
    return static_cast<const uint32_t*>(memory_.data());
  }

 private:
  BackendArray memory_;
};

class MathBackendTest : public ::testing::TestWithParam<std::string> {
 protected:
  MathBackendTest()
      : math_(*NewMathBackend(GetParam())), oracle_(NewReferenceBackend()) {}

  std::vector<float> Random(size_t size) {
    std::vector<float> v(size);
    for (float& x : v) x = 2 * static_cast<float>(random_.Uniform()) - 1;
    return v;
  }
  // Numbers that bfloat16 represents.
  std::vector<float> RandomBfloat16(size_t size) {
    std::vector<float> v = Random(size);
    for (float& x : v) {
      x = std::bit_cast<float>(std::bit_cast<uint32_t>(x) & 0xffff0000u);
    }
    return v;
  }
  // Of a sum of k products of operands of at most 1, which a backend may have
  // rounded to bfloat16, each by at most 2^-9 of itself. What is left when the
  // operands need no rounding is that of float32.
  float ProductTolerance(size_t k, bool exact_operands) const {
    constexpr float kFloat32 = 2e-5f;
    if (exact_operands || GetParam() != "onednn_bfloat16") return kFloat32;
    return kFloat32 + std::ldexp(static_cast<float>(k), -8);
  }
  // What an output holds before: poison if it is to be overwritten.
  std::vector<float> Before(size_t size, Write write) {
    return write == Write::kAdd ? Random(size) : std::vector<float>(size, kNan);
  }
  // Runs `call(backend, inputs, outputs)` on both backends with the same
  // arrays and compares all outputs.
  template <typename Call>
  void Compare(const std::vector<std::vector<float>>& inputs,
               const std::vector<std::vector<float>>& outputs, Call call,
               float tolerance = 2e-5f) {
    std::vector<std::vector<float>> results[2];
    MathBackend* backends[2] = {oracle_.get(), math_.get()};
    for (int b = 0; b < 2; ++b) {
      std::vector<Array> in, out;
      for (const auto& v : inputs) in.emplace_back(backends[b], v);
      for (const auto& v : outputs) out.emplace_back(backends[b], v);
      call(*backends[b], in, out);
      for (const Array& array : out) results[b].push_back(array.Read());
    }
    for (size_t i = 0; i < outputs.size(); ++i) {
      for (size_t j = 0; j < outputs[i].size(); ++j) {
        const float expected = results[0][i][j];
        const float actual = results[1][i][j];
        if (std::isnan(expected) && std::isnan(actual)) continue;
        ASSERT_LE(std::abs(expected - actual),
                  tolerance * (1 + std::abs(expected)))
            << "output " << i << " [" << j << "], seed " << kSeed;
      }
    }
  }

  static constexpr uint64_t kSeed = 20240607;
  RandomSequence random_{kSeed};
  std::unique_ptr<MathBackend> math_;
  std::unique_ptr<MathBackend> oracle_;
};

INSTANTIATE_TEST_SUITE_P(All, MathBackendTest,
                         ::testing::ValuesIn(AvailableBackends()),
                         [](const auto& info) { return info.param; });

using Arrays = std::vector<Array>;

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

constexpr size_t kRows[] = {0, 1, 3, 50};
constexpr size_t kCols[] = {1, 2, 10, 13, 37, 400};

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

TEST_P(MathBackendTest, BagsOfHandComputedRows) {
  Array rows(math_.get(), {1, 2, 3, 10, 20, 30});  // two rows of three
  Indices row_of_key(math_.get(), {1, 0, 1});
  Indices offsets(math_.get(), {0, 2, 2, 3});
  RowBags bags = {.num_examples = 1,
                  .num_slots = 3,
                  .row_dim = 3,
                  .column_begin = 1,
                  .width = 2};
  bags.row_of_key = row_of_key.data();
  bags.offsets = offsets.data();
  Array out(math_.get(), std::vector<float>(6, kNan));
  math_->SumBags(bags, rows.data(), out.data());
  EXPECT_EQ(out.Read(), (std::vector<float>{22, 33, 0, 0, 20, 30}));
  Array dout(math_.get(), {1, 2, 3, 4, 5, 6});
  Array drows(math_.get(), {0, 0, 0, 100, 100, 100});
  math_->SumBagsBackward(bags, dout.data(), drows.data());
  EXPECT_EQ(drows.Read(), (std::vector<float>{0, 1, 2, 100, 106, 108}));
}

TEST_P(MathBackendTest, BagsOfAllWidths) {
  constexpr size_t kNumRows = 11;
  for (size_t examples : {0, 1, 20}) {
    for (size_t width : {1, 2, 8, 10, 16, 33}) {
      for (const bool several : {false, true}) {
        RowBags bags = {.num_examples = examples,
                        .num_slots = 3,
                        .row_dim = width + 2,
                        .column_begin = 1,
                        .width = width};
        std::vector<uint32_t> row_of_key, offsets = {0};
        for (size_t bag = 0; bag < examples * 3; ++bag) {
          const size_t num_keys = several ? random_.Below(4) : 1;
          for (size_t key = 0; key < num_keys; ++key) {
            row_of_key.push_back(
                static_cast<uint32_t>(random_.Below(kNumRows)));
          }
          offsets.push_back(static_cast<uint32_t>(row_of_key.size()));
        }
        bags.out_stride = width % 2 == 0 ? 0 : 3 * width + 5;
        const size_t out_size = examples * bags.ExampleStride();
        const size_t rows_size = kNumRows * bags.row_dim;
        const auto run = [&](auto call) {
          return [&, call](MathBackend& math, Arrays& in, Arrays& out) {
            Indices keys(&math, row_of_key), ends(&math, offsets);
            RowBags mapped = bags;
            mapped.row_of_key = keys.data();
            mapped.offsets = several ? ends.data() : nullptr;
            call(math, mapped, in[0].data(), out[0].data());
          };
        };
        Compare({Random(rows_size)}, {Random(out_size)},
                run([](MathBackend& math, const RowBags& b, float* in,
                       float* out) { math.SumBags(b, in, out); }));
        Compare({Random(out_size)}, {Random(rows_size)},
                run([](MathBackend& math, const RowBags& b, float* in,
                       float* out) { math.SumBagsBackward(b, in, out); }));
      }
    }
  }
}

TEST_P(MathBackendTest, SecondOrderIsTheSumOfInnerProductsOfPairs) {
  Array v(math_.get(), {1, 2, 3, 4, 5, 6});  // three vectors of two
  Array sums(math_.get(), std::vector<float>(2, kNan));
  Array y(math_.get(), {kNan});
  const FmShape shape = {1, 3, 2};
  math_->FmSecondOrder(shape, v.data(), sums.data(), y.data());
  EXPECT_EQ(y.Read(), (std::vector<float>{11 + 17 + 39}));
  EXPECT_EQ(sums.Read(), (std::vector<float>{9, 12}));
  Array dy(math_.get(), {2});
  Array dv(math_.get(), std::vector<float>(6, kNan));
  math_->FmSecondOrderBackward(shape, v.data(), sums.data(), dy.data(),
                               Write::kOverwrite, dv.data());
  EXPECT_EQ(dv.Read(), (std::vector<float>{16, 20, 12, 16, 8, 12}));
}

TEST_P(MathBackendTest, SecondOrderOfAllShapes) {
  for (size_t examples : {0, 1, 9}) {
    for (size_t vectors : {1, 2, 26}) {
      for (size_t width : {1, 3, 8, 10, 21}) {
        const FmShape shape = {examples, vectors, width};
        const size_t size = examples * vectors * width;
        Compare({Random(size)},
                {std::vector<float>(examples * width, kNan),
                 std::vector<float>(examples, kNan)},
                [&](MathBackend& math, Arrays& in, Arrays& out) {
                  math.FmSecondOrder(shape, in[0].data(), out[0].data(),
                                     out[1].data());
                });
        for (const Write write : {Write::kOverwrite, Write::kAdd}) {
          Compare({Random(size), Random(examples * width), Random(examples)},
                  {Before(size, write)},
                  [&](MathBackend& math, Arrays& in, Arrays& out) {
                    math.FmSecondOrderBackward(shape, in[0].data(),
                                               in[1].data(), in[2].data(),
                                               write, out[0].data());
                  });
        }
      }
    }
  }
}

TEST_P(MathBackendTest, SoftmaxLossOfHandComputedLogits) {
  // exp: 1, 3 and 1, 1.
  Array logits(math_.get(), {0, std::log(3.0f), -2, -2});
  Array labels(math_.get(), {1, 0});
  Array p(math_.get(), std::vector<float>(4, kNan));
  const double loss =
      math_->SoftmaxCrossEntropy(2, 2, logits.data(), labels.data(), p.data());
  EXPECT_NEAR(loss, -std::log(0.75) + std::log(2.0), 1e-6);
  EXPECT_NEAR(p.Read()[1], 0.75, 1e-6);
  Array d(math_.get(), std::vector<float>(4, kNan));
  math_->SoftmaxCrossEntropyBackward(2, 2, p.data(), labels.data(), 2,
                                     Write::kOverwrite, d.data());
  const std::vector<float> expected = {0.5, -0.5, -1, 1};
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(d.Read()[i], expected[i], 1e-6);
}

TEST_P(MathBackendTest, LossesStayFiniteAndExactForHugeLogits) {
  Array logits(math_.get(), {3e4f, -3e4f, -3e4f, 3e4f});
  Array labels(math_.get(), {1, 1});
  Array p(math_.get(), std::vector<float>(4, kNan));
  EXPECT_DOUBLE_EQ(
      math_->SoftmaxCrossEntropy(2, 2, logits.data(), labels.data(), p.data()),
      6e4);
  EXPECT_EQ(p.Read(), (std::vector<float>{1, 0, 0, 1}));
  Array targets(math_.get(), {1, 1, 0, 0});
  EXPECT_DOUBLE_EQ(
      math_->SigmoidCrossEntropy(4, logits.data(), targets.data(), p.data()),
      6e4);
  EXPECT_EQ(p.Read(), (std::vector<float>{1, 0, 0, 1}));
}

TEST_P(MathBackendTest, SmallLossesKeepTheirRelativePrecision) {
  Array logit(math_.get(), {16});
  Array label(math_.get(), {1});
  Array p(math_.get(), {kNan});
  const double loss =
      math_->SigmoidCrossEntropy(1, logit.data(), label.data(), p.data());
  EXPECT_NEAR(loss / std::log1p(std::exp(-16.0)), 1, 1e-5);
}

TEST_P(MathBackendTest, LossesOfAllShapes) {
  for (size_t rows : kRows) {
    for (size_t classes : {2, 3, 10}) {
      std::vector<float> logits = Random(rows * classes), labels(rows);
      for (float& x : logits) x *= 10;
      for (float& x : labels) x = static_cast<float>(random_.Below(classes));
      double losses[2];
      int run = 0;
      Compare({logits, labels}, {std::vector<float>(rows * classes, kNan)},
              [&](MathBackend& math, Arrays& in, Arrays& out) {
                losses[run++] = math.SoftmaxCrossEntropy(
                    rows, classes, in[0].data(), in[1].data(), out[0].data());
              });
      EXPECT_NEAR(losses[0], losses[1], 1e-5 * (1 + losses[0]));
      for (const Write write : {Write::kOverwrite, Write::kAdd}) {
        Compare({Random(rows * classes), labels},
                {Before(rows * classes, write)},
                [&](MathBackend& math, Arrays& in, Arrays& out) {
                  math.SoftmaxCrossEntropyBackward(rows, classes, in[0].data(),
                                                   in[1].data(), 0.3f, write,
                                                   out[0].data());
                });
      }
    }
    std::vector<float> logits = Random(rows), labels = Random(rows);
    for (float& x : logits) x *= 10;
    for (float& x : labels) x = std::abs(x);
    double losses[2];
    int run = 0;
    Compare({logits, labels}, {std::vector<float>(rows, kNan)},
            [&](MathBackend& math, Arrays& in, Arrays& out) {
              losses[run++] = math.SigmoidCrossEntropy(
                  rows, in[0].data(), in[1].data(), out[0].data());
            });
    EXPECT_NEAR(losses[0], losses[1], 1e-5 * (1 + losses[0]));
    for (const Write write : {Write::kOverwrite, Write::kAdd}) {
      Compare({Random(rows), labels}, {Before(rows, write)},
              [&](MathBackend& math, Arrays& in, Arrays& out) {
                math.SigmoidCrossEntropyBackward(rows, in[0].data(),
                                                 in[1].data(), 0.3f, write,
                                                 out[0].data());
              });
    }
  }
}

TEST_P(MathBackendTest, LabelBeyondTheClassesCrashes) {
  Array logits(math_.get(), {0, 0});
  Array p(math_.get(), {0, 0});
  for (const float label : {2.0f, -1.0f, kNan}) {
    Array labels(math_.get(), {label});
    EXPECT_DEATH(math_->SoftmaxCrossEntropy(1, 2, logits.data(), labels.data(),
                                            p.data()),
                 "labels");
  }
}

TEST(BackendsTest, UnknownNameIsRefusedWithTheLegalOnes) {
  const auto math = NewMathBackend("cublas");
  ASSERT_EQ(math.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(math.status().message().find("onednn"), std::string::npos);
}

}  // namespace
}  // namespace oarlock
