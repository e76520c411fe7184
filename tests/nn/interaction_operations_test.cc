// The operations of interaction_operations.h on every backend against the
// reference, and what of them the reference cannot vouch for.

#include "nn/interaction_operations.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <vector>

#include "tests/nn/backends/conforming_backends.h"
#include "tests/nn/backends/math_backend_testing.h"

namespace oarlock::nn {
namespace {

constexpr size_t kExamples[] = {0, 1, 3};
constexpr size_t kWidths[] = {1, 4, 7, 10, 16, 33};
constexpr Write kWrites[] = {Write::kOverwrite, Write::kAdd};

class InteractionOperationsTest : public MathBackendTest {};

INSTANTIATE_TEST_SUITE_P(All, InteractionOperationsTest,
                         ::testing::ValuesIn(ConformingBackends()),
                         [](const auto& info) { return info.param; });

TEST_P(InteractionOperationsTest, FieldAware) {
  for (const size_t n : kExamples) {
    for (const size_t width : kWidths) {
      const FieldAwareShape shape = {n, 5, width};
      const size_t size = n * 25 * width;
      const std::vector<float> v = Random(size);
      Compare({v}, {Before(n, Write::kOverwrite)},
              [&](MathBackend& math, Arrays& in, Arrays& out) {
                math.FieldAware(shape, in[0].data(), out[0].data());
              });
      for (const Write write : kWrites) {
        Compare({v, Random(n)}, {Before(size, write)},
                [&](MathBackend& math, Arrays& in, Arrays& out) {
                  math.FieldAwareBackward(shape, in[0].data(), in[1].data(),
                                          write, out[0].data());
                });
      }
    }
  }
}

TEST_P(InteractionOperationsTest, Cross) {
  for (const size_t rows : kExamples) {
    for (const size_t cols : kWidths) {
      for (const size_t z_cols : {size_t{1}, cols}) {
        const CrossShape shape = {rows, cols, z_cols};
        const std::vector<float> a = Random(rows * cols);
        const std::vector<float> z = Random(rows * z_cols);
        Compare({a, z, Random(rows * cols)},
                {Before(rows * cols, Write::kOverwrite)},
                [&](MathBackend& math, Arrays& in, Arrays& out) {
                  math.Cross(shape, in[0].data(), in[1].data(), in[2].data(),
                             out[0].data());
                });
        for (const Write write : kWrites) {
          for (const int wanted : {1, 2, 3}) {
            Compare({a, z, Random(rows * cols)},
                    {Before(rows * cols, write), Before(rows * z_cols, write)},
                    [&](MathBackend& math, Arrays& in, Arrays& out) {
                      math.CrossBackward(
                          shape, in[0].data(), in[1].data(), in[2].data(),
                          {wanted & 1 ? out[0].data() : nullptr, write},
                          {wanted & 2 ? out[1].data() : nullptr, write});
                    });
          }
        }
      }
    }
  }
}

TEST_P(InteractionOperationsTest, OuterProducts) {
  for (const size_t rows : kExamples) {
    for (const size_t a_cols : {1, 5}) {
      for (const size_t b_cols : kWidths) {
        const std::vector<float> a = Random(rows * a_cols);
        const std::vector<float> b = Random(rows * b_cols);
        const size_t size = rows * a_cols * b_cols;
        Compare({a, b}, {Before(size, Write::kOverwrite)},
                [&](MathBackend& math, Arrays& in, Arrays& out) {
                  math.OuterProducts(rows, a_cols, b_cols, in[0].data(),
                                     in[1].data(), out[0].data());
                });
        for (const Write write : kWrites) {
          Compare({a, b, Random(size)},
                  {Before(rows * a_cols, write), Before(rows * b_cols, write)},
                  [&](MathBackend& math, Arrays& in, Arrays& out) {
                    math.OuterProductsBackward(
                        rows, a_cols, b_cols, in[0].data(), in[1].data(),
                        in[2].data(), {out[0].data(), write},
                        {out[1].data(), write});
                  });
        }
      }
    }
  }
}

TEST_P(InteractionOperationsTest, PairwiseDots) {
  for (const size_t n : kExamples) {
    for (const size_t vectors : {2, 9, 27}) {
      for (const size_t width : kWidths) {
        const VectorsShape shape = {n, vectors, width};
        const size_t size = n * vectors * width;
        const size_t pairs = n * vectors * (vectors - 1) / 2;
        const std::vector<float> v = Random(size);
        Compare({v}, {Before(pairs, Write::kOverwrite)},
                [&](MathBackend& math, Arrays& in, Arrays& out) {
                  math.PairwiseDots(shape, in[0].data(), out[0].data());
                });
        for (const Write write : kWrites) {
          Compare({v, Random(pairs)}, {Before(size, write)},
                  [&](MathBackend& math, Arrays& in, Arrays& out) {
                    math.PairwiseDotsBackward(shape, in[0].data(), in[1].data(),
                                              write, out[0].data());
                  });
        }
      }
    }
  }
}

TEST_P(InteractionOperationsTest, Attention) {
  for (const size_t n : kExamples) {
    for (const size_t vectors : {1, 6, 26}) {
      for (const size_t width : {1, 4, 8, 11}) {
        const AttentionShape shape = {n, vectors, 2, width};
        const size_t size = n * vectors * 2 * width;
        const size_t num_weights = n * 2 * vectors * vectors;
        std::vector<float> qkv = Random(3 * size);
        // Scores far apart, too.
        for (float& x : qkv) x *= 4;
        Compare({qkv},
                {Before(num_weights, Write::kOverwrite),
                 Before(size, Write::kOverwrite)},
                [&](MathBackend& math, Arrays& in, Arrays& out) {
                  math.Attention(shape, in[0].data(), out[0].data(),
                                 out[1].data());
                });
        for (const Write write : kWrites) {
          Compare(
              {qkv, Random(size)},
              {Before(num_weights, Write::kOverwrite),
               Before(size, Write::kOverwrite), Before(3 * size, write)},
              [&](MathBackend& math, Arrays& in, Arrays& out) {
                math.Attention(shape, in[0].data(), out[0].data(),
                               out[1].data());
                math.AttentionBackward(shape, in[0].data(), out[0].data(),
                                       in[1].data(), write, out[2].data());
              },
              1e-4f);
        }
      }
    }
  }
}

TEST_P(InteractionOperationsTest, TransposeAndSumRows) {
  for (const size_t n : kExamples) {
    for (const size_t rows : {1, 6}) {
      for (const size_t cols : kWidths) {
        const size_t size = n * rows * cols;
        for (const Write write : kWrites) {
          Compare({Random(size), Random(n * cols)},
                  {Before(size, write), Before(n * cols, Write::kOverwrite),
                   Before(size, write)},
                  [&](MathBackend& math, Arrays& in, Arrays& out) {
                    math.Transpose(n, rows, cols, in[0].data(), write,
                                   out[0].data());
                    math.SumRows(n, rows, cols, in[0].data(), out[1].data());
                    math.SumRowsBackward(n, rows, cols, in[1].data(), write,
                                         out[2].data());
                  });
        }
      }
    }
  }
}

TEST_P(InteractionOperationsTest, ScaleVectors) {
  for (const size_t n : kExamples) {
    for (const size_t width : kWidths) {
      const VectorsShape shape = {n, 3, width};
      const size_t size = n * 3 * width;
      for (const Write write : kWrites) {
        Compare({Random(n * 3), Random(3 * width), Random(size)},
                {Before(size, Write::kOverwrite), Before(n * 3, write),
                 Before(3 * width, write)},
                [&](MathBackend& math, Arrays& in, Arrays& out) {
                  math.ScaleVectors(shape, in[0].data(), in[1].data(),
                                    out[0].data());
                  math.ScaleVectorsBackward(
                      shape, in[0].data(), in[1].data(), in[2].data(),
                      {out[1].data(), write}, {out[2].data(), write});
                });
      }
    }
  }
}

TEST_P(InteractionOperationsTest, Norms) {
  for (const size_t rows : {0, 1, 50}) {
    for (const size_t cols : kWidths) {
      for (const float count : {-1.0f, 0.0f, 12.5f}) {
        std::vector<float> squares = Random(cols);
        Compare({Random(rows * cols)},
                {{count},
                 Random(cols),
                 squares,
                 Before(cols, Write::kOverwrite),
                 Before(cols, Write::kOverwrite),
                 Before(rows * cols, Write::kOverwrite),
                 Random(rows * cols)},
                [&](MathBackend& math, Arrays& in, Arrays& out) {
                  const NormSums sums = {out[0].data(), out[1].data(),
                                         out[2].data()};
                  math.NormMoments(cols, sums, out[3].data(), out[4].data());
                  math.LearnNorm(rows, cols, 0.75f, in[0].data(), sums);
                  math.Standardize(rows, cols, 0.1f, out[3].data(),
                                   out[4].data(), in[0].data(),
                                   Write::kOverwrite, out[5].data());
                  math.Standardize(rows, cols, 0.1f, nullptr, out[4].data(),
                                   in[0].data(), Write::kAdd, out[6].data());
                });
      }
    }
  }
}

// Whatever the sums are, nothing divides by zero.
TEST_P(InteractionOperationsTest, NoSumsMakeANormInfinite) {
  for (const float count : {-5.0f, 0.0f, 1e-30f, 1e4f}) {
    for (const float squares : {-7.0f, 0.0f, 3.0f}) {
      Array x(math_.get(), {1, -2});
      Array sums(math_.get(), {count, 0.5f, squares});
      Array out(math_.get(), {kNan, kNan, kNan, kNan});
      const NormSums norm = {sums.data(), sums.data() + 1, sums.data() + 2};
      math_->NormMoments(1, norm, out.data(), out.data() + 1);
      math_->Standardize(2, 1, 1e-5f, out.data(), out.data() + 1, x.data(),
                         Write::kOverwrite, out.data() + 2);
      const std::vector<float> y = out.Read();
      EXPECT_GE(y[1], 0) << count << " " << squares;
      EXPECT_FALSE(std::isnan(y[2]) || std::isnan(y[3]))
          << count << " " << squares;
    }
  }
}

}  // namespace
}  // namespace oarlock::nn
