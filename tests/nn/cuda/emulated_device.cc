#include "tests/nn/cuda/emulated_device.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/check.h"
#include "tests/nn/cuda/emulated_convolution.h"
#include "tests/nn/cuda/recording_device.h"

namespace oarlock::nn::cuda {
namespace {

constexpr size_t kAlignment = 256;

template <typename Kernel>
void RunAll(const void* kernel, size_t blocks, unsigned turn) {
  // Blocks from the last to the first: none may rely on one before it.
  for (size_t block = blocks; block > 0; --block) {
    (*static_cast<const Kernel*>(kernel))(
        Block(block - 1, Kernel::kThreads, turn));
  }
}

class EmulatedDevice final : public RecordingDevice {
 public:
  explicit EmulatedDevice(const EmulatedOptions& options)
      : memory_bytes_(options.memory_bytes),
        turn_(options.turn),
        own_convolution_(options.own_convolution),
        copied_(options.copied),
        gpu_id_(options.gpu_id) {}
  ~EmulatedDevice() override { OARLOCK_CHECK(blocks_.empty()); }

  const std::string& name() const override { return name_; }
  std::optional<GpuId> gpu_id() const override { return gpu_id_; }

  void* Allocate(size_t num_bytes) override {
    if (num_bytes > memory_bytes_ - used_) {
      DeviceFailed(
          name_ + " has not enough memory: " + std::to_string(num_bytes) +
          " bytes were asked for, " + std::to_string(memory_bytes_ - used_) +
          " of " + std::to_string(memory_bytes_) + " are free");
    }
    void* const memory = std::aligned_alloc(
        kAlignment, BlocksFor(num_bytes, kAlignment) * kAlignment);
    OARLOCK_CHECK(memory != nullptr);
    std::memset(memory, 0xff, num_bytes);  // NaN, as floats
    blocks_[static_cast<const char*>(memory)] = num_bytes;
    used_ += num_bytes;
    return memory;
  }
  void Free(void* memory) override {
    const auto block = blocks_.find(static_cast<const char*>(memory));
    OARLOCK_CHECK(block != blocks_.end());
    used_ -= block->second;
    std::memset(memory, 0xff, block->second);
    blocks_.erase(block);
    std::free(memory);
  }

  void CopyIn(const void* host, size_t num_bytes, void* to) override {
    OARLOCK_CHECK(!is_recording());
    CheckInside(to, num_bytes);
    if (copied_ != nullptr) copied_->in += num_bytes;
    std::memcpy(to, host, num_bytes);
  }
  void CopyOutLater(const void* from, size_t num_bytes, void* host) override {
    OARLOCK_CHECK(!is_recording());
    CheckInside(from, num_bytes);
    if (copied_ != nullptr) copied_->out += num_bytes;
    copies_.push_back({from, num_bytes, host});
  }
  // As late as can be: who overwrites the source before gets what it has
  // earned.
  void Finish() override {
    for (const Copy& copy : copies_) {
      std::memcpy(copy.host, copy.from, copy.num_bytes);
    }
    copies_.clear();
  }

  std::optional<size_t> ConvolutionWorkspace(
      const ConvolutionPass& pass) override {
    OARLOCK_CHECK(pass.images > 0 && pass.numbers != Numbers::kBfloat16);
    if (own_convolution_ == OwnConvolution::kNever) return std::nullopt;
    return EmulatedWorkspaceBytes(pass);
  }
  bool Convolve(const ConvolutionPass& pass) override {
    OARLOCK_CHECK(!is_recording());
    const SizesOfPass sizes(pass);
    OARLOCK_CHECK(pass.workspace_bytes == EmulatedWorkspaceBytes(pass));
    CheckInside(pass.workspace, pass.workspace_bytes);
    CheckInside(pass.result, sizes.result * sizeof(float));
    if (pass.x != nullptr) CheckInside(pass.x, sizes.x * sizeof(float));
    if (pass.weight != nullptr) {
      CheckInside(pass.weight, sizes.weight * sizeof(float));
    }
    if (pass.dy != nullptr) CheckInside(pass.dy, sizes.y * sizeof(float));
    ++num_passes_;
    if (own_convolution_ == OwnConvolution::kEverySecond &&
        num_passes_ % 2 == 0) {
      return false;
    }
    std::memset(pass.workspace, 0xff, pass.workspace_bytes);
    EmulateConvolution(pass);
    return true;
  }

 private:
  void LaunchNow(KernelId id, const void* kernel, size_t blocks) override {
    OARLOCK_CHECK(blocks > 0);
    OARLOCK_CHECK(
        own_convolution_ != OwnConvolution::kAlways ||
        (id != KernelId::kPatches && id != KernelId::kPatchesBackward));
    switch (id) {
#define OARLOCK_RUN_ALL(name, type) \
  case KernelId::name:              \
    return RunAll<type>(kernel, blocks, turn_);
      OARLOCK_CUDA_KERNELS(OARLOCK_RUN_ALL)
      OARLOCK_CUDA_RULE_KERNELS(OARLOCK_RUN_ALL)
#undef OARLOCK_RUN_ALL
    }
  }

  void MultiplyNow(const Product& product) override {
    OARLOCK_CHECK(product.m > 0 && product.n > 0 && product.k > 0);
    OARLOCK_CHECK(product.bias == nullptr ||
                  product.write == Write::kOverwrite);
    // What cuBLAS demands of leading dimensions.
    const auto least = [](const Product::Operand& matrix, size_t rows,
                          size_t cols) {
      return matrix.transposed ? cols : rows;
    };
    OARLOCK_CHECK(product.a.stride >= least(product.a, product.m, product.k));
    OARLOCK_CHECK(product.b.stride >= least(product.b, product.k, product.n));
    OARLOCK_CHECK(product.c_stride >= product.m);
    RunProduct(product);
  }

  // As PlainProductBody, many times as fast.
  static void RunProduct(const Product& p) {
    std::vector<float> a(p.m * p.k), sums(p.m);
    for (size_t l = 0; l < p.k; ++l) {
      for (size_t i = 0; i < p.m; ++i) {
        a[l * p.m + i] = OperandAt(p.numbers, p.a, i, l);
      }
    }
    for (size_t j = 0; j < p.n; ++j) {
      std::fill(sums.begin(), sums.end(), 0.0f);
      for (size_t l = 0; l < p.k; ++l) {
        const float factor = OperandAt(p.numbers, p.b, l, j);
        const float* const column = a.data() + l * p.m;
        for (size_t i = 0; i < p.m; ++i) sums[i] += column[i] * factor;
      }
      for (size_t i = 0; i < p.m; ++i) {
        const float value = sums[i] + (p.bias == nullptr ? 0 : p.bias[i]);
        Put(p.write, Activate(p.activation, value), &p.c[j * p.c_stride + i]);
      }
    }
  }

  struct Copy {
    const void* from;
    size_t num_bytes;
    void* host;
  };

  void CheckInside(const void* memory, size_t num_bytes) const {
    const char* const begin = static_cast<const char*>(memory);
    auto block = blocks_.upper_bound(begin);
    OARLOCK_CHECK(block != blocks_.begin());
    --block;
    OARLOCK_CHECK(begin + num_bytes <= block->first + block->second);
  }

  const std::string name_ = "the emulated GPU";
  const size_t memory_bytes_;
  const unsigned turn_;
  const OwnConvolution own_convolution_;
  CopiedBytes* const copied_;
  const std::optional<GpuId> gpu_id_;
  size_t num_passes_ = 0;
  size_t used_ = 0;
  std::map<const char*, size_t> blocks_;
  std::vector<Copy> copies_;
};

}  // namespace

std::unique_ptr<Device> NewEmulatedDevice(const EmulatedOptions& options) {
  return std::make_unique<EmulatedDevice>(options);
}

}  // namespace oarlock::nn::cuda
