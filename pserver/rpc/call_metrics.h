// Counts a server's calls of the data plane.

#ifndef OARLOCK_PSERVER_RPC_CALL_METRICS_H_
#define OARLOCK_PSERVER_RPC_CALL_METRICS_H_

#include <grpcpp/support/byte_buffer.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/metrics.h"

namespace oarlock::pserver {

enum class CallMethod { kPullSparse, kPullDense, kPushSparse, kPushDense };

// Thread-safe. A call costs five relaxed additions to a cache line of its
// method's own, and reads the time twice.
class CallMetrics {
 public:
  // `clock`, which is monotonic, outlives the calls.
  explicit CallMetrics(const Clock& clock) : clock_(clock) {}

  // One call from its request to its response, however long that takes and
  // whichever thread answers it. It keeps the counters alive.
  class Call {
   public:
    Call(std::shared_ptr<CallMetrics> metrics, CallMethod method,
         const grpc::ByteBuffer& request)
        : metrics_(std::move(metrics)),
          method_(method),
          request_bytes_(request.Length()),
          start_(metrics_->clock_.Now()) {}

    // Call once.
    void End(const absl::StatusOr<grpc::ByteBuffer>& response);

   private:
    std::shared_ptr<CallMetrics> metrics_;
    CallMethod method_;
    uint64_t request_bytes_;
    absl::Time start_;
  };

  void Collect(MetricsSnapshot* snapshot) const;

 private:
  static constexpr size_t kNumMethods = 4;
  // absl's codes are 0 to 16.
  static constexpr size_t kNumCodes = 17;
  static constexpr size_t kCacheLineBytes = 64;

  struct alignas(kCacheLineBytes) OfMethod {
    std::array<std::atomic<uint64_t>, kNumCodes> calls{};
    std::atomic<uint64_t> request_bytes = 0;
    std::atomic<uint64_t> response_bytes = 0;
    LatencyHistogram seconds;
  };

  const Clock& clock_;
  std::array<OfMethod, kNumMethods> methods_;
};

MetricList CallMetricsList();

}  // namespace oarlock::pserver

#endif  // OARLOCK_PSERVER_RPC_CALL_METRICS_H_
