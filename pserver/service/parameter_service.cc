#include "pserver/service/parameter_service.h"

#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/check.h"
#include "cluster/security.h"
#include "proto/v1/parameter.grpc.pb.h"
#include "pserver/rpc/call_metrics.h"
#include "pserver/rpc/response_budget.h"
#include "pserver/rpc/unary_call.h"
#include "pserver/service/parameter_handler.h"
#include "wire/batch_codec.h"

namespace oarlock::pserver {
namespace {

// Calls of each method that a queue is ready to take at once; more wait inside
// gRPC.
constexpr int kAcceptsPerMethod = 4;

// Requests and responses as the bytes that gRPC moves.
using RawService = v1::ParameterService::WithRawMethod_PullSparse<
    v1::ParameterService::WithRawMethod_PushSparse<
        v1::ParameterService::WithRawMethod_PullDense<
            v1::ParameterService::WithRawMethod_PushDense<
                v1::ParameterService::WithRawMethod_Batch<
                    v1::ParameterService::Service>>>>>;
constexpr Metric kOpenCalls = {
    MetricKind::kGauge, "oarlock_server_open_calls", "calls", "",
    "Calls of the data plane that are taken and not answered, those that wait "
    "for their round included; a Batch counts once."};
constexpr Metric kRefusedCalls = {
    MetricKind::kCounter, "oarlock_server_refused_calls_total", "calls",
    "reason",
    "Calls of the data plane that were refused unread, for their token."};
constexpr Metric kHeldBytes = {
    MetricKind::kGauge, "oarlock_server_held_bytes", "bytes", "",
    "Of pushes that wait for their round or cut, their calls included."};
constexpr Metric kResponseBytes = {
    MetricKind::kGauge, "oarlock_server_response_bytes", "bytes", "",
    "Of responses to pulls that are on the way."};

using Method = UnaryMethod<grpc::ByteBuffer, grpc::ByteBuffer>;
using Call = PendingCall<grpc::ByteBuffer, grpc::ByteBuffer>;

void Answer(Call* call, const absl::StatusOr<grpc::ByteBuffer>& response) {
  if (response.ok()) {
    call->Answer(*response);
  } else {
    call->Fail(response.status());
  }
}

// A call from its arrival until its response is sent.
class OpenCall {
 public:
  OpenCall(std::shared_ptr<std::atomic<int>> counter,
           std::shared_ptr<ResponseBudget> responses)
      : share(std::move(responses)), counter_(std::move(counter)) {
    counter_->fetch_add(1, std::memory_order_relaxed);
  }
  ~OpenCall() { counter_->fetch_sub(1, std::memory_order_relaxed); }

  ResponseBudget::Share share;

 private:
  const std::shared_ptr<std::atomic<int>> counter_;
};

// Collects the responses of a batch's calls and sends them when all are there.
// Thread-safe: a round may answer from any thread.
class BatchResponses {
 public:
  BatchResponses(Call call, size_t num_calls)
      : call_(std::move(call)),
        responses_(num_calls, absl::UnavailableError(
                                  "the server dropped the call; call again")) {}
  // The last call has been answered or dropped.
  ~BatchResponses() { call_.Answer(wire::EncodeBatchResponse(responses_)); }

  void Set(size_t index, absl::StatusOr<grpc::ByteBuffer> response) {
    absl::MutexLock lock(&mutex_);
    responses_[index] = std::move(response);
  }

 private:
  Call call_;
  absl::Mutex mutex_;
  std::vector<absl::StatusOr<grpc::ByteBuffer>> responses_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace

absl::Status ParameterServiceOptions::Validate() const {
  if (max_response_bytes < 1) {
    return absl::InvalidArgumentError(
        "max_response_bytes is 0; legal is at least 1");
  }
  return absl::OkStatus();
}

class ParameterService::Impl {
 public:
  Impl(const ParameterServiceOptions& options, TableRegistry* registry,
       PushLedger* ledger, HoldBudget* holds, cluster::PartitionMap map,
       const Clock& clock, CutGate* gate, ServerLog* log)
      : options_(options),
        holds_(holds),
        responses_(
            std::make_shared<ResponseBudget>(options.max_response_bytes)),
        handler_({.server = options.server,
                  .job_hash = options.job_hash,
                  .server_generation = options.server_generation},
                 registry, ledger, holds, std::move(map), clock, gate, log),
        pull_sparse_(Pull(&RawService::RequestPullSparse,
                          &ParameterHandler::PullSparse)),
        pull_dense_(
            Pull(&RawService::RequestPullDense, &ParameterHandler::PullDense)),
        push_sparse_(Push(&RawService::RequestPushSparse,
                          &ParameterHandler::PushSparse)),
        push_dense_(
            Push(&RawService::RequestPushDense, &ParameterHandler::PushDense)),
        batch_(MakeMethod(&RawService::RequestBatch,
                          [this](Call call, OpenCall* open) {
                            HandleBatch(std::move(call), &open->share);
                          })) {
    OARLOCK_CHECK(options.Validate().ok());
  }

  grpc::Service* service() { return &service_; }

  void Accept(grpc::ServerCompletionQueue* queue,
              const std::shared_ptr<QueueGate>& gate) const {
    for (const Method* method :
         {&pull_sparse_, &pull_dense_, &push_sparse_, &push_dense_, &batch_}) {
      for (int i = 0; i < kAcceptsPerMethod; ++i) {
        UnaryCall<grpc::ByteBuffer, grpc::ByteBuffer>::Accept(method, queue,
                                                              gate);
      }
    }
  }

  void CollectMetrics(MetricsSnapshot* snapshot) const {
    handler_.metrics().Collect(snapshot);
    snapshot->Add(kOpenCalls, open_calls_->load(std::memory_order_relaxed));
    snapshot->Add(kHeldBytes, static_cast<double>(holds_->held_bytes()));
    snapshot->Add(kResponseBytes,
                  static_cast<double>(responses_->response_bytes()));
    snapshot->Add(
        kRefusedCalls,
        static_cast<double>(refused_for_token_.load(std::memory_order_relaxed)),
        {{"reason", "token"}});
  }

 private:
  // `ask`: a RequestX of RawService, `pull`, `push`: the handler's X.
  template <typename Ask, typename Handle>
  Method Pull(Ask ask, Handle pull) {
    return MakeMethod(ask, [this, pull](Call call, OpenCall* open) {
      Answer(&call, (handler_.*pull)(call.request(), &open->share));
    });
  }
  template <typename Ask, typename Handle>
  Method Push(Ask ask, Handle push) {
    return MakeMethod(ask, [this, push](Call call, OpenCall* open) {
      // Shares the request's memory, which outlives the call where it must.
      const grpc::ByteBuffer request = call.request();
      (handler_.*push)(request, &open->share,
                       [call = std::move(call)](
                           absl::StatusOr<grpc::ByteBuffer> response) mutable {
                         Answer(&call, response);
                       });
    });
  }
  template <typename Ask, typename Handle>
  Method MakeMethod(Ask ask, Handle handle) {
    Method method;
    method.ask = [this, ask](auto* context, auto* request, auto* writer,
                             auto* queue, void* tag) {
      (service_.*ask)(context, request, writer, queue, queue, tag);
    };
    method.handle = [this, handle](Call call) {
      const absl::Status status =
          cluster::CheckToken(call.context(), options_.token);
      if (!status.ok()) {
        refused_for_token_.fetch_add(1, std::memory_order_relaxed);
        return call.Fail(status);
      }
      // Here, too, since an answered call is gone at once.
      const auto open = std::make_shared<OpenCall>(open_calls_, responses_);
      call.Keep(open);
      handle(std::move(call), open.get());
    };
    return method;
  }

  // In their order. Pulls are answered at once, pushes when their mode says so.
  void HandleBatch(Call call, ResponseBudget::Share* share) const {
    const absl::StatusOr<std::vector<wire::BatchedCall>> calls =
        wire::DecodeBatchRequest(call.request());
    if (!calls.ok()) return call.Fail(calls.status());
    // Shared by the responses that are still to come.
    const auto responses =
        std::make_shared<BatchResponses>(std::move(call), calls->size());
    for (size_t i = 0; i < calls->size(); ++i) {
      const grpc::ByteBuffer& request = (*calls)[i].request;
      const auto respond = [responses,
                            i](absl::StatusOr<grpc::ByteBuffer> result) {
        responses->Set(i, std::move(result));
      };
      switch ((*calls)[i].method) {
        case wire::BatchMethod::kPullSparse:
          respond(handler_.PullSparse(request, share));
          break;
        case wire::BatchMethod::kPullDense:
          respond(handler_.PullDense(request, share));
          break;
        case wire::BatchMethod::kPushSparse:
          handler_.PushSparse(request, share, respond);
          break;
        case wire::BatchMethod::kPushDense:
          handler_.PushDense(request, share, respond);
          break;
      }
    }
  }

  // Constant once the queues have started.
  const ParameterServiceOptions options_;
  HoldBudget* const holds_;
  // Outlives its calls.
  const std::shared_ptr<ResponseBudget> responses_;
  ParameterHandler handler_;
  // Of calls taken and not yet gone; outlives them.
  const std::shared_ptr<std::atomic<int>> open_calls_ =
      std::make_shared<std::atomic<int>>(0);
  std::atomic<uint64_t> refused_for_token_ = 0;
  RawService service_;
  const Method pull_sparse_;
  const Method pull_dense_;
  const Method push_sparse_;
  const Method push_dense_;
  const Method batch_;
};

ParameterService::ParameterService(const ParameterServiceOptions& options,
                                   TableRegistry* registry, PushLedger* ledger,
                                   HoldBudget* holds, cluster::PartitionMap map,
                                   const Clock& clock, CutGate* gate,
                                   ServerLog* log)
    : impl_(std::make_unique<Impl>(options, registry, ledger, holds,
                                   std::move(map), clock, gate, log)) {}

ParameterService::~ParameterService() = default;

grpc::Service* ParameterService::service() { return impl_->service(); }

CallQueues::Acceptor ParameterService::Acceptor(
    std::shared_ptr<QueueGate> gate) const {
  return [this, gate = std::move(gate)](grpc::ServerCompletionQueue* queue) {
    impl_->Accept(queue, gate);
  };
}

void ParameterService::CollectMetrics(MetricsSnapshot* snapshot) const {
  impl_->CollectMetrics(snapshot);
}

std::vector<const Metric*> ParameterServiceMetrics() {
  const MetricList calls = CallMetricsList();
  std::vector<const Metric*> metrics(calls.begin(), calls.end());
  metrics.insert(metrics.end(),
                 {&kOpenCalls, &kRefusedCalls, &kHeldBytes, &kResponseBytes});
  return metrics;
}

}  // namespace oarlock::pserver
