// What tests of math backends share: arrays in a backend's memory, the
// comparison of a backend with the reference, and a test that says whether
// there is a GPU. For one file of a program.

#ifndef OARLOCK_TESTS_NN_BACKENDS_MATH_BACKEND_TESTING_H_
#define OARLOCK_TESTS_NN_BACKENDS_MATH_BACKEND_TESTING_H_

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "nn/cuda/gpu.h"
#include "nn/math_backend.h"
#include "nn/reference/reference_backend.h"
#include "tests/nn/backends/conforming_backends.h"

namespace oarlock::nn {

inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
// Floats behind each output that nobody may write.
inline constexpr size_t kGuard = 8;
inline constexpr float kGuardValue = 12345;

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
      : math_(NewConformingBackend(GetParam())),
        oracle_(NewReferenceBackend()) {}

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
  // rounded: to bfloat16 each by at most 2^-9 of itself, to tf32 by 2^-11. What
  // is left when the operands need no rounding is that of float32.
  float ProductTolerance(size_t k, bool exact_operands) const {
    constexpr float kFloat32 = 2e-5f;
    const std::string& name = GetParam();
    if (exact_operands) return kFloat32;
    if (name.find("bfloat16") != std::string::npos) {
      return kFloat32 + std::ldexp(static_cast<float>(k), -8);
    }
    if (name.find("tf32") != std::string::npos) {
      return kFloat32 + std::ldexp(static_cast<float>(k), -10);
    }
    return kFloat32;
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

// One line in each suite that says why no GPU was among its backends.
TEST(GpuBackendsTest, AreAmongThoseThatConform) {
  const cuda::Gpus gpus = cuda::FindGpus();
  if (gpus.count == 0) GTEST_SKIP() << "no GPU: " << gpus.why_none;
  for (const char* name : {"cuda", "cuda_tf32", "cuda_bfloat16"}) {
    EXPECT_EQ(NewConformingBackend(name)->name(), std::string(name));
  }
}

using Arrays = std::vector<Array>;

// Of matrices.
inline constexpr size_t kRows[] = {0, 1, 3, 50};
inline constexpr size_t kCols[] = {1, 2, 10, 13, 37, 400};

}  // namespace oarlock::nn

#endif  // OARLOCK_TESTS_NN_BACKENDS_MATH_BACKEND_TESTING_H_
