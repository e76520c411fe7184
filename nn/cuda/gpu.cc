#include "nn/cuda/gpu.h"

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "nn/cuda/capture_lock.h"
#include "nn/cuda/cublas_products.h"
#include "nn/cuda/cudnn_convolutions.h"
#include "nn/cuda/gpu_memory.h"
#include "nn/cuda/kernels/gpu_launch.h"

namespace oarlock::nn::cuda {
namespace {

class GpuGraph final : public Device::Graph {
 public:
  GpuGraph(int gpu, cudaGraphExec_t graph) : gpu_(gpu), graph_(graph) {}
  ~GpuGraph() override {
    const CaptureLock lock(gpu_);
    cudaGraphExecDestroy(graph_);
  }
  cudaGraphExec_t get() const { return graph_; }

 private:
  const int gpu_;
  const cudaGraphExec_t graph_;
};

// Logs once, not for each device.
void LogThatPatchesAreUsed(const absl::Status& why) {
  static std::atomic<bool> is_said = false;
  if (is_said.exchange(true)) return;
  Log().info("convolutions go by patches, not by cuDNN: {}",
             std::string(why.message()));
}

// A GPU with three streams: copies to the GPU, computation, and copies from it.
// A copy in waits for the computation queued before it, since it may overwrite
// data that the computation reads. Later computation waits for the copy. A copy
// out waits for the work queued before it; only Finish waits for a copy out.
class Gpu final : public Device {
 public:
  Gpu(GpuId id, std::string name, const CublasLtFunctions& lt)
      : id_(std::move(id)), name_(std::move(name)), pinned_(id_.index, name_) {
    workspace_ = Allocate(CublasProducts::kWorkspaceBytes);
    const CaptureLock lock(id_.index);
    for (cudaStream_t* stream : {&in_, &compute_, &out_}) {
      Check(cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking),
            "a stream");
    }
    Check(cudaEventCreateWithFlags(&computed_, cudaEventDisableTiming),
          "an event");
    products_.emplace(lt, name_, workspace_);
  }

  ~Gpu() override {
    MakeCurrent();
    for (cudaStream_t stream : {in_, compute_, out_}) {
      Check(cudaStreamSynchronize(stream), "its end");
    }
    const CaptureLock lock(id_.index);
    products_.reset();
    convolutions_.reset();
    cudaFree(workspace_);
    cudaEventDestroy(computed_);
    for (cudaStream_t stream : {in_, compute_, out_}) {
      cudaStreamDestroy(stream);
    }
  }

  const std::string& name() const override { return name_; }
  std::optional<GpuId> gpu_id() const override { return id_; }

  void* Allocate(size_t num_bytes) override {
    MakeCurrent();
    void* memory = nullptr;
    const CaptureLock lock(id_.index);
    const cudaError_t status = cudaMalloc(&memory, num_bytes);
    if (status == cudaErrorMemoryAllocation) {
      cudaGetLastError();
      DeviceFailed(absl::StrCat(
          name_, " has not enough memory: ", Mebibytes(num_bytes),
          " were asked for, ", FreeOnGpu(),
          "; use a smaller --batch_size, fewer threads, or another GPU"));
    }
    Check(status, "an allocation");
    return memory;
  }

  void Free(void* memory) override {
    MakeCurrent();
    Check(cudaStreamSynchronize(compute_), "work before memory is freed");
    Check(cudaStreamSynchronize(out_), "copies before memory is freed");
    const CaptureLock lock(id_.index);
    Check(cudaFree(memory), "freeing memory");
  }

  void CopyIn(const void* host, size_t num_bytes, void* to) override {
    MakeCurrent();
    PinnedPool::Buffer* const buffer = pinned_.Take(num_bytes);
    std::memcpy(buffer->data, host, num_bytes);
    WaitForComputation(in_);
    Check(cudaMemcpyAsync(to, buffer->data, num_bytes, cudaMemcpyHostToDevice,
                          in_),
          "a copy to it");
    pinned_.GiveBackAfter(buffer, in_);
    Check(cudaStreamWaitEvent(compute_, buffer->done, 0), "waiting for a copy");
  }

  void CopyOutLater(const void* from, size_t num_bytes, void* host) override {
    MakeCurrent();
    PinnedPool::Buffer* const buffer = pinned_.Take(num_bytes);
    WaitForComputation(out_);
    Check(cudaMemcpyAsync(buffer->data, from, num_bytes, cudaMemcpyDeviceToHost,
                          out_),
          "a copy from it");
    pinned_.GiveBackAfter(buffer, out_);
    buffer->in_use = true;  // until Finish has read the buffer
    copies_out_.push_back({buffer, num_bytes, host});
  }

  void Finish() override {
    MakeCurrent();
    for (const CopyOut& copy : copies_out_) {
      Check(cudaEventSynchronize(copy.buffer->done), "a copy from it");
      std::memcpy(copy.host, copy.buffer->data, copy.num_bytes);
      copy.buffer->in_use = false;
    }
    copies_out_.clear();
  }

  void Launch(KernelId id, const void* kernel, size_t num_bytes,
              size_t blocks) override {
    MakeCurrent();
    if (blocks > std::numeric_limits<int32_t>::max()) {
      DeviceFailed(absl::StrCat(name_, ": the kernel ", NameOf(id), " needs ",
                                blocks,
                                " blocks; legal are up to 2^31 - 1: "
                                "use a smaller --batch_size"));
    }
    const cudaError_t status = LaunchOnGpu(id, kernel, blocks, compute_);
    if (status != cudaSuccess) Check(status, NameOf(id));
  }

  void Multiply(const Product& product) override {
    MakeCurrent();
    if (products_->Run(product, compute_)) return;
    Run(ForEach<PlainProductBody>{{product.m * product.n, product}});
  }

  std::unique_ptr<Graph> Capture(const std::function<void()>& queue) override {
    MakeCurrent();
    const CaptureLock lock(id_.index);
    Check(cudaStreamBeginCapture(compute_, cudaStreamCaptureModeThreadLocal),
          "beginning a graph");
    queue();
    cudaGraph_t graph = nullptr;
    Check(cudaStreamEndCapture(compute_, &graph), "a graph");
    cudaGraphExec_t executable = nullptr;
    Check(cudaGraphInstantiate(&executable, graph, 0), "preparing a graph");
    Check(cudaGraphDestroy(graph), "a graph");
    return std::make_unique<GpuGraph>(id_.index, executable);
  }

  void LaunchGraph(const Graph& graph) override {
    MakeCurrent();
    Check(cudaGraphLaunch(static_cast<const GpuGraph&>(graph).get(), compute_),
          "a graph");
  }

  std::optional<size_t> ConvolutionWorkspace(
      const ConvolutionPass& pass) override {
    MakeCurrent();
    LookForCudnn();
    if (convolutions_ == nullptr) return std::nullopt;
    return convolutions_->WorkspaceBytes(pass);
  }

  bool Convolve(const ConvolutionPass& pass) override {
    MakeCurrent();
    return convolutions_ != nullptr && convolutions_->Run(pass, compute_);
  }

 private:
  struct CopyOut {
    PinnedPool::Buffer* buffer;
    size_t num_bytes;
    void* host;
  };

  static const char* NameOf(KernelId id) {
    return kKernelNames[static_cast<size_t>(id)];
  }
  void Check(cudaError_t status, const char* what) const {
    CheckGpu(status, name_, what);
  }
  // Called at the first convolution: most networks have no convolution, and the
  // library is large.
  void LookForCudnn() {
    if (std::exchange(looked_for_cudnn_, true)) return;
    const CaptureLock lock(id_.index);
    auto convolutions = NewCudnnConvolutions(name_);
    if (convolutions.ok()) {
      convolutions_ = *std::move(convolutions);
    } else {
      LogThatPatchesAreUsed(convolutions.status());
    }
  }
  // Each thread has its own current GPU, and an executor may change threads.
  void MakeCurrent() const { Check(cudaSetDevice(id_.index), "choosing it"); }
  // Makes later work in `stream` wait for the computation queued so far.
  void WaitForComputation(cudaStream_t stream) {
    Check(cudaEventRecord(computed_, compute_), "an event");
    Check(cudaStreamWaitEvent(stream, computed_, 0), "waiting for kernels");
  }

  const GpuId id_;
  const std::string name_;
  PinnedPool pinned_;
  cudaStream_t in_ = nullptr, compute_ = nullptr, out_ = nullptr;
  cudaEvent_t computed_ = nullptr;
  void* workspace_ = nullptr;
  std::optional<CublasProducts> products_;
  bool looked_for_cudnn_ = false;
  std::unique_ptr<GpuConvolutions> convolutions_;  // null without cuDNN
  std::vector<CopyOut> copies_out_;
};

absl::Status Refused(int gpu, absl::string_view why) {
  return absl::FailedPreconditionError(absl::StrCat(
      "GPU ", gpu, " cannot be used: ", why, "; use another or the CPU"));
}

// OK if GPU number `gpu` can be used: the driver can create a context, and
// there is enough memory for the workspace of a device.
absl::Status CheckTakesWork(int gpu) {
  constexpr size_t kLeastBytes = CublasProducts::kWorkspaceBytes;
  const CaptureLock lock(gpu);
  size_t free = 0, total = 0;
  cudaError_t status = cudaSetDevice(gpu);
  if (status == cudaSuccess) status = cudaFree(nullptr);
  if (status == cudaSuccess) status = cudaMemGetInfo(&free, &total);
  if (status == cudaSuccess && free >= kLeastBytes) return absl::OkStatus();
  // Clears the error, which the next call would return otherwise.
  cudaGetLastError();
  if (status != cudaSuccess && status != cudaErrorMemoryAllocation) {
    return Refused(gpu, cudaGetErrorString(status));
  }
  return Refused(
      gpu, absl::StrCat("it has not enough memory: ", Mebibytes(kLeastBytes),
                        " and the driver's context, some hundred more, were "
                        "asked for, ",
                        FreeOnGpu()));
}

}  // namespace

bool BuiltWithCuda() { return true; }

Gpus FindGpus() {
  Gpus gpus;
  const cudaError_t status = cudaGetDeviceCount(&gpus.count);
  if (status != cudaSuccess) {
    // Clears the error, which the next call would return otherwise.
    cudaGetLastError();
    return {0, cudaGetErrorString(status)};
  }
  if (gpus.count == 0) return {0, "the driver knows no GPU"};
  const absl::Status library = LoadCublasLt().status();
  if (!library.ok()) return {0, std::string(library.message())};
  return gpus;
}

absl::StatusOr<std::unique_ptr<Device>> OpenGpu(int index) {
  const Gpus gpus = FindGpus();
  if (gpus.count == 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("no GPU can be used: ", gpus.why_none, "; use the CPU"));
  }
  if (index < 0 || index >= gpus.count) {
    return absl::FailedPreconditionError(
        absl::StrCat("there is no GPU ", index, "; this machine has ",
                     gpus.count, ", numbered from 0"));
  }
  OARLOCK_RETURN_IF_ERROR(CheckTakesWork(index));
  cudaDeviceProp properties;
  char pci_bus_id[32];
  cudaError_t status = cudaGetDeviceProperties(&properties, index);
  if (status == cudaSuccess) {
    status = cudaDeviceGetPCIBusId(pci_bus_id, sizeof(pci_bus_id), index);
  }
  if (status != cudaSuccess) {
    cudaGetLastError();
    return Refused(index, cudaGetErrorString(status));
  }
  OARLOCK_ASSIGN_OR_RETURN(const CublasLtFunctions lt, LoadCublasLt());
  return std::make_unique<Gpu>(
      GpuId{index, pci_bus_id},
      absl::StrCat("GPU ", index, " (", properties.name, ")"), lt);
}

absl::StatusOr<std::string> FindCudnn() { return CudnnVersion(); }

}  // namespace oarlock::nn::cuda
