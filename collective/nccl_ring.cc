#include "collective/nccl_ring.h"

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/clock.h"
#include "base/process/shared_library.h"
#include "base/status_macros.h"
#include "collective/agreement.h"
#include "collective/ring_connection.h"

namespace oarlock::collective {
namespace {

// Between two looks at an operation that is not done.
constexpr absl::Duration kLook = absl::Microseconds(20);

struct NcclFunctions {
  decltype(&ncclGetUniqueId) get_unique_id;
  decltype(&ncclCommInitRank) init_rank;
  // Null before NCCL 2.14: every call waits for the other ranks then.
  decltype(&ncclCommInitRankConfig) init_rank_config;
  decltype(&ncclCommAbort) abort;
  decltype(&ncclCommGetAsyncError) async_error;
  decltype(&ncclGetErrorString) error_string;
  decltype(&ncclAllReduce) all_reduce;
  decltype(&ncclBroadcast) broadcast;
  decltype(&ncclAllGather) all_gather;
};

absl::StatusOr<NcclFunctions> LoadNccl() {
  OARLOCK_ASSIGN_OR_RETURN(
      const SharedLibrary library,
      SharedLibrary::Open(absl::StrCat("libnccl.so.", NCCL_MAJOR),
                          {"/usr/local/cuda/lib64"}));
  NcclFunctions n;
  OARLOCK_RETURN_IF_ERROR(library.Find("ncclGetUniqueId", &n.get_unique_id));
  OARLOCK_RETURN_IF_ERROR(library.Find("ncclCommInitRank", &n.init_rank));
  if (!library.Find("ncclCommInitRankConfig", &n.init_rank_config).ok()) {
    n.init_rank_config = nullptr;
  }
  OARLOCK_RETURN_IF_ERROR(library.Find("ncclCommAbort", &n.abort));
  OARLOCK_RETURN_IF_ERROR(
      library.Find("ncclCommGetAsyncError", &n.async_error));
  OARLOCK_RETURN_IF_ERROR(library.Find("ncclGetErrorString", &n.error_string));
  OARLOCK_RETURN_IF_ERROR(library.Find("ncclAllReduce", &n.all_reduce));
  OARLOCK_RETURN_IF_ERROR(library.Find("ncclBroadcast", &n.broadcast));
  OARLOCK_RETURN_IF_ERROR(library.Find("ncclAllGather", &n.all_gather));
  return n;
}

absl::Status OfCuda(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return absl::OkStatus();
  cudaGetLastError();
  return absl::FailedPreconditionError(absl::StrCat(
      "the GPU of a collective job: ", what, ": ", cudaGetErrorString(status)));
}

// Memory of the GPU that only grows, for spans of the host.
class Staging {
 public:
  ~Staging() { cudaFree(data_); }
  absl::StatusOr<void*> Get(size_t num_bytes) {
    if (num_bytes > num_bytes_) {
      cudaFree(std::exchange(data_, nullptr));
      num_bytes_ = 0;
      OARLOCK_RETURN_IF_ERROR(OfCuda(
          cudaMalloc(&data_, num_bytes),
          absl::StrCat("an allocation of ", num_bytes, " bytes").c_str()));
      num_bytes_ = num_bytes;
    }
    return data_;
  }

 private:
  void* data_ = nullptr;
  size_t num_bytes_ = 0;
};

class NcclRing final : public GpuRing {
 public:
  NcclRing(const NcclFunctions& nccl, int gpu, int size, const Clock& clock)
      : nccl_(nccl), gpu_(gpu), size_(size), clock_(clock) {}
  ~NcclRing() override {
    if (cudaSetDevice(gpu_) != cudaSuccess) return;
    // Its Destroy waits for the other ranks of the machine, of which one may
    // have died.
    if (comm_ != nullptr) nccl_.abort(comm_);
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
  }

  // What can fail on this rank alone, before anybody waits for it.
  absl::Status Open() {
    OARLOCK_RETURN_IF_ERROR(OfCuda(cudaSetDevice(gpu_), "choosing it"));
    return OfCuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking),
                  "a stream");
  }

  // All ranks of `host` call it, after Open.
  absl::Status Connect(const ncclUniqueId& id, const Communicator& host,
                       const ConnectOptions& options) {
    OARLOCK_RETURN_IF_ERROR(OfCuda(cudaSetDevice(gpu_), "choosing it"));
    ConnectCalls calls;
    if (nccl_.init_rank_config != nullptr) {
      calls.begin = [&] { return IsOver(BeginConnecting(id, host.rank())); };
      calls.is_over = [&] { return IsOver(AsyncResult()); };
    }
    calls.connect = [&] {
      const ncclResult_t result =
          nccl_.init_rank(&comm_, size_, id, host.rank());
      if (result != ncclSuccess) comm_ = nullptr;
      return IsOver(result).status();
    };
    return ConnectRing(
        clock_, calls, [&] { return host.GroupStatus(); }, options);
  }

  absl::Status AllReduce(void* values, size_t num_values, Type type,
                         const GoOn& go_on) override {
    const size_t width = type == Type::kFloat ? sizeof(float) : 8;
    const ncclDataType_t nccl_type = type == Type::kFloat    ? ncclFloat32
                                     : type == Type::kDouble ? ncclFloat64
                                                             : ncclInt64;
    return InPlace(values, num_values * width, go_on, [&](void* on_gpu) {
      return nccl_.all_reduce(on_gpu, on_gpu, num_values, nccl_type, ncclSum,
                              comm_, stream_);
    });
  }

  absl::Status Broadcast(void* bytes, size_t num_bytes, int root,
                         const GoOn& go_on) override {
    return InPlace(bytes, num_bytes, go_on, [&](void* on_gpu) {
      return nccl_.broadcast(on_gpu, on_gpu, num_bytes, ncclInt8, root, comm_,
                             stream_);
    });
  }

  absl::Status AllGather(const void* mine, size_t mine_bytes, void* all,
                         const GoOn& go_on) override {
    OARLOCK_RETURN_IF_ERROR(OfCuda(cudaSetDevice(gpu_), "choosing it"));
    // In one buffer: what is gathered, then what is given.
    const size_t all_bytes = mine_bytes * size_;
    OARLOCK_ASSIGN_OR_RETURN(void* const gathered,
                             staging_.Get(all_bytes + mine_bytes));
    void* const given = static_cast<char*>(gathered) + all_bytes;
    OARLOCK_RETURN_IF_ERROR(Copy(mine, mine_bytes, given));
    OARLOCK_RETURN_IF_ERROR(Queued(
        nccl_.all_gather(given, gathered, mine_bytes, ncclInt8, comm_, stream_),
        go_on));
    OARLOCK_RETURN_IF_ERROR(Wait(go_on));
    OARLOCK_RETURN_IF_ERROR(Copy(gathered, all_bytes, all));
    return Wait(go_on);
  }

 private:
  // The library's own threads connect, and ncclInProgress comes back.
  ncclResult_t BeginConnecting(const ncclUniqueId& id, int rank) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    return nccl_.init_rank_config(&comm_, size_, id, rank, &config);
  }

  // What has become of the last call.
  ncclResult_t AsyncResult() const {
    ncclResult_t result = ncclSuccess;
    const ncclResult_t asked = nccl_.async_error(comm_, &result);
    return asked == ncclSuccess ? result : asked;
  }

  // Whether connecting is over, of whose state `result` tells.
  absl::StatusOr<bool> IsOver(ncclResult_t result) const {
    if (result == ncclSuccess) return true;
    if (result == ncclInProgress) return false;
    return absl::FailedPreconditionError(
        absl::StrCat("NCCL: connecting: ", nccl_.error_string(result),
                     "; with NCCL_DEBUG=WARN it says more"));
  }

  // In progress is no error: NCCL's threads are at it.
  absl::Status OfNccl(ncclResult_t result, const char* what) const {
    if (result == ncclSuccess || result == ncclInProgress) {
      return absl::OkStatus();
    }
    return absl::UnavailableError(absl::StrCat("NCCL: ", what, ": ",
                                               nccl_.error_string(result),
                                               "; start the group anew"));
  }

  // From or to either memory: the driver knows which is which. To the host's,
  // unless that is pinned, the call itself waits for the stream.
  absl::Status Copy(const void* from, size_t num_bytes, void* to) {
    return OfCuda(
        cudaMemcpyAsync(to, from, num_bytes, cudaMemcpyDefault, stream_),
        "a copy");
  }

  // Calls queue(values in the GPU's memory) and waits.
  template <typename Queue>
  absl::Status InPlace(void* values, size_t num_bytes, const GoOn& go_on,
                       const Queue& queue) {
    OARLOCK_RETURN_IF_ERROR(OfCuda(cudaSetDevice(gpu_), "choosing it"));
    cudaPointerAttributes attributes;
    OARLOCK_RETURN_IF_ERROR(OfCuda(
        cudaPointerGetAttributes(&attributes, values), "asking for a pointer"));
    if (attributes.type == cudaMemoryTypeDevice) {
      OARLOCK_RETURN_IF_ERROR(Queued(queue(values), go_on));
      return Wait(go_on);
    }
    OARLOCK_ASSIGN_OR_RETURN(void* const staged, staging_.Get(num_bytes));
    OARLOCK_RETURN_IF_ERROR(Copy(values, num_bytes, staged));
    OARLOCK_RETURN_IF_ERROR(Queued(queue(staged), go_on));
    OARLOCK_RETURN_IF_ERROR(Wait(go_on));
    OARLOCK_RETURN_IF_ERROR(Copy(staged, num_bytes, values));
    return Wait(go_on);
  }

  // `result` is an operation's: returns when the stream has all of it. NCCL
  // connects some ranks no sooner than in the first one.
  absl::Status Queued(ncclResult_t result, const GoOn& go_on) {
    OARLOCK_RETURN_IF_ERROR(OfNccl(result, "an operation"));
    return Poll(go_on, [](ncclResult_t async) -> absl::StatusOr<bool> {
      return async == ncclSuccess;
    });
  }

  // Until the stream is done with what is on it.
  absl::Status Wait(const GoOn& go_on) {
    return Poll(go_on, [this](ncclResult_t) -> absl::StatusOr<bool> {
      const cudaError_t done = cudaStreamQuery(stream_);
      if (done == cudaErrorNotReady) return false;
      OARLOCK_RETURN_IF_ERROR(OfCuda(done, "an operation"));
      return true;
    });
  }

  // Asks done(NCCL's state) again and again. An error, NCCL's too, ends the
  // ring.
  template <typename Done>
  absl::Status Poll(const GoOn& go_on, const Done& done) {
    for (;;) {
      ncclResult_t async = ncclSuccess;
      absl::Status status = OfNccl(nccl_.async_error(comm_, &async), "asking");
      status.Update(OfNccl(async, "an operation"));
      absl::StatusOr<bool> is_done = done(async);
      status.Update(is_done.status());
      if (status.ok() && *is_done) return absl::OkStatus();
      status.Update(go_on());
      if (!status.ok()) {
        nccl_.abort(std::exchange(comm_, nullptr));
        return status;
      }
      clock_.Sleep(kLook);
    }
  }

  const NcclFunctions nccl_;
  const int gpu_;
  const int size_;
  const Clock& clock_;
  ncclComm_t comm_ = nullptr;
  cudaStream_t stream_ = nullptr;
  Staging staging_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<GpuRing>> NewNcclRing(
    Communicator& host, const GpuRingOptions& options) {
  const absl::StatusOr<NcclFunctions> nccl = LoadNccl();
  absl::Status status = nccl.status();
  std::unique_ptr<NcclRing> ring;
  if (status.ok()) {
    ring = std::make_unique<NcclRing>(*nccl, options.gpu, host.size(),
                                      *options.clocks.monotonic);
    status = ring->Open();
  }
  ncclUniqueId id = {};
  if (status.ok() && host.rank() == 0) {
    const ncclResult_t result = nccl->get_unique_id(&id);
    if (result != ncclSuccess) {
      status = absl::FailedPreconditionError(
          absl::StrCat("NCCL: an id: ", nccl->error_string(result)));
    }
  }
  // Nobody connects unless all can: the others would wait in vain.
  OARLOCK_RETURN_IF_ERROR(CheckAllCan(host, status));
  OARLOCK_RETURN_IF_ERROR(
      host.Broadcast(absl::MakeSpan(id.internal, sizeof(id.internal)), 0));
  OARLOCK_RETURN_IF_ERROR(
      ring->Connect(id, host, {.timeout = options.connect_timeout}));
  return std::unique_ptr<GpuRing>(std::move(ring));
}

}  // namespace oarlock::collective
