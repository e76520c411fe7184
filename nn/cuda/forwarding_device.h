// A base class for devices that add something to another device, in
// measurements and tests.

#ifndef OARLOCK_NN_CUDA_FORWARDING_DEVICE_H_
#define OARLOCK_NN_CUDA_FORWARDING_DEVICE_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "nn/cuda/device.h"

namespace oarlock::nn::cuda {

// Forwards every call.
class ForwardingDevice : public Device {
 public:
  explicit ForwardingDevice(std::unique_ptr<Device> device)
      : device_(std::move(device)) {}

  const std::string& name() const override { return device_->name(); }
  std::optional<GpuId> gpu_id() const override { return device_->gpu_id(); }
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
    device_->Launch(id, kernel, num_bytes, blocks);
  }
  void Multiply(const Product& product) override { device_->Multiply(product); }
  std::optional<size_t> ConvolutionWorkspace(
      const ConvolutionPass& pass) override {
    return device_->ConvolutionWorkspace(pass);
  }
  bool Convolve(const ConvolutionPass& pass) override {
    return device_->Convolve(pass);
  }
  std::unique_ptr<Graph> Capture(const std::function<void()>& queue) override {
    return device_->Capture(queue);
  }
  void LaunchGraph(const Graph& graph) override { device_->LaunchGraph(graph); }

 protected:
  Device& device() { return *device_; }

 private:
  const std::unique_ptr<Device> device_;
};

}  // namespace oarlock::nn::cuda

#endif  // OARLOCK_NN_CUDA_FORWARDING_DEVICE_H_
