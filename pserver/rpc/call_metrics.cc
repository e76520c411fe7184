#include "pserver/rpc/call_metrics.h"

#include <string>

#include "base/check.h"

namespace oarlock::pserver {
namespace {

constexpr Metric kCalls = {
    MetricKind::kCounter, "oarlock_server_calls_total", "calls", "method, code",
    "Pulls and pushes that were answered, those inside a Batch one by one; "
    "code is OK or the error's."};
constexpr Metric kRequestBytes = {MetricKind::kCounter,
                                  "oarlock_server_request_bytes_total", "bytes",
                                  "method", "Bytes of their requests."};
constexpr Metric kResponseBytes = {
    MetricKind::kCounter, "oarlock_server_response_bytes_total", "bytes",
    "method", "Bytes of their responses."};
constexpr Metric kCallSeconds = {
    MetricKind::kHistogram, "oarlock_server_call_seconds", "seconds", "method",
    "From a call's request, read, to its response, ready to be sent; a push in "
    "sync mode waits for its round meanwhile."};

const char* MethodName(size_t method) {
  switch (static_cast<CallMethod>(method)) {
    case CallMethod::kPullSparse:
      return "PullSparse";
    case CallMethod::kPullDense:
      return "PullDense";
    case CallMethod::kPushSparse:
      return "PushSparse";
    case CallMethod::kPushDense:
      return "PushDense";
  }
  OARLOCK_CHECK(false);
}

double Load(const std::atomic<uint64_t>& count) {
  return static_cast<double>(count.load(std::memory_order_relaxed));
}

}  // namespace

void CallMetrics::Call::End(const absl::StatusOr<grpc::ByteBuffer>& response) {
  OfMethod& method = metrics_->methods_[static_cast<size_t>(method_)];
  method.calls[static_cast<size_t>(response.status().raw_code()) % kNumCodes]
      .fetch_add(1, std::memory_order_relaxed);
  method.request_bytes.fetch_add(request_bytes_, std::memory_order_relaxed);
  if (response.ok()) {
    method.response_bytes.fetch_add(response->Length(),
                                    std::memory_order_relaxed);
  }
  method.seconds.Add(metrics_->clock_.Now() - start_);
}

void CallMetrics::Collect(MetricsSnapshot* snapshot) const {
  for (size_t m = 0; m < kNumMethods; ++m) {
    const OfMethod& method = methods_[m];
    const char* const name = MethodName(m);
    for (size_t code = 0; code < kNumCodes; ++code) {
      const double calls = Load(method.calls[code]);
      // OK is always reported, so that a rate has something to start from.
      if (code != 0 && calls == 0) continue;
      snapshot->Add(kCalls, calls,
                    {{"method", name},
                     {"code", absl::StatusCodeToString(
                                  static_cast<absl::StatusCode>(code))}});
    }
    snapshot->Add(kRequestBytes, Load(method.request_bytes),
                  {{"method", name}});
    snapshot->Add(kResponseBytes, Load(method.response_bytes),
                  {{"method", name}});
    snapshot->Add(kCallSeconds, method.seconds.Values(), {{"method", name}});
  }
}

MetricList CallMetricsList() {
  static constexpr const Metric* kAll[] = {&kCalls, &kRequestBytes,
                                           &kResponseBytes, &kCallSeconds};
  return kAll;
}

}  // namespace oarlock::pserver
