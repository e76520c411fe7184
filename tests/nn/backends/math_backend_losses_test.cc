// Of math backends: sums over bags of rows, second-order terms, losses.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "nn/backends/backends.h"
#include "nn/cuda/gpu.h"
#include "tests/nn/backends/conforming_backends.h"
#include "tests/nn/backends/math_backend_testing.h"

namespace oarlock::nn {
namespace {

INSTANTIATE_TEST_SUITE_P(All, MathBackendTest,
                         ::testing::ValuesIn(ConformingBackends()),
                         [](const auto& info) { return info.param; });

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
  bags.num_keys = 3;
  bags.num_rows = 2;
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
            mapped.num_keys = row_of_key.size();
            mapped.num_rows = kNumRows;
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

TEST_P(MathBackendTest, RowsAreMissedOrCached) {
  constexpr uint32_t kNone = CachedRows::kNone;
  Array missed(math_.get(), {1, 2, 3, 4, 5, 6});
  Array entries(math_.get(), {10, 20, 30, 40, kNan, kNan});
  // Cached; missed, and cached from now on; missed alone; missed in the place
  // of another.
  Indices miss_of_row(math_.get(), {kNone, 1, 0, 2});
  Indices entry_of_row(math_.get(), {1, 2, kNone, 0});
  Array rows(math_.get(), std::vector<float>(8, kNan));
  math_->GatherRows({.num_rows = 4,
                     .row_dim = 2,
                     .miss_of_row = miss_of_row.data(),
                     .entry_of_row = entry_of_row.data()},
                    missed.data(), entries.data(), rows.data());
  EXPECT_EQ(rows.Read(), (std::vector<float>{30, 40, 3, 4, 1, 2, 5, 6}));
  EXPECT_EQ(entries.Read(), (std::vector<float>{5, 6, 30, 40, 3, 4}));
}

TEST_P(MathBackendTest, RowsOfAllWidthsAreGathered) {
  for (const size_t num_rows : {0, 1, 100, 700}) {
    for (const size_t row_dim : {1, 3, 16, 33}) {
      constexpr size_t kCacheRows = 50;
      std::vector<uint32_t> miss_of_row, entry_of_row;
      std::vector<uint32_t> free_entries;
      for (uint32_t s = 0; s < kCacheRows; ++s) free_entries.push_back(s);
      uint32_t num_missed = 0;
      for (size_t r = 0; r < num_rows; ++r) {
        uint32_t entry = CachedRows::kNone;
        if (!free_entries.empty() && random_.Below(2) == 0) {
          const size_t at = random_.Below(free_entries.size());
          entry = free_entries[at];
          free_entries.erase(free_entries.begin() + static_cast<ptrdiff_t>(at));
        }
        entry_of_row.push_back(entry);
        const bool is_cached =
            entry != CachedRows::kNone && random_.Below(2) == 0;
        miss_of_row.push_back(is_cached ? CachedRows::kNone : num_missed++);
      }
      Compare({Random(num_missed * row_dim)},
              {std::vector<float>(num_rows * row_dim, kNan),
               Random(kCacheRows * row_dim)},
              [&](MathBackend& math, Arrays& in, Arrays& out) {
                Indices missed(&math, miss_of_row),
                    entries(&math, entry_of_row);
                math.GatherRows({.num_rows = num_rows,
                                 .row_dim = row_dim,
                                 .miss_of_row = missed.data(),
                                 .entry_of_row = entries.data()},
                                in[0].data(), out[1].data(), out[0].data());
              });
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
  double loss = 0;
  math_->SoftmaxCrossEntropy(2, 2, logits.data(), labels.data(), p.data(),
                             &loss);
  math_->Finish();
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
  double loss = 0;
  math_->SoftmaxCrossEntropy(2, 2, logits.data(), labels.data(), p.data(),
                             &loss);
  math_->Finish();
  EXPECT_DOUBLE_EQ(loss, 6e4);
  EXPECT_EQ(p.Read(), (std::vector<float>{1, 0, 0, 1}));
  Array targets(math_.get(), {1, 1, 0, 0});
  // It is added.
  math_->SigmoidCrossEntropy(4, logits.data(), targets.data(), p.data(), &loss);
  math_->Finish();
  EXPECT_DOUBLE_EQ(loss, 12e4);
  EXPECT_EQ(p.Read(), (std::vector<float>{1, 0, 0, 1}));
}

TEST_P(MathBackendTest, SmallLossesKeepTheirRelativePrecision) {
  Array logit(math_.get(), {16});
  Array label(math_.get(), {1});
  Array p(math_.get(), {kNan});
  double loss = 0;
  math_->SigmoidCrossEntropy(1, logit.data(), label.data(), p.data(), &loss);
  math_->Finish();
  EXPECT_NEAR(loss / std::log1p(std::exp(-16.0)), 1, 1e-5);
}

TEST_P(MathBackendTest, LossesOfAllShapes) {
  for (size_t rows : kRows) {
    for (size_t classes : {2, 3, 10}) {
      std::vector<float> logits = Random(rows * classes), labels(rows);
      for (float& x : logits) x *= 10;
      for (float& x : labels) x = static_cast<float>(random_.Below(classes));
      double losses[2] = {0, 0};
      int run = 0;
      Compare({logits, labels}, {std::vector<float>(rows * classes, kNan)},
              [&](MathBackend& math, Arrays& in, Arrays& out) {
                math.SoftmaxCrossEntropy(rows, classes, in[0].data(),
                                         in[1].data(), out[0].data(),
                                         &losses[run++]);
                math.Finish();
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
    double losses[2] = {0, 0};
    int run = 0;
    Compare({logits, labels}, {std::vector<float>(rows, kNan)},
            [&](MathBackend& math, Arrays& in, Arrays& out) {
              math.SigmoidCrossEntropy(rows, in[0].data(), in[1].data(),
                                       out[0].data(), &losses[run++]);
              math.Finish();
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
  // A program of its own: what CUDA has begun does not survive a fork.
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  Array logits(math_.get(), {0, 0});
  Array p(math_.get(), {0, 0});
  for (const float label : {2.0f, -1.0f, kNan}) {
    Array labels(math_.get(), {label});
    const auto run = [&] {
      double loss = 0;
      math_->SoftmaxCrossEntropy(1, 2, logits.data(), labels.data(), p.data(),
                                 &loss);
      math_->Finish();
    };
    EXPECT_DEATH(run(), "labels");
  }
}

TEST(BackendsTest, UnknownNameIsRefusedWithTheLegalOnes) {
  const auto math = NewMathBackend("cublas");
  ASSERT_EQ(math.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(math.status().message().find("onednn"), std::string::npos);
}

TEST(BackendsTest, NamesOfGpusHaveANumber) {
  for (const char* name : {"cuda", "cuda:", "cuda:x", "cuda_fp8:0", "gpu:0"}) {
    EXPECT_EQ(NewMathBackend(name).status().code(),
              absl::StatusCode::kInvalidArgument)
        << name;
  }
}

TEST(BackendsTest, AGpuThatIsNotThereIsNoBackend) {
  for (const char* name :
       {"cuda:1024", "cuda_tf32:1024", "cuda_bfloat16:1024"}) {
    EXPECT_EQ(NewMathBackend(name).status().code(),
              absl::StatusCode::kFailedPrecondition)
        << name;
  }
}

TEST(BackendsTest, GpusThatAreThereAreBackends) {
  const cuda::Gpus gpus = cuda::FindGpus();
  if (gpus.count == 0) GTEST_SKIP() << "no GPU: " << gpus.why_none;
  for (const char* name : {"cuda:0", "cuda_tf32:0", "cuda_bfloat16:0"}) {
    const auto math = NewMathBackend(name);
    ASSERT_TRUE(math.ok()) << math.status();
    EXPECT_FALSE((*math)->uses_host_memory());
  }
}

}  // namespace
}  // namespace oarlock::nn
