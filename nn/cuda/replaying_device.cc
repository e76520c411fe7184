#include "nn/cuda/replaying_device.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "nn/cuda/call_list.h"

namespace oarlock::nn::cuda {
namespace {

// A run of calls becomes a graph if it has at least kLeastCalls calls, and if
// each of them has repeated at least kLeastRepeats times in a row.
constexpr size_t kLeastCalls = 3;
constexpr int kLeastRepeats = 2;
// A graph that did not match this many times in a row is dropped: its calls
// have changed permanently. A short last batch or an evaluation causes fewer
// misses.
constexpr int kMostMisses = 8;
// The most programs that are kept: more than networks have. When there are
// more, all programs are dropped.
constexpr size_t kMostPrograms = 64;
// The most calls that wait. When the list is full, it runs at once.
constexpr size_t kMostCalls = 4096;

class ReplayingDevice final : public Device {
 public:
  explicit ReplayingDevice(std::unique_ptr<Device> device)
      : device_(std::move(device)) {}

  const std::string& name() const override { return device_->name(); }
  std::optional<GpuId> gpu_id() const override { return device_->gpu_id(); }
  void* Allocate(size_t num_bytes) override {
    return device_->Allocate(num_bytes);
  }
  void Free(void* memory) override {
    Flush();
    device_->Free(memory);
  }
  void CopyIn(const void* host, size_t num_bytes, void* to) override {
    Flush();
    device_->CopyIn(host, num_bytes, to);
  }
  void CopyOutLater(const void* from, size_t num_bytes, void* host) override {
    Flush();
    device_->CopyOutLater(from, num_bytes, host);
  }
  void Finish() override {
    Flush();
    device_->Finish();
  }
  void Launch(KernelId id, const void* kernel, size_t num_bytes,
              size_t blocks) override {
    if (!has_graphs_) return device_->Launch(id, kernel, num_bytes, blocks);
    calls_.AddKernel(id, kernel, num_bytes, blocks);
    if (calls_.size() >= kMostCalls) Flush();
  }
  std::optional<size_t> ConvolutionWorkspace(
      const ConvolutionPass& pass) override {
    return device_->ConvolutionWorkspace(pass);
  }
  // Not recorded: the result has to be returned at once.
  bool Convolve(const ConvolutionPass& pass) override {
    Flush();
    return device_->Convolve(pass);
  }
  void Multiply(const Product& product) override {
    if (!has_graphs_) return device_->Multiply(product);
    calls_.AddProduct(product);
    if (calls_.size() >= kMostCalls) Flush();
  }

 private:
  // Calls [begin, begin + calls.size()) of a list, launched as one graph.
  struct Segment {
    size_t begin = 0;
    CallList calls;
    std::unique_ptr<Graph> graph;
    int misses = 0;

    size_t end() const { return begin + calls.size(); }
  };
  // The state of all lists of the same kernels in the same order.
  struct Program {
    CallList last;
    // For each call: how many times in a row it has equaled the call of the
    // list before.
    std::vector<int> repeats;
    std::vector<Segment> segments;  // in order
  };

  void Flush() {
    if (calls_.size() == 0) return;
    Program& program = Find();
    size_t done = 0;
    for (Segment& segment : program.segments) {
      calls_.Do(done, segment.begin, *device_);
      done = segment.end();
      if (segment.calls.IsAt(segment.begin, calls_)) {
        segment.misses = 0;
        device_->LaunchGraph(*segment.graph);
      } else {
        ++segment.misses;
        calls_.Do(segment.begin, done, *device_);
      }
    }
    calls_.Do(done, calls_.size(), *device_);
    Learn(program);
    std::swap(program.last, calls_);
    calls_.Clear();
    if (!has_graphs_) programs_.clear();
  }

  Program& Find() {
    const auto found = programs_.find(calls_.kinds());
    if (found != programs_.end()) return found->second;
    if (programs_.size() >= kMostPrograms) programs_.clear();
    return programs_[calls_.kinds()];
  }

  void Learn(Program& program) {
    std::erase_if(program.segments, [](const Segment& segment) {
      return segment.misses >= kMostMisses;
    });
    program.repeats.resize(calls_.size(), -1);
    for (size_t i = 0; i < calls_.size(); ++i) {
      const bool same =
          program.last.size() > 0 && calls_.Equal(i, program.last, i);
      program.repeats[i] = same ? program.repeats[i] + 1 : 0;
    }
    std::vector<Segment> segments;
    size_t begin = 0;
    for (Segment& segment : program.segments) {
      AddRuns(program, begin, segment.begin, segments);
      begin = segment.end();
      segments.push_back(std::move(segment));
    }
    AddRuns(program, begin, calls_.size(), segments);
    program.segments = std::move(segments);
  }

  // Makes segments of the runs between `begin` and `end` that are long enough
  // and have repeated often enough.
  void AddRuns(const Program& program, size_t begin, size_t end,
               std::vector<Segment>& segments) {
    while (begin < end) {
      size_t run_end = begin;
      while (run_end < end && program.repeats[run_end] >= kLeastRepeats) {
        ++run_end;
      }
      if (has_graphs_ && run_end - begin >= kLeastCalls) {
        Segment segment;
        segment.begin = begin;
        segment.calls = calls_.Part(begin, run_end);
        segment.graph =
            device_->Capture([&] { calls_.Do(begin, run_end, *device_); });
        has_graphs_ = segment.graph != nullptr;
        if (has_graphs_) segments.push_back(std::move(segment));
      }
      begin = run_end + 1;
    }
  }

  // Declared before programs_, whose graphs the device must outlive.
  const std::unique_ptr<Device> device_;
  // Calls that have not run yet.
  CallList calls_;
  std::map<std::vector<uint16_t>, Program> programs_;
  bool has_graphs_ = true;
};

}  // namespace

std::unique_ptr<Device> NewReplayingDevice(std::unique_ptr<Device> device) {
  return std::make_unique<ReplayingDevice>(std::move(device));
}

}  // namespace oarlock::nn::cuda
