// What a replaying device does is what it was told, in that order, whatever it
// has made graphs of. The device below it writes down what is done.

#include "nn/cuda/replaying_device.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "tests/nn/cuda/recording_device.h"

namespace oarlock::nn::cuda {
namespace {

constexpr uint64_t kSeed = 20261123;

// What has been done, a line each, and how it came.
struct Trace {
  std::vector<std::string> done;
  int launches = 0;  // of calls by themselves
  int graphs = 0;
  int captured = 0;
};

class TracingDevice final : public RecordingDevice {
 public:
  TracingDevice(Trace* trace, bool has_graphs)
      : trace_(*trace), has_graphs_(has_graphs) {}
  const std::string& name() const override { return name_; }
  void* Allocate(size_t num_bytes) override { return &memory_; }
  void Free(void* memory) override { Write("free"); }
  void CopyIn(const void* host, size_t num_bytes, void* to) override {
    Write("copy in");
  }
  void CopyOutLater(const void* from, size_t num_bytes, void* host) override {
    Write("copy out");
  }
  void Finish() override { Write("finish"); }
  std::optional<size_t> ConvolutionWorkspace(
      const ConvolutionPass& pass) override {
    return 0;
  }
  bool Convolve(const ConvolutionPass& pass) override {
    Write("convolve");
    return true;
  }
  std::unique_ptr<Graph> Capture(const std::function<void()>& queue) override {
    if (!has_graphs_) return nullptr;
    ++trace_.captured;
    return RecordingDevice::Capture(queue);
  }
  void LaunchGraph(const Graph& graph) override {
    const int launches = trace_.launches;
    RecordingDevice::LaunchGraph(graph);
    trace_.launches = launches;
    ++trace_.graphs;
  }

 private:
  void LaunchNow(KernelId id, const void* kernel, size_t blocks) override {
    ASSERT_EQ(id, KernelId::kFill);
    const auto& body = static_cast<const ForEach<FillBody>*>(kernel)->body;
    Write("fill " + std::to_string(body.count) + " with " +
          std::to_string(body.value));
    ++trace_.launches;
  }
  void MultiplyNow(const Product& product) override {
    Write("multiply " + std::to_string(product.m));
    ++trace_.launches;
  }
  void Write(std::string line) {
    ASSERT_FALSE(is_recording());
    trace_.done.push_back(std::move(line));
  }

  const std::string name_ = "a trace";
  Trace& trace_;
  const bool has_graphs_;
  float memory_ = 0;
};

// Calls as a step makes them: `fills` values, and a product after each third.
void MakeCalls(Device& device, const std::vector<int>& fills) {
  for (size_t i = 0; i < fills.size(); ++i) {
    device.Run(ForEach<FillBody>{
        {static_cast<size_t>(fills[i]), static_cast<float>(i), nullptr}});
    if (i % 3 == 2) {
      Product product;
      product.m = static_cast<size_t>(fills[i]);
      device.Multiply(product);
    }
  }
}

class ReplayingDeviceTest : public ::testing::Test {
 protected:
  void Step(const std::vector<int>& fills) {
    MakeCalls(*device_, fills);
    device_->Finish();
  }
  // Calls launched by themselves, and graphs, in one such step.
  std::pair<int, int> LaunchesOf(const std::vector<int>& fills) {
    const Trace before = trace_;
    Step(fills);
    return {trace_.launches - before.launches, trace_.graphs - before.graphs};
  }
  using Launches = std::pair<int, int>;

  Trace trace_;
  std::unique_ptr<Device> device_ =
      NewReplayingDevice(std::make_unique<TracingDevice>(&trace_, true));
};

TEST_F(ReplayingDeviceTest, ARepeatedStepBecomesOneGraph) {
  const std::vector<int> step = {1, 2, 3, 4, 5, 6};
  for (int i = 0; i < 3; ++i) EXPECT_EQ(LaunchesOf(step), Launches(8, 0));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(LaunchesOf(step), Launches(0, 1));
  EXPECT_EQ(trace_.captured, 1);
}

TEST_F(ReplayingDeviceTest, WhatChangesEachTimeSplitsTheGraph) {
  int changes = 0;
  const auto step = [&] {
    return std::vector<int>{1, 2, 3, 100 + changes++, 5, 6, 7};
  };
  for (int i = 0; i < 3; ++i) LaunchesOf(step());
  EXPECT_EQ(LaunchesOf(step()), Launches(1, 2));
  EXPECT_EQ(LaunchesOf(step()), Launches(1, 2));
}

TEST_F(ReplayingDeviceTest, ARunOfTwoCallsIsNotWorthAGraph) {
  for (int i = 0; i < 5; ++i) EXPECT_EQ(LaunchesOf({1, 2}), Launches(2, 0));
}

TEST_F(ReplayingDeviceTest, AShortLastBatchDoesNotCostTheGraph) {
  for (int i = 0; i < 4; ++i) LaunchesOf({8, 8, 8, 8});
  for (int epoch = 0; epoch < 20; ++epoch) {
    EXPECT_EQ(LaunchesOf({3, 3, 3, 3}), Launches(5, 0));
    EXPECT_EQ(LaunchesOf({8, 8, 8, 8}), Launches(0, 1));
  }
  EXPECT_EQ(trace_.captured, 1);
}

TEST_F(ReplayingDeviceTest, AnotherBatchSizeForGoodGetsAGraphOfItsOwn) {
  for (int i = 0; i < 4; ++i) LaunchesOf({8, 8, 8, 8});
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(LaunchesOf({9, 9, 9, 9}), Launches(5, 0));
  }
  EXPECT_EQ(LaunchesOf({9, 9, 9, 9}), Launches(0, 1));
}

TEST_F(ReplayingDeviceTest, OtherKernelsAreAnotherProgram) {
  for (int i = 0; i < 5; ++i) {
    LaunchesOf({1, 2, 3, 4});
    LaunchesOf({1, 2, 3, 4, 5});
  }
  EXPECT_EQ(LaunchesOf({1, 2, 3, 4}), Launches(0, 1));
  EXPECT_EQ(LaunchesOf({1, 2, 3, 4, 5}), Launches(0, 1));
}

// Each of these may wait for, or free, what calls before it write.
TEST_F(ReplayingDeviceTest, EverythingElseComesAfterTheCallsBeforeIt) {
  for (int round = 0; round < 6; ++round) {
    trace_.done.clear();
    for (int call = 0; call < 5; ++call) {
      MakeCalls(*device_, {7});
      switch (call) {
        case 0:
          device_->CopyIn(nullptr, 0, nullptr);
          break;
        case 1:
          device_->CopyOutLater(nullptr, 0, nullptr);
          break;
        case 2:
          device_->Free(nullptr);
          break;
        case 3:
          EXPECT_TRUE(device_->Convolve({}));
          break;
        default:
          device_->Finish();
      }
    }
    const std::string fill = "fill 7 with 0.000000";
    EXPECT_EQ(trace_.done, (std::vector<std::string>{
                               fill, "copy in", fill, "copy out", fill, "free",
                               fill, "convolve", fill, "finish"}));
  }
}

TEST_F(ReplayingDeviceTest, WithoutGraphsCallsAreMadeOneByOne) {
  Trace trace;
  const auto device =
      NewReplayingDevice(std::make_unique<TracingDevice>(&trace, false));
  for (int i = 0; i < 6; ++i) {
    MakeCalls(*device, {1, 2, 3, 4});
    device->Finish();
    EXPECT_EQ(trace.launches, 5 * (i + 1));
  }
  // From then on at once.
  MakeCalls(*device, {1});
  EXPECT_EQ(trace.launches, 31);
}

// Steps of some shapes, each of which repeats for a while, with calls that
// change now and then: done as told, and mostly by graphs.
TEST_F(ReplayingDeviceTest, RandomStepsAreDoneAsTold) {
  std::cout << "seed " << kSeed << "\n";
  RandomSequence random(kSeed);
  Trace requested;
  TracingDevice plain(&requested, false);
  std::vector<std::vector<int>> steps;
  for (int i = 0; i < 100; ++i) {
    std::vector<int> step(1 + random.Below(12));
    for (int& fill : step) fill = 1 + static_cast<int>(random.Below(5));
    steps.push_back(step);
  }
  for (int i = 0; i < 20000; ++i) {
    if (random.Below(50) == 0) {
      std::vector<int>& step = steps[random.Below(steps.size())];
      step[random.Below(step.size())] = 1 + static_cast<int>(random.Below(5));
    }
    // Of a hundred, at one time four.
    const std::vector<int>& step = steps[i / 1000 * 4 + random.Below(4)];
    MakeCalls(*device_, step);
    MakeCalls(plain, step);
    if (random.Below(10) == 0) {
      device_->CopyIn(nullptr, 0, nullptr);
      plain.CopyIn(nullptr, 0, nullptr);
    }
    if (random.Below(4) > 0) {
      device_->Finish();
      plain.Finish();
    }
  }
  device_->Finish();
  plain.Finish();
  EXPECT_EQ(trace_.done, requested.done);
  EXPECT_GT(trace_.graphs, 1000);
}

// More kernels in a row than are recorded.
TEST_F(ReplayingDeviceTest, ALongStepIsDoneInParts) {
  Trace requested;
  TracingDevice plain(&requested, false);
  const std::vector<int> step(10000, 3);
  for (int i = 0; i < 5; ++i) {
    MakeCalls(*device_, step);
    MakeCalls(plain, step);
  }
  device_->Finish();
  plain.Finish();
  EXPECT_EQ(trace_.done, requested.done);
}

}  // namespace
}  // namespace oarlock::nn::cuda
