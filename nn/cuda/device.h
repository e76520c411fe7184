// A device with memory of its own that runs kernels and products, and may have
// convolutions of its own: a GPU (gpu.h), or one emulated by tests.
//
// Work is queued and done in the order of the calls, but for copies to the
// host, which run beside later work. What goes wrong on a device in the middle
// of a step (no memory left, a fault of the hardware or of a kernel) cannot be
// undone: DeviceFailed says it in one line and ends the process with code 1,
// which for a job is the death of a worker like any other.
//
// Thread safety: one thread at a time.

#ifndef OARLOCK_NN_CUDA_DEVICE_H_
#define OARLOCK_NN_CUDA_DEVICE_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "nn/cuda/convolution_pass.h"
#include "nn/cuda/kernels/kernels.h"
#include "nn/cuda/kernels/product.h"

namespace oarlock::nn::cuda {

// Writes "oarlock: `message`" to stderr and ends the process with code 1.
[[noreturn]] void DeviceFailed(const std::string& message);

// How libraries beside this device's own find its GPU, and how processes that
// number GPUs differently know that it is the same.
struct GpuId {
  // From 0, of those that the driver shows this process.
  int index = 0;
  // "0000:1B:00.0"; of the machine.
  std::string pci_bus_id = {};
};

class Device {
 public:
  virtual ~Device() = default;
  // "GPU 0 (NVIDIA H100 80GB HBM3)".
  virtual const std::string& name() const = 0;
  // Nothing where the device is no GPU.
  virtual std::optional<GpuId> gpu_id() const { return std::nullopt; }

  // At least 256-byte aligned, not initialised. Fails the device when there is
  // not enough: the message says what was asked for and what was free.
  virtual void* Allocate(size_t num_bytes) = 0;
  // Waits for what was queued before.
  virtual void Free(void* memory) = 0;

  // Queues a copy; `host` may be changed as soon as it returns.
  virtual void CopyIn(const void* host, size_t num_bytes, void* to) = 0;
  // Queues a copy of what the calls before have made. `host` holds it after
  // Finish; until then nothing may overwrite `from`.
  virtual void CopyOutLater(const void* from, size_t num_bytes, void* host) = 0;
  // Waits for all copies to the host, hence for what they copy.
  virtual void Finish() = 0;

  // The kernel is a struct of `num_bytes`, which is copied.
  virtual void Launch(KernelId id, const void* kernel, size_t num_bytes,
                      size_t blocks) = 0;
  virtual void Multiply(const Product& product) = 0;

  // The bytes that Convolve needs in pass.workspace, or nullopt if the device
  // has no convolution of its own for such a pass. Of arrays only the alignment
  // counts, where they are not null. Queues nothing.
  virtual std::optional<size_t> ConvolutionWorkspace(
      const ConvolutionPass& pass) = 0;
  // Queues a pass that ConvolutionWorkspace has an answer for. False if it
  // turns out that the device cannot: then nothing was queued.
  virtual bool Convolve(const ConvolutionPass& pass) = 0;

  // Launches and products that are queued by one call.
  class Graph {
   public:
    virtual ~Graph() = default;
  };
  // A graph of what `queue` calls of these two, which is not done now; null if
  // the device has no graphs. Each call has been made before. The device
  // outlives the graph.
  virtual std::unique_ptr<Graph> Capture(const std::function<void()>& queue) {
    return nullptr;
  }
  virtual void LaunchGraph(const Graph& graph) {}

  template <typename Kernel>
  void Run(Kernel kernel) {
    const size_t blocks = kernel.blocks();
    if (blocks == 0) return;
    // Equal arguments are equal bytes.
    __builtin_clear_padding(&kernel);
    Launch(NumberOf<Kernel>::value, &kernel, sizeof(kernel), blocks);
  }
};

// Memory of a device that only grows; what was there is lost when it does. The
// device outlives it.
class DeviceBuffer {
 public:
  explicit DeviceBuffer(Device* device) : device_(device) {}
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;
  ~DeviceBuffer() {
    if (data_ != nullptr) device_->Free(data_);
  }
  // Room for `count` values.
  template <typename T>
  T* Get(size_t count) {
    const size_t num_bytes = count * sizeof(T);
    if (num_bytes > num_bytes_) {
      if (data_ != nullptr) device_->Free(data_);
      // A little more, so that batches of slightly different sizes do not
      // allocate again and again.
      num_bytes_ = num_bytes + num_bytes / 8;
      data_ = device_->Allocate(num_bytes_);
    }
    return static_cast<T*>(data_);
  }

 private:
  Device* const device_;
  void* data_ = nullptr;
  size_t num_bytes_ = 0;
};

}  // namespace oarlock::nn::cuda

#endif  // OARLOCK_NN_CUDA_DEVICE_H_
