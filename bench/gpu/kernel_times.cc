#include "bench/gpu/kernel_times.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace oarlock::gpu_bench {
namespace {

using cuda::KernelId;

double Now() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

template <typename Body>
const Body& BodyOf(const void* kernel) {
  return static_cast<const cuda::ForEach<Body>*>(kernel)->body;
}

// The fewest bytes that a kernel can move, or 0 where nobody has counted.
double BytesOf(KernelId id, const void* kernel) {
  constexpr double kFloat = 4;
  switch (id) {
    case KernelId::kFill:
      return kFloat * BodyOf<cuda::FillBody>(kernel).count;
    case KernelId::kAddBias:
      return 2 * kFloat * BodyOf<cuda::AddBiasBody>(kernel).count;
    case KernelId::kRound: {
      const auto& body = BodyOf<cuda::RoundBody>(kernel);
      return (kFloat + 2) * body.count;
    }
    case KernelId::kCopyColumns:
      return 2 * kFloat * BodyOf<cuda::CopyColumnsBody>(kernel).count;
    case KernelId::kSumBags:
      return 2 * kFloat * BodyOf<cuda::SumBagsBody>(kernel).count;
    case KernelId::kBiasGradient: {
      const auto& k =
          *static_cast<const cuda::ColumnPartials<cuda::BiasGradientTerm>*>(
              kernel);
      return 2.5 * kFloat * k.rows * k.cols;  // y, dy, and the masked half
    }
    case KernelId::kSumTiles: {
      const auto& body = BodyOf<cuda::SumTilesBody>(kernel);
      return 3 * kFloat * body.pairs.num_pairs * body.gradient.places.width;
    }
    case KernelId::kScatterPairs:
      return 16.0 * static_cast<const cuda::ScatterPairsKernel*>(kernel)->count;
    case KernelId::kCountDigits:
      return 4.0 * static_cast<const cuda::CountDigitsKernel*>(kernel)->count;
    default:
      return 0;
  }
}

class TimedDevice final : public cuda::Device, public KernelTimes {
 public:
  explicit TimedDevice(std::unique_ptr<cuda::Device> device)
      : device_(std::move(device)), word_(device_->Allocate(sizeof(float))) {}
  ~TimedDevice() override { device_->Free(word_); }

  const std::string& name() const override { return device_->name(); }
  void* Allocate(size_t num_bytes) override {
    return device_->Allocate(num_bytes);
  }
  void Free(void* memory) override { device_->Free(memory); }
  void CopyIn(const void* host, size_t num_bytes, void* to) override {
    device_->CopyIn(host, num_bytes, to);
  }
  void CopyOutLater(const void* from, size_t num_bytes, void* host) override {
    device_->CopyOutLater(from, num_bytes, host);
  }
  void Finish() override { device_->Finish(); }
  void Launch(KernelId id, const void* kernel, size_t num_bytes,
              size_t blocks) override {
    Time(cuda::kKernelNames[static_cast<size_t>(id)], BytesOf(id, kernel), 0,
         [&] { device_->Launch(id, kernel, num_bytes, blocks); });
  }
  void Multiply(const cuda::Product& p) override {
    char name[64];
    std::snprintf(name, sizeof(name), "product %zu x %zu x %zu", p.m, p.n, p.k);
    Time(name, 0, 2.0 * p.m * p.n * p.k, [&] { device_->Multiply(p); });
  }
  std::optional<size_t> ConvolutionWorkspace(
      const cuda::ConvolutionPass& pass) override {
    return device_->ConvolutionWorkspace(pass);
  }
  bool Convolve(const cuda::ConvolutionPass& p) override {
    constexpr const char* kKinds[] = {"", " by weight", " by input"};
    const ConvolutionShape& s = p.shape;
    const Extent& kernel = s.window.kernel;
    char name[160];
    std::snprintf(name, sizeof(name),
                  "convolution %zux%zux%zu, %zux%zu, to %zu%s", s.image.height,
                  s.image.width, s.in_channels, kernel.height, kernel.width,
                  s.out_channels, kKinds[static_cast<size_t>(p.kind)]);
    bool done = false;
    Time(name, 0,
         2.0 * p.images * s.output_size() * kernel.area() * s.in_channels,
         [&] { done = device_->Convolve(p); });
    return done;
  }

  void MeasureCeilings(cuda::Numbers numbers) override {
    constexpr size_t kFloats = size_t{1} << 28;
    constexpr size_t kSide = 8192;
    constexpr int kTimes = 10;
    auto* const memory =
        static_cast<float*>(device_->Allocate(2 * kFloats * sizeof(float)));
    // Not zeros, which are faster to multiply.
    std::vector<float> pattern(1 << 20);
    for (size_t i = 0; i < pattern.size(); ++i) {
      pattern[i] = static_cast<float>(i * 2654435761u % 1000) / 1000;
    }
    for (size_t at = 0; at < 2 * kFloats; at += pattern.size()) {
      device_->CopyIn(pattern.data(), pattern.size() * 4, memory + at);
    }
    const auto measure = [&](const auto& run) {
      run();
      Wait();
      const double start = Now();
      for (int i = 0; i < kTimes; ++i) run();
      Wait();
      return (Now() - start) / kTimes;
    };
    const cuda::ForEach<cuda::CopyColumnsBody> copy = {
        {kFloats, kFloats, kFloats, kFloats, Write::kOverwrite, memory,
         memory + kFloats}};
    bytes_per_second_ =
        2.0 * kFloats * sizeof(float) / measure([&] { device_->Run(copy); });
    cuda::Product product;
    product.numbers = numbers;
    product.m = product.n = product.k = kSide;
    product.a = {memory, kSide};
    product.b = {memory + kSide * kSide, kSide};
    product.c = memory + 2 * kSide * kSide;
    product.c_stride = kSide;
    flops_per_second_ = 2.0 * kSide * kSide * kSide /
                        measure([&] { device_->Multiply(product); });
    device_->Free(memory);
    std::printf(
        "ceilings on %s: copy %.0f GB/s, product of 8192 %.1f TFLOP/s\n",
        name().c_str(), bytes_per_second_ / 1e9, flops_per_second_ / 1e12);
  }

  void Start() override { entries_.clear(); }

  void Print(int steps) const override {
    std::vector<std::pair<std::string, Entry>> sorted(entries_.begin(),
                                                      entries_.end());
    std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
      return a.second.seconds > b.second.seconds;
    });
    std::printf("%-34s %6s %10s %10s %8s\n", "kernel", "calls", "us/step",
                "floor us", "of floor");
    for (const auto& [name, e] : sorted) {
      const double floor =
          e.flops / flops_per_second_ + e.bytes / bytes_per_second_;
      std::printf("%-34s %6.1f %10.1f %10.1f %7.0f%%\n", name.c_str(),
                  static_cast<double>(e.calls) / steps, e.seconds / steps * 1e6,
                  floor / steps * 1e6, 100 * floor / e.seconds);
    }
  }

 private:
  struct Entry {
    uint64_t calls = 0;
    double seconds = 0;
    double bytes = 0;
    double flops = 0;
  };

  void Wait() {
    float word;
    device_->CopyOutLater(word_, sizeof(word), &word);
    device_->Finish();
  }
  template <typename Run>
  void Time(const std::string& name, double bytes, double flops,
            const Run& run) {
    Wait();
    const double start = Now();
    run();
    Wait();
    Entry& entry = entries_[name];
    ++entry.calls;
    entry.seconds += Now() - start;
    entry.bytes += bytes;
    entry.flops += flops;
  }

  const std::unique_ptr<cuda::Device> device_;
  void* const word_;
  double bytes_per_second_ = 1;
  double flops_per_second_ = 1;
  std::map<std::string, Entry> entries_;
};

}  // namespace

std::unique_ptr<cuda::Device> NewTimedDevice(
    std::unique_ptr<cuda::Device> device, KernelTimes** times) {
  auto timed = std::make_unique<TimedDevice>(std::move(device));
  *times = timed.get();
  return timed;
}

}  // namespace oarlock::gpu_bench
