// What devices without a GPU have in common: a graph is a list of calls, which
// are done one by one when it is launched.

#ifndef OARLOCK_TESTS_NN_CUDA_RECORDING_DEVICE_H_
#define OARLOCK_TESTS_NN_CUDA_RECORDING_DEVICE_H_

#include <cstddef>
#include <functional>
#include <memory>

#include "nn/cuda/call_list.h"
#include "nn/cuda/device.h"

namespace oarlock::nn::cuda {

class RecordingDevice : public Device {
 public:
  void Launch(KernelId id, const void* kernel, size_t num_bytes,
              size_t blocks) final {
    if (recording_ != nullptr) {
      return recording_->AddKernel(id, kernel, num_bytes, blocks);
    }
    LaunchNow(id, kernel, blocks);
  }
  void Multiply(const Product& product) final {
    if (recording_ != nullptr) return recording_->AddProduct(product);
    MultiplyNow(product);
  }
  std::unique_ptr<Graph> Capture(const std::function<void()>& queue) override {
    auto graph = std::make_unique<CallGraph>();
    recording_ = &graph->calls;
    queue();
    recording_ = nullptr;
    return graph;
  }
  void LaunchGraph(const Graph& graph) override {
    const CallList& calls = static_cast<const CallGraph&>(graph).calls;
    calls.Do(0, calls.size(), *this);
  }

 protected:
  // A graph is being made: only launches and products are legal.
  bool is_recording() const { return recording_ != nullptr; }
  virtual void LaunchNow(KernelId id, const void* kernel, size_t blocks) = 0;
  virtual void MultiplyNow(const Product& product) = 0;

 private:
  struct CallGraph final : Graph {
    CallList calls;
  };

  CallList* recording_ = nullptr;
};

}  // namespace oarlock::nn::cuda

#endif  // OARLOCK_TESTS_NN_CUDA_RECORDING_DEVICE_H_
