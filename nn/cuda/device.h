// A device with memory of its own that runs kernels and products, and may have
// convolutions of its own. It is a GPU (gpu.h), or a device that tests emulate.
//
// Work is queued and runs in the order of the calls, except copies to the host,
// which may run at the same time as later work. A failure on a device in the
// middle of a step (no memory left, a fault of the hardware or of a kernel)
// cannot be undone. DeviceFailed reports it in one line and ends the process
// with code 1. For a job this is the death of a worker like any other.
//
// Thread safety: only one thread at a time may use a device.

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

// Identifies the GPU of a device to other libraries. Processes that number GPUs
// differently can compare it.
struct GpuId {
  // Its number, from 0, among the GPUs that this process can see.
  int index = 0;
  // "0000:1B:00.0"; unique on the machine.
  std::string pci_bus_id = {};
};

class Device {
 public:
  virtual ~Device() = default;
  // "GPU 0 (NVIDIA H100 80GB HBM3)".
  virtual const std::string& name() const = 0;
  // nullopt where the device is not a GPU.
  virtual std::optional<GpuId> gpu_id() const { return std::nullopt; }

  // Memory that is at least 256-byte aligned and not initialised. Calls
  // DeviceFailed when there is not enough: the message says how much was
  // requested and how much was free.
  virtual void* Allocate(size_t num_bytes) = 0;
  // Waits for all work queued before.
  virtual void Free(void* memory) = 0;

  // Queues a copy. `host` may be changed as soon as the call returns.
  virtual void CopyIn(const void* host, size_t num_bytes, void* to) = 0;
  // Queues a copy of the results of earlier calls. `host` holds them after
  // Finish. Until then nothing may overwrite `from`.
  virtual void CopyOutLater(const void* from, size_t num_bytes, void* host) = 0;
  // Waits for all copies to the host, and so for the work whose results they
  // copy.
  virtual void Finish() = 0;

  // The kernel is a struct of `num_bytes`, which is copied.
  virtual void Launch(KernelId id, const void* kernel, size_t num_bytes,
                      size_t blocks) = 0;
  virtual void Multiply(const Product& product) = 0;

  // The bytes that Convolve needs in pass.workspace, or nullopt if the device
  // has no convolution of its own for such a pass. Only the alignment of the
  // arrays that are not null is used. Queues no work.
  virtual std::optional<size_t> ConvolutionWorkspace(
      const ConvolutionPass& pass) = 0;
  // Queues a pass for which ConvolutionWorkspace has returned an answer other
  // than nullopt. False if the device cannot run it after all: then nothing was
  // queued.
  virtual bool Convolve(const ConvolutionPass& pass) = 0;

  // A graph: launches and products that one call queues together.
  class Graph {
   public:
    virtual ~Graph() = default;
  };
  // A graph of the Launch and Multiply calls that `queue` makes. They do not
  // run now. Null if the device has no graphs. Each of these calls must have
  // been made before. The device outlives the graph.
  virtual std::unique_ptr<Graph> Capture(const std::function<void()>& queue) {
    return nullptr;
  }
  virtual void LaunchGraph(const Graph& graph) {}

  template <typename Kernel>
  void Run(Kernel kernel) {
    const size_t blocks = kernel.blocks();
    if (blocks == 0) return;
    // With clear padding, equal arguments have equal bytes.
    __builtin_clear_padding(&kernel);
    Launch(NumberOf<Kernel>::value, &kernel, sizeof(kernel), blocks);
  }
};

// Memory of a device. It only grows, and growing loses its contents. The device
// outlives it.
class DeviceBuffer {
 public:
  explicit DeviceBuffer(Device* device) : device_(device) {}
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;
  ~DeviceBuffer() {
    if (data_ != nullptr) device_->Free(data_);
  }
  // Memory for `count` values.
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
