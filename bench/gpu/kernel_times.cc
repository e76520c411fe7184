#include "bench/gpu/kernel_times.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "bench/gpu/device_copy.h"
#include "bench/gpu/kernel_bytes.h"
#include "nn/cuda/forwarding_device.h"

namespace oarlock::gpu_bench {
namespace {

using nn::cuda::KernelId;

// Launches of a kernel that are queued at once, as one graph.
constexpr int kLaunches = 20;
// Graphs in the longer of the two queues whose difference is timed.
constexpr int kGraphs = 3;
// The least of so many times of each queue counts.
constexpr int kTries = 5;

// Without graphs: each call is timed by itself.
class TimedDevice final : public nn::cuda::ForwardingDevice,
                          public KernelTimes {
 public:
  TimedDevice(std::unique_ptr<nn::cuda::Device> device, const Clock& clock)
      : nn::cuda::ForwardingDevice(std::move(device)),
        clock_(clock),
        word_(ForwardingDevice::device().Allocate(sizeof(float))) {}
  ~TimedDevice() override { device().Free(word_); }

  std::unique_ptr<Graph> Capture(const std::function<void()>&) override {
    return nullptr;
  }
  void Launch(nn::cuda::KernelId id, const void* kernel, size_t num_bytes,
              size_t blocks) override {
    const auto launch = [&] { device().Launch(id, kernel, num_bytes, blocks); };
    if (!timing_) return launch();
    const auto bytes = BytesOfKernel(
        id, kernel, [this](const void* from, size_t size, void* host) {
          Read(from, size, host);
        });
    launch();
    const double seconds = SecondsOfScanOr(id, kernel, launch);
    std::optional<double> floor;
    if (bytes.has_value()) floor = *bytes / bytes_per_second_;
    Count(nn::cuda::kKernelNames[static_cast<size_t>(id)], seconds, floor);
  }
  void Multiply(const nn::cuda::Product& p) override {
    device().Multiply(p);
    if (!timing_) return;
    char name[64];
    std::snprintf(name, sizeof(name), "product %zu x %zu x %zu", p.m, p.n, p.k);
    Count(name, SecondsOf([&] { device().Multiply(p); }),
          std::max(2.0 * p.m * p.n * p.k / flops_per_second_,
                   BytesOfProduct(p) / bytes_per_second_));
  }
  bool Convolve(const nn::cuda::ConvolutionPass& p) override {
    if (!device().Convolve(p)) return false;
    if (!timing_) return true;
    constexpr const char* kKinds[] = {"", " by weight", " by input"};
    const nn::ConvolutionShape& s = p.shape;
    const nn::Extent& kernel = s.window.kernel;
    char name[160];
    std::snprintf(name, sizeof(name),
                  "convolution %zux%zux%zu, %zux%zu, to %zu%s", s.image.height,
                  s.image.width, s.in_channels, kernel.height, kernel.width,
                  s.out_channels, kKinds[static_cast<size_t>(p.kind)]);
    const double flops =
        2.0 * p.images * s.output_size() * kernel.area() * s.in_channels;
    Count(name, SecondsOfCalls([&] { device().Convolve(p); }),
          flops / flops_per_second_);
    return true;
  }

  void MeasureCeilings(nn::cuda::Numbers numbers) override {
    constexpr size_t kFloats = size_t{1} << 28;
    constexpr size_t kSide = 8192;
    constexpr int kTimes = 10;
    auto* const memory =
        static_cast<float*>(device().Allocate(2 * kFloats * sizeof(float)));
    // Not zeros, which are faster to multiply.
    std::vector<float> pattern(1 << 20);
    for (size_t i = 0; i < pattern.size(); ++i) {
      pattern[i] = static_cast<float>(i * 2654435761u % 1000) / 1000;
    }
    for (size_t at = 0; at < 2 * kFloats; at += pattern.size()) {
      device().CopyIn(pattern.data(), pattern.size() * 4, memory + at);
    }
    constexpr size_t kCopied = kFloats * sizeof(float);
    // Read and written.
    bytes_per_second_ =
        2.0 * kCopied / SecondsOfDeviceCopy(memory, kCopied, memory + kFloats);
    nn::cuda::Product product;
    product.numbers = numbers;
    product.m = product.n = product.k = kSide;
    product.a = {memory, kSide};
    product.b = {memory + kSide * kSide, kSide};
    product.c = memory + 2 * kSide * kSide;
    product.c_stride = kSide;
    const auto multiply = [&](int times) {
      return [&, times] {
        for (int i = 0; i < times; ++i) device().Multiply(product);
      };
    };
    multiply(3)();
    flops_per_second_ =
        2.0 * kSide * kSide * kSide * kTimes /
        (LeastOf(1, multiply(kTimes + 1)) - LeastOf(1, multiply(1)));
    device().Free(memory);
    std::printf(
        "ceilings on %s: copy %.0f GB/s read and written, product of 8192 "
        "%.1f TFLOP/s\n",
        name().c_str(), bytes_per_second_ / 1e9, flops_per_second_ / 1e12);
  }

  void Start() override {
    entries_.clear();
    timing_ = true;
  }

  void Print() const override {
    std::vector<std::pair<std::string, Entry>> sorted(entries_.begin(),
                                                      entries_.end());
    std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
      return a.second.seconds > b.second.seconds;
    });
    std::printf("%-34s %6s %10s %10s %8s\n", "kernel", "calls", "us",
                "floor us", "of floor");
    Entry all;
    for (const auto& [name, e] : sorted) {
      PrintLine(name, e);
      all.Add(e);
    }
    PrintLine("all", all);
  }

 private:
  struct Entry {
    int calls = 0;
    double seconds = 0;
    double floor = 0;
    bool is_counted = true;

    void Add(const Entry& other) {
      calls += other.calls;
      seconds += other.seconds;
      floor += other.floor;
      is_counted = is_counted && other.is_counted;
    }
  };

  static void PrintLine(const std::string& name, const Entry& e) {
    std::printf("%-34s %6d %10.1f ", name.c_str(), e.calls, e.seconds * 1e6);
    if (e.is_counted) {
      std::printf("%10.1f %7.0f%%\n", e.floor * 1e6, 100 * e.floor / e.seconds);
    } else {
      std::printf("%10s %8s\n", "-", "-");
    }
  }

  void Read(const void* from, size_t num_bytes, void* host) {
    device().CopyOutLater(from, num_bytes, host);
    device().Finish();
  }
  void Wait() {
    float word;
    Read(word_, sizeof(word), &word);
  }

  // The least seconds, of some tries, until what `queue` queues is done.
  template <typename Queue>
  double LeastOf(int tries, const Queue& queue) {
    absl::Duration least = absl::InfiniteDuration();
    for (int i = 0; i < tries; ++i) {
      Wait();
      const absl::Time start = clock_.Now();
      queue();
      Wait();
      least = std::min(least, clock_.Now() - start);
    }
    return absl::ToDoubleSeconds(least);
  }

  // Of one call of `run`, in a graph of many. Calling, waiting and what begins
  // a graph are in both queues, and fall out of their difference.
  double SecondsOf(const std::function<void()>& run) {
    const auto graph = device().Capture([&] {
      for (int i = 0; i < kLaunches; ++i) run();
    });
    if (graph == nullptr) return SecondsOfCalls(run);
    const auto graphs = [&](int count) {
      return [&, count] {
        for (int i = 0; i < count; ++i) device().LaunchGraph(*graph);
      };
    };
    graphs(1)();
    const double one = LeastOf(kTries, graphs(1));
    return Positive(LeastOf(kTries, graphs(kGraphs)) - one) /
           ((kGraphs - 1) * kLaunches);
  }
  // The same without graphs.
  double SecondsOfCalls(const std::function<void()>& run) {
    const double one = LeastOf(kTries, run);
    const double many = LeastOf(kTries, [&] {
      for (int i = 0; i <= kLaunches; ++i) run();
    });
    return Positive(many - one) / kLaunches;
  }
  // Of what is too short for the clock.
  static double Positive(double seconds) { return std::max(seconds, 1e-9); }

  // A scan writes over what it reads, and kernels after it take its sums for
  // places: they are put back.
  double SecondsOfScanOr(nn::cuda::KernelId id, const void* kernel,
                         const std::function<void()>& launch) {
    if (id != nn::cuda::KernelId::kScan) return SecondsOf(launch);
    const auto& scan = *static_cast<const nn::cuda::ScanKernel*>(kernel);
    std::vector<uint32_t> sums(scan.count);
    const size_t num_bytes = sums.size() * sizeof(uint32_t);
    Read(scan.values, num_bytes, sums.data());
    const double seconds = SecondsOf(launch);
    device().CopyIn(sums.data(), num_bytes, scan.values);
    return seconds;
  }

  void Count(const std::string& name, double seconds,
             std::optional<double> floor) {
    entries_[name].Add({1, seconds, floor.value_or(0), floor.has_value()});
  }

  const Clock& clock_;
  void* const word_;
  bool timing_ = false;
  double bytes_per_second_ = 1;
  double flops_per_second_ = 1;
  std::map<std::string, Entry> entries_;
};

}  // namespace

std::unique_ptr<nn::cuda::Device> NewTimedDevice(
    std::unique_ptr<nn::cuda::Device> device, const Clock& clock,
    KernelTimes** times) {
  auto timed = std::make_unique<TimedDevice>(std::move(device), clock);
  *times = timed.get();
  return timed;
}

}  // namespace oarlock::gpu_bench
