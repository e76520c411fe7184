// The HTTP server of a process from which Prometheus scrapes its metrics. Plain
// HTTP without a token: who may reach the address may read them. They hold
// names and figures, no keys and no values of parameters.

#ifndef OARLOCK_FLEET_ROLE_METRICS_SERVER_H_
#define OARLOCK_FLEET_ROLE_METRICS_SERVER_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/metrics.h"

namespace oarlock {

// Thread-safe.
class MetricsServer {
 public:
  // Scrapes that are answered at a time; more wait.
  static constexpr int kNumThreads = 2;

  // Called for each scrape, by the server's threads, several at a time.
  using Source = std::function<void(MetricsSnapshot*)>;

  // Listens on `host` and `port` (0: any free one) and knows nothing yet.
  // AlreadyExists when the port is in use; InvalidArgument for a port beyond
  // 65535; FailedPrecondition when the host is not this machine's. `clock`,
  // which is monotonic, outlives it.
  static absl::StatusOr<std::unique_ptr<MetricsServer>> Listen(
      const std::string& host, int port, const Clock& clock);
  virtual ~MetricsServer() = default;

  // From now on /metrics tells what `source` collects. Call once. The source
  // is not called any more when the destructor has returned; a scrape that is
  // waiting then may stay without a response until the process ends.
  virtual void Serve(Source source) = 0;

  virtual int port() const = 0;
};

}  // namespace oarlock

#endif  // OARLOCK_FLEET_ROLE_METRICS_SERVER_H_
