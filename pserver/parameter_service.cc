#include "pserver/parameter_service.h"

#include <atomic>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_format.h"
#include "absl/synchronization/mutex.h"
#include "base/check.h"
#include "cluster/retry.h"
#include "cluster/security.h"
#include "proto/parameter.grpc.pb.h"
#include "pserver/parameter_handler.h"

namespace oarlock {
namespace {

// Calls of each method that a queue is ready to take at once; more wait inside
// gRPC.
constexpr int kAcceptsPerMethod = 4;
constexpr int kMaxThreads = 256;

enum class Method { kPullSparse, kPushSparse, kPullDense, kPushDense };
constexpr Method kMethods[] = {Method::kPullSparse, Method::kPushSparse,
                               Method::kPullDense, Method::kPushDense};

// Requests and responses as the bytes that gRPC moves.
using RawService = v1::ParameterService::WithRawMethod_PullSparse<
    v1::ParameterService::WithRawMethod_PushSparse<
        v1::ParameterService::WithRawMethod_PullDense<
            v1::ParameterService::WithRawMethod_PushDense<
                v1::ParameterService::Service>>>>;

// Whether answers may still be handed to gRPC. Shared by the service and its
// calls, since an aggregator may hold a call for longer than the service lives.
struct Gate {
  // Held shared while a queue is used, exclusively to close.
  absl::Mutex mutex;
  bool open ABSL_GUARDED_BY(mutex) = true;
  // Calls taken and not yet gone.
  std::atomic<int> num_calls = 0;
};

// One call, from the readiness to take it until its answer is sent. A queue
// owns it while it waits there as a tag.
struct Call {
  Call(Method method, std::shared_ptr<Gate> gate)
      : method(method), gate(std::move(gate)), writer(&context) {}
  ~Call() {
    if (taken) gate->num_calls.fetch_sub(1, std::memory_order_relaxed);
  }

  const Method method;
  const std::shared_ptr<Gate> gate;
  grpc::ServerContext context;
  grpc::ByteBuffer request;
  grpc::ServerAsyncResponseWriter<grpc::ByteBuffer> writer;
  // A request has arrived.
  bool taken = false;
  // Its answer is on the way.
  bool answered = false;
};

void Send(std::unique_ptr<Call> call,
          const absl::StatusOr<grpc::ByteBuffer>& answer) {
  const std::shared_ptr<Gate> gate = call->gate;
  absl::ReaderMutexLock lock(&gate->mutex);
  if (!gate->open) return;
  call->answered = true;
  // From here on the queue owns it; another thread may delete it at once.
  Call* const tag = call.release();
  if (answer.ok()) {
    tag->writer.Finish(*answer, grpc::Status::OK, tag);
  } else {
    tag->writer.FinishWithError(ToGrpc(answer.status()), tag);
  }
}

// A call that waits for its answer; if it is dropped without one, its caller
// is told.
class PendingCall {
 public:
  explicit PendingCall(std::unique_ptr<Call> call) : call_(std::move(call)) {}
  PendingCall(PendingCall&&) = default;
  ~PendingCall() {
    if (call_ == nullptr) return;
    Send(std::move(call_),
         absl::UnavailableError("the server dropped the call; call again"));
  }
  void operator()(const absl::StatusOr<grpc::ByteBuffer>& answer) {
    OARLOCK_CHECK(call_ != nullptr);
    Send(std::move(call_), answer);
  }

 private:
  std::unique_ptr<Call> call_;
};

}  // namespace

absl::Status ParameterServiceOptions::Validate() const {
  if (num_threads < 1 || num_threads > kMaxThreads) {
    return absl::InvalidArgumentError(
        absl::StrFormat("num_threads is %d; legal is 1 to %d", num_threads,
                        kMaxThreads));
  }
  if (max_open_calls < 1) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "max_open_calls is %d; legal is at least 1", max_open_calls));
  }
  return absl::OkStatus();
}

class ParameterService::Impl {
 public:
  Impl(const ParameterServiceOptions& options, TableRegistry* registry,
       const Membership* membership, PartitionMap map)
      : options_(options),
        handler_({.server = options.server,
                  .job_hash = options.job_hash,
                  .server_generation = options.server_generation},
                 registry, membership, std::move(map)),
        gate_(std::make_shared<Gate>()) {
    OARLOCK_CHECK(options.Validate().ok());
  }
  ~Impl() { Shutdown(); }

  grpc::Service* service() { return &service_; }

  void AddQueues(grpc::ServerBuilder* builder) {
    OARLOCK_CHECK(queues_.empty());
    for (int i = 0; i < options_.num_threads; ++i) {
      queues_.push_back(builder->AddCompletionQueue());
    }
  }

  void StartThreads() {
    OARLOCK_CHECK(threads_.empty());
    for (const auto& queue : queues_) {
      for (const Method method : kMethods) {
        for (int i = 0; i < kAcceptsPerMethod; ++i) Accept(method, queue.get());
      }
      threads_.emplace_back([this, queue = queue.get()] { Serve(queue); });
    }
  }

  void Shutdown() {
    {
      absl::MutexLock lock(&gate_->mutex);
      if (!gate_->open) return;
      gate_->open = false;
      for (const auto& queue : queues_) queue->Shutdown();
    }
    for (std::thread& thread : threads_) thread.join();
    // Without threads, tags that are left are drained here: gRPC demands it.
    if (threads_.empty()) {
      for (const auto& queue : queues_) Serve(queue.get());
    }
  }

 private:
  // Makes the queue ready to take one more call of `method`.
  void Accept(Method method, grpc::ServerCompletionQueue* queue) {
    absl::ReaderMutexLock lock(&gate_->mutex);
    if (!gate_->open) return;
    Call* const call = new Call(method, gate_);  // Serve deletes it.
    switch (method) {
      case Method::kPullSparse:
        service_.RequestPullSparse(&call->context, &call->request,
                                   &call->writer, queue, queue, call);
        break;
      case Method::kPushSparse:
        service_.RequestPushSparse(&call->context, &call->request,
                                   &call->writer, queue, queue, call);
        break;
      case Method::kPullDense:
        service_.RequestPullDense(&call->context, &call->request,
                                  &call->writer, queue, queue, call);
        break;
      case Method::kPushDense:
        service_.RequestPushDense(&call->context, &call->request,
                                  &call->writer, queue, queue, call);
        break;
    }
  }

  // Works on the queue's calls until it is shut down and empty.
  void Serve(grpc::ServerCompletionQueue* queue) {
    void* tag = nullptr;
    bool ok = false;
    while (queue->Next(&tag, &ok)) {
      std::unique_ptr<Call> call(static_cast<Call*>(tag));
      // Sent, given up by its caller, or never taken: nothing is left to do.
      if (call->answered || !ok) continue;
      call->taken = true;
      const int num_calls =
          gate_->num_calls.fetch_add(1, std::memory_order_relaxed) + 1;
      Accept(call->method, queue);
      if (num_calls > options_.max_open_calls) {
        Send(std::move(call),
             absl::ResourceExhaustedError(absl::StrFormat(
                 "%d calls are open; legal is up to %d; call again, slower",
                 num_calls, options_.max_open_calls)));
        continue;
      }
      Handle(std::move(call));
    }
  }

  void Handle(std::unique_ptr<Call> call) {
    const absl::Status status = CheckToken(call->context);
    if (!status.ok()) return Send(std::move(call), status);
    // The request's memory is shared, so it outlives the call where it must.
    const grpc::ByteBuffer request = call->request;
    const Method method = call->method;
    PendingCall pending(std::move(call));
    switch (method) {
      case Method::kPullSparse:
        return pending(handler_.PullSparse(request));
      case Method::kPullDense:
        return pending(handler_.PullDense(request));
      case Method::kPushSparse:
        return handler_.PushSparse(request, std::move(pending));
      case Method::kPushDense:
        return handler_.PushDense(request, std::move(pending));
    }
  }

  absl::Status CheckToken(const grpc::ServerContext& context) const {
    if (options_.token.empty()) return absl::OkStatus();
    const auto found = context.client_metadata().find(kTokenMetadataKey);
    if (found != context.client_metadata().end() &&
        TokensEqual(std::string(found->second.data(), found->second.size()),
                    options_.token)) {
      return absl::OkStatus();
    }
    return absl::UnauthenticatedError(absl::StrFormat(
        "the call carries %s token as metadata '%s'; give the job's with "
        "--token_file",
        found == context.client_metadata().end() ? "no" : "a wrong",
        kTokenMetadataKey));
  }

  // Constant.
  const ParameterServiceOptions options_;
  const ParameterHandler handler_;
  const std::shared_ptr<Gate> gate_;

  RawService service_;
  // Written before the threads start.
  std::vector<std::unique_ptr<grpc::ServerCompletionQueue>> queues_;
  std::vector<std::thread> threads_;
};

ParameterService::ParameterService(const ParameterServiceOptions& options,
                                   TableRegistry* registry,
                                   const Membership* membership,
                                   PartitionMap map)
    : impl_(std::make_unique<Impl>(options, registry, membership,
                                   std::move(map))) {}

ParameterService::~ParameterService() = default;

grpc::Service* ParameterService::service() { return impl_->service(); }

void ParameterService::AddQueues(grpc::ServerBuilder* builder) {
  impl_->AddQueues(builder);
}

void ParameterService::StartThreads() { impl_->StartThreads(); }

void ParameterService::Shutdown() { impl_->Shutdown(); }

}  // namespace oarlock
