#include "nn/onednn/onednn_backend.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <filesystem>
#include <iterator>
#include <memory>
#include <thread>
#include <vector>

namespace oarlock::nn {
namespace {

size_t CountThreads() {
  return static_cast<size_t>(std::distance(
      std::filesystem::directory_iterator("/proc/self/task"), {}));
}

// c = a a with a [n, n], in the calling thread.
std::vector<float> Square(size_t n) {
  const std::unique_ptr<MathBackend> math = NewOneDnnBackend();
  std::vector<float> a(n * n), c(n * n);
  for (size_t i = 0; i < a.size(); ++i) {
    a[i] = static_cast<float>(i * 2654435761u % 1000) * 1e-3f;
  }
  math->MatMul(n, n, n, {a.data(), n}, {a.data(), n}, Write::kOverwrite,
               c.data(), n);
  return c;
}

constexpr size_t kLarge = 300;  // large enough for oneDNN to share the work

TEST(OneDnnBackendTest, ProductStartsNoThread) {
  size_t before = 0;
  size_t after = 0;
  std::thread([&] {
    before = CountThreads();
    Square(kLarge);
    after = CountThreads();
  }).join();
  EXPECT_EQ(after, before);
}

TEST(OneDnnBackendTest, Bfloat16ProductStartsNoThread) {
  if (!NewOneDnnBfloat16Backend().ok()) GTEST_SKIP() << "this CPU cannot";
  size_t before = 0;
  size_t after = 0;
  std::thread([&] {
    before = CountThreads();
    const auto math = *NewOneDnnBfloat16Backend();
    std::vector<float> a(kLarge * kLarge, 1), c(kLarge * kLarge);
    math->MatMul(kLarge, kLarge, kLarge, {a.data(), kLarge}, {a.data(), kLarge},
                 Write::kOverwrite, c.data(), kLarge);
    after = CountThreads();
    EXPECT_EQ(c[0], static_cast<float>(kLarge));
  }).join();
  EXPECT_EQ(after, before);
}

TEST(OneDnnBackendTest, ConvolutionStartsNoThread) {
  size_t before = 0;
  size_t after = 0;
  std::thread([&] {
    before = CountThreads();
    const std::unique_ptr<MathBackend> math = NewOneDnnBackend();
    ConvolutionArgs args;
    args.images = 4;
    args.shape = {{32, 32}, 16, 32, SquareWindow(3, 1, 1)};
    std::vector<float> x(4 * args.shape.input_size(), 1);
    std::vector<float> weight(args.shape.weight_size(), 1);
    std::vector<float> y(4 * args.shape.output_size());
    args.x = x.data();
    args.weight = weight.data();
    math->Convolution(args, y.data());
    after = CountThreads();
    EXPECT_EQ(y[33 * 32], 9.0f * 16);  // row 1, column 1
  }).join();
  EXPECT_EQ(after, before);
}

TEST(OneDnnBackendTest, ResultDoesNotDependOnThreadsBeside) {
  const std::vector<float> alone = Square(kLarge);
  constexpr size_t kThreads = 4;
  std::vector<std::vector<float>> results(kThreads);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] { results[t] = Square(kLarge); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::vector<float>& result : results) EXPECT_EQ(result, alone);
}

}  // namespace
}  // namespace oarlock::nn
