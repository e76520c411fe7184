// A GPU itself. Skipped where there is none; the conformance suite of math
// backends runs on it too (../math_backend_test).

#include "worker/nn/cuda/gpu.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "base/random.h"
#include "worker/nn/cuda/cuda_backend.h"

namespace oarlock::cuda {
namespace {

constexpr uint64_t kSeed = 7;

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

TEST_F(GpuTest, OutOfMemorySaysWhatWasAskedForAndWhatIsFree) {
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
    EXPECT_LT(std::sqrt(error / norm), 1e-5);
  }
  for (void* memory : {da, db, dbias, c}) device_->Free(memory);
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
}  // namespace oarlock::cuda
