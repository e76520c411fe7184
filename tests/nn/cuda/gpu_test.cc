// A GPU itself. Skipped where there is none; the conformance suite of math
// backends runs on it too (../math_backend_test).

#include "nn/cuda/gpu.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/random.h"
#include "nn/backends/backends.h"
#include "nn/cuda/cuda_backend.h"

namespace oarlock::nn::cuda {
namespace {

constexpr uint64_t kSeed = 7;

// Of a large product or convolution, as a share of its norm. tf32 keeps 10 bits
// of an operand, and how is the library's choice: some GPUs cut the others off,
// the plain loop rounds to the nearest even (7.7e-4 from that, and as much from
// float32), and a kernel of float32 alone is legal too (2.6e-4 from the loop).
double ToleranceOf(Numbers numbers) {
  return numbers == Numbers::kTf32 ? 2e-3 : 1e-5;
}

class GpuTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const Gpus gpus = FindGpus();
    if (gpus.count == 0) GTEST_SKIP() << "no GPU: " << gpus.why_none;
    device_ = *OpenGpu(0);
  }
  std::vector<float> Random(size_t size) {
    std::vector<float> values(size);
    for (float& x : values) x = 2 * static_cast<float>(random_.Uniform()) - 1;
    return values;
  }

  RandomSequence random_{kSeed};
  std::unique_ptr<Device> device_;
};

TEST(GpusTest, WithoutAGpuThereIsAReasonAndNoneCanBeOpened) {
  const Gpus gpus = FindGpus();
  EXPECT_EQ(gpus.count == 0, !gpus.why_none.empty());
  const auto device = OpenGpu(gpus.count);
  ASSERT_EQ(device.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(device.status().message().find(gpus.why_none), std::string::npos);
  if (gpus.count == 0) {
    RecordProperty("gpu", "none: " + gpus.why_none);
    GTEST_SKIP() << "no GPU: " << gpus.why_none;
  }
}

TEST_F(GpuTest, SaysWhichGpuOfTheMachineItIs) {
  const std::optional<GpuId> id = device_->gpu_id();
  ASSERT_TRUE(id.has_value());
  EXPECT_EQ(id->index, 0);
  // "0000:1B:00.0": domain, bus, device, function.
  EXPECT_EQ(std::count(id->pci_bus_id.begin(), id->pci_bus_id.end(), ':'), 2)
      << id->pci_bus_id;
}

// Without a GPU too: the library and all that is used of it are there, or the
// reason says what is not.
TEST(GpusTest, CudnnIsFoundOrThereIsAReason) {
  const absl::StatusOr<std::string> version = FindCudnn();
  const std::string found =
      version.ok() ? "cuDNN " + *version
                   : "patches: " + std::string(version.status().message());
  std::printf("convolutions by %s\n", found.c_str());
  RecordProperty("convolutions", found);
  if (!version.ok()) {
    EXPECT_EQ(version.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_FALSE(version.status().message().empty());
  }
}

TEST_F(GpuTest, OutOfMemorySaysWhatWasAskedForAndWhatIsFree) {
  // A program of its own: what CUDA has begun does not survive a fork.
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto ask = [] {
    auto device = OpenGpu(0);
    (*device)->Allocate(size_t{1} << 50);
  };
  EXPECT_EXIT(ask(), ::testing::ExitedWithCode(1),
              "not enough memory: 1073741824.0 MiB were asked for, .* MiB of "
              ".* MiB are free");
}

// Large products, against the plain loop on the same GPU.
TEST_F(GpuTest, CublasMultipliesAsThePlainLoopDoes) {
  constexpr size_t kM = 513, kN = 400, kK = 273;
  const std::vector<float> a = Random(kM * kK), b = Random(kK * kN),
                           bias = Random(kM);
  auto* const da = static_cast<float*>(device_->Allocate(a.size() * 4));
  auto* const db = static_cast<float*>(device_->Allocate(b.size() * 4));
  auto* const dbias = static_cast<float*>(device_->Allocate(kM * 4));
  auto* const c = static_cast<float*>(device_->Allocate(2 * kM * kN * 4));
  device_->CopyIn(a.data(), a.size() * 4, da);
  device_->CopyIn(b.data(), b.size() * 4, db);
  device_->CopyIn(bias.data(), kM * 4, dbias);
  for (const Numbers numbers : {Numbers::kFloat32, Numbers::kTf32}) {
    Product product;
    product.numbers = numbers;
    product.m = kM;
    product.n = kN;
    product.k = kK;
    product.a = {da, kM, false};
    product.b = {db, kK, false};
    product.bias = dbias;
    product.activation = Activation::kRelu;
    product.c = c;
    product.c_stride = kM;
    device_->Run(ForEach<FillBody>{{2 * kM * kN, std::nanf(""), c}});
    device_->Multiply(product);
    product.c = c + kM * kN;
    device_->Run(ForEach<PlainProductBody>{{kM * kN, product}});
    std::vector<float> got(2 * kM * kN);
    device_->CopyOutLater(c, got.size() * 4, got.data());
    device_->Finish();
    double error = 0, norm = 0;
    for (size_t i = 0; i < kM * kN; ++i) {
      const double d = got[i] - got[i + kM * kN];
      error += d * d;
      norm += double{got[i + kM * kN]} * got[i + kM * kN];
    }
    EXPECT_LT(std::sqrt(error / norm), ToleranceOf(numbers));
  }
  for (void* memory : {da, db, dbias, c}) device_->Free(memory);
}

constexpr ConvolutionShape kLargeConvolution = {
    {28, 30}, 64, 96, {{3, 3}, {2, 2}, {1, 1}}};
constexpr size_t kImages = 16;

// All kinds of passes, of a shape as networks have them. cuDNN may have no
// algorithm that repeats for some, which then go by patches: no result shows
// it, so that it is said here. A forward pass has repeated in every cuDNN.
TEST_F(GpuTest, CudnnConvolvesWhereItIsFound) {
  const bool found = FindCudnn().ok();
  int num_convolved = 0, num_forward = 0;
  ConvolutionPass pass;
  pass.images = kImages;
  pass.shape = kLargeConvolution;
  const size_t x_size = kImages * pass.shape.input_size();
  const size_t y_size = kImages * pass.shape.output_size();
  const size_t size = x_size + pass.shape.weight_size() + y_size;
  auto* const x = static_cast<float*>(device_->Allocate(size * sizeof(float)));
  auto* const y = x + x_size;
  auto* const weight = y + y_size;
  device_->Run(ForEach<FillBody>{{size, 1, x}});
  DeviceBuffer workspace(device_.get());
  for (const Numbers numbers : {Numbers::kFloat32, Numbers::kTf32}) {
    for (const auto kind : {ConvolutionPass::Kind::kForward,
                            ConvolutionPass::Kind::kWeightGradient,
                            ConvolutionPass::Kind::kInputGradient}) {
      pass.numbers = numbers;
      pass.kind = kind;
      pass.x = x;
      pass.weight = weight;
      pass.dy = y;
      if (kind == ConvolutionPass::Kind::kForward) {
        pass.dy = nullptr;
        pass.result = y;
      } else if (kind == ConvolutionPass::Kind::kWeightGradient) {
        pass.weight = nullptr;
        pass.result = weight;
      } else {
        pass.x = nullptr;
        pass.result = x;
      }
      const std::optional<size_t> num_bytes =
          device_->ConvolutionWorkspace(pass);
      pass.workspace_bytes = num_bytes.value_or(0);
      pass.workspace = workspace.Get<char>(pass.workspace_bytes);
      if (num_bytes.has_value() && device_->Convolve(pass)) {
        ++num_convolved;
        num_forward += kind == ConvolutionPass::Kind::kForward;
      } else {
        std::printf("by patches: numbers %d, kind %d\n",
                    static_cast<int>(numbers), static_cast<int>(kind));
      }
    }
  }
  device_->Free(x);
  if (!found) {
    EXPECT_EQ(num_convolved, 0);
  } else {
    EXPECT_GT(num_forward, 0);
  }
}

// y, dweight and dx of a convolution of random numbers.
std::vector<std::vector<float>> Convolved(MathBackend* math,
                                          const std::vector<float>& x,
                                          const std::vector<float>& weight,
                                          const std::vector<float>& dy) {
  const auto array = [&](const std::vector<float>& values) {
    BackendArray memory(math, values.size() * sizeof(float));
    math->CopyIn(values.data(), values.size() * sizeof(float), memory.data());
    return memory;
  };
  const BackendArray in = array(x), w = array(weight), dout = array(dy);
  const BackendArray y = array(dy), dw = array(weight), dx = array(x);
  BackendArray scratch(
      math, (math->ConvolutionScratch(kImages, kLargeConvolution) + 1) *
                sizeof(float));
  ConvolutionArgs args;
  args.images = kImages;
  args.shape = kLargeConvolution;
  args.x = in.floats();
  args.weight = w.floats();
  args.scratch = scratch.floats();
  math->Convolution(args, y.floats());
  ConvolutionGradients gradients;
  gradients.dy = dout.floats();
  gradients.dweight = dw.floats();
  gradients.dx = dx.floats();
  math->ConvolutionBackward(args, y.floats(), gradients);
  std::vector<std::vector<float>> results = {dy, weight, x};
  const BackendArray* const memory[] = {&y, &dw, &dx};
  for (size_t i = 0; i < results.size(); ++i) {
    math->CopyOut(memory[i]->data(), results[i].size() * sizeof(float),
                  results[i].data());
  }
  return results;
}

TEST_F(GpuTest, LargeConvolutionsAreThoseOfTheCpuAndRepeatBitForBit) {
  const std::vector<float> x = Random(kImages * kLargeConvolution.input_size());
  const std::vector<float> weight = Random(kLargeConvolution.weight_size());
  const std::vector<float> dy =
      Random(kImages * kLargeConvolution.output_size());
  const auto expected =
      Convolved(NewMathBackend("onednn")->get(), x, weight, dy);
  for (const Numbers numbers : {Numbers::kFloat32, Numbers::kTf32}) {
    const auto math = NewCudaBackend(*OpenGpu(0), {numbers});
    const auto got = Convolved(math.get(), x, weight, dy);
    for (size_t i = 0; i < got.size(); ++i) {
      double error = 0, norm = 0;
      for (size_t j = 0; j < got[i].size(); ++j) {
        const double d = got[i][j] - expected[i][j];
        error += d * d;
        norm += double{expected[i][j]} * expected[i][j];
      }
      EXPECT_LT(std::sqrt(error / norm), ToleranceOf(numbers))
          << "result " << i;
    }
    // Another device has another cuDNN, which has to choose the same.
    const auto other = NewCudaBackend(*OpenGpu(0), {numbers});
    EXPECT_EQ(Convolved(math.get(), x, weight, dy), got);
    EXPECT_EQ(Convolved(other.get(), x, weight, dy), got);
  }
}

// Two executors in two threads: each has streams and memory of its own.
TEST_F(GpuTest, TwoDevicesOnOneGpuDoNotDisturbEachOther) {
  const auto work = [](float value, bool* right) {
    auto math = NewCudaBackend(*OpenGpu(0), {});
    constexpr size_t kSize = 100000;
    BackendArray array(math.get(), kSize * 4);
    std::vector<float> host(kSize);
    *right = true;
    for (int round = 1; round <= 50; ++round) {
      math->Fill(kSize, value * round, array.floats());
      math->CopyOut(array.data(), kSize * 4, host.data());
      for (const float x : host) *right = *right && x == value * round;
    }
  };
  bool right[2];
  std::thread other(work, 2.0f, &right[1]);
  work(1.0f, &right[0]);
  other.join();
  EXPECT_TRUE(right[0] && right[1]);
}

}  // namespace
}  // namespace oarlock::nn::cuda
