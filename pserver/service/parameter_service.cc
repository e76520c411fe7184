#include "pserver/service/parameter_service.h"

#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_format.h"
#include "absl/synchronization/mutex.h"
#include "base/check.h"
#include "cluster/security.h"
#include "proto/v1/parameter.grpc.pb.h"
#include "pserver/rpc/call_metrics.h"
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
    "Calls of the data plane that were refused unread: for their token, or "
    "since too many were open (open_calls)."};

using Method = UnaryMethod<grpc::ByteBuffer, grpc::ByteBuffer>;
using Call = PendingCall<grpc::ByteBuffer, grpc::ByteBuffer>;

void Answer(Call* call, const absl::StatusOr<grpc::ByteBuffer>& response) {
  if (response.ok()) {
    call->Answer(*response);
  } else {
    call->Fail(response.status());
  }
}

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
  if (max_open_calls < 1) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "max_open_calls is %d; legal is at least 1", max_open_calls));
  }
  return absl::OkStatus();
}

class ParameterService::Impl {
 public:
  Impl(const ParameterServiceOptions& options, TableRegistry* registry,
       PushLedger* ledger, cluster::PartitionMap map, const Clock& clock,
       CutGate* gate, ServerLog* log)
      : options_(options),
        handler_({.server = options.server,
                  .job_hash = options.job_hash,
                  .server_generation = options.server_generation},
                 registry, ledger, std::move(map), clock, gate, log),
        pull_sparse_(Pull(&RawService::RequestPullSparse,
                          &ParameterHandler::PullSparse)),
        pull_dense_(
            Pull(&RawService::RequestPullDense, &ParameterHandler::PullDense)),
        push_sparse_(Push(&RawService::RequestPushSparse,
                          &ParameterHandler::PushSparse)),
        push_dense_(
            Push(&RawService::RequestPushDense, &ParameterHandler::PushDense)),
        batch_(MakeMethod(&RawService::RequestBatch, [this](Call call) {
          HandleBatch(std::move(call));
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
    const auto add_refused = [&](const char* reason, uint64_t calls) {
      snapshot->Add(kRefusedCalls, static_cast<double>(calls),
                    {{"reason", reason}});
    };
    add_refused("token", refused_for_token_.load(std::memory_order_relaxed));
    add_refused("open_calls",
                refused_for_open_calls_.load(std::memory_order_relaxed));
  }

 private:
  // `ask`: a RequestX of RawService, `pull`, `push`: the handler's X.
  template <typename Ask, typename Handle>
  Method Pull(Ask ask, Handle pull) {
    return MakeMethod(ask, [this, pull](Call call) {
      Answer(&call, (handler_.*pull)(call.request()));
    });
  }
  template <typename Ask, typename Handle>
  Method Push(Ask ask, Handle push) {
    return MakeMethod(ask, [this, push](Call call) {
      // Shares the request's memory, which outlives the call where it must.
      const grpc::ByteBuffer request = call.request();
      (handler_.*push)(request,
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
      absl::Status status = cluster::CheckToken(call.context(), options_.token);
      if (!status.ok()) {
        refused_for_token_.fetch_add(1, std::memory_order_relaxed);
        return call.Fail(status);
      }
      status = CountOpen(&call);
      if (!status.ok()) {
        refused_for_open_calls_.fetch_add(1, std::memory_order_relaxed);
        return call.Fail(status);
      }
      handle(std::move(call));
    };
    return method;
  }

  // In their order. Pulls are answered at once, pushes when their mode says so.
  void HandleBatch(Call call) const {
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
          respond(handler_.PullSparse(request));
          break;
        case wire::BatchMethod::kPullDense:
          respond(handler_.PullDense(request));
          break;
        case wire::BatchMethod::kPushSparse:
          handler_.PushSparse(request, respond);
          break;
        case wire::BatchMethod::kPushDense:
          handler_.PushDense(request, respond);
          break;
      }
    }
  }

  // Counts the call for as long as it is open.
  absl::Status CountOpen(Call* call) {
    const int num_open = open_calls_->fetch_add(1, std::memory_order_relaxed);
    call->Keep(std::shared_ptr<const void>(
        open_calls_.get(), [counter = open_calls_](const void*) {
          counter->fetch_sub(1, std::memory_order_relaxed);
        }));
    if (num_open < options_.max_open_calls) return absl::OkStatus();
    return absl::ResourceExhaustedError(absl::StrFormat(
        "%d calls are open; legal is up to %d; call again, slower",
        num_open + 1, options_.max_open_calls));
  }

  // Constant once the queues have started.
  const ParameterServiceOptions options_;
  ParameterHandler handler_;
  // Of calls taken and not yet gone; outlives them.
  const std::shared_ptr<std::atomic<int>> open_calls_ =
      std::make_shared<std::atomic<int>>(0);
  std::atomic<uint64_t> refused_for_token_ = 0;
  std::atomic<uint64_t> refused_for_open_calls_ = 0;
  RawService service_;
  const Method pull_sparse_;
  const Method pull_dense_;
  const Method push_sparse_;
  const Method push_dense_;
  const Method batch_;
};

ParameterService::ParameterService(const ParameterServiceOptions& options,
                                   TableRegistry* registry, PushLedger* ledger,
                                   cluster::PartitionMap map,
                                   const Clock& clock, CutGate* gate,
                                   ServerLog* log)
    : impl_(std::make_unique<Impl>(options, registry, ledger, std::move(map),
                                   clock, gate, log)) {}

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
  metrics.insert(metrics.end(), {&kOpenCalls, &kRefusedCalls});
  return metrics;
}

}  // namespace oarlock::pserver
