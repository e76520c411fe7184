#include "fleet/role/metrics_server.h"

#include <netdb.h>
#include <prometheus/collectable.h>
#include <prometheus/exposer.h>
#include <prometheus/metric_family.h>
#include <sys/socket.h>
#include <unistd.h>

#include <exception>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/check.h"
#include "base/process/listen_check.h"
#include "base/status_macros.h"
#include "base/ticker.h"

namespace oarlock {
namespace {

constexpr int kMaxPort = 65535;
// While the HTTP server is being ended.
constexpr absl::Duration kKnockInterval = absl::Milliseconds(10);

prometheus::MetricType TypeOf(MetricKind kind) {
  switch (kind) {
    case MetricKind::kCounter:
      return prometheus::MetricType::Counter;
    case MetricKind::kGauge:
      return prometheus::MetricType::Gauge;
    case MetricKind::kHistogram:
      return prometheus::MetricType::Histogram;
  }
  OARLOCK_CHECK(false);
}

prometheus::ClientMetric::Histogram ToPrometheus(
    const HistogramValues& values) {
  prometheus::ClientMetric::Histogram histogram;
  for (size_t i = 0; i < values.counts.size(); ++i) {
    histogram.sample_count += values.counts[i];
    histogram.bucket.push_back(
        {.cumulative_count = histogram.sample_count,
         .upper_bound = i < values.bounds.size()
                            ? values.bounds[i]
                            : std::numeric_limits<double>::infinity()});
  }
  histogram.sample_sum = values.sum;
  return histogram;
}

prometheus::ClientMetric ToPrometheus(const MetricsSnapshot::Sample& sample,
                                      MetricKind kind) {
  prometheus::ClientMetric metric;
  for (const auto& [name, value] : sample.labels) {
    metric.label.push_back({name, value});
  }
  switch (kind) {
    case MetricKind::kCounter:
      metric.counter.value = sample.value;
      break;
    case MetricKind::kGauge:
      metric.gauge.value = sample.value;
      break;
    case MetricKind::kHistogram:
      metric.histogram = ToPrometheus(sample.histogram);
      break;
  }
  return metric;
}

class SourceCollectable : public prometheus::Collectable {
 public:
  explicit SourceCollectable(MetricsServer::Source source)
      : source_(std::move(source)) {}

  std::vector<prometheus::MetricFamily> Collect() const override {
    MetricsSnapshot snapshot;
    source_(&snapshot);
    std::vector<prometheus::MetricFamily> result;
    for (const auto& [name, family] : snapshot.families()) {
      const Metric& metric = *family.metric;
      prometheus::MetricFamily out;
      out.name = metric.name;
      out.help = metric.help;
      out.type = TypeOf(metric.kind);
      for (const MetricsSnapshot::Sample& sample : family.samples) {
        out.metric.push_back(ToPrometheus(sample, metric.kind));
      }
      result.push_back(std::move(out));
    }
    return result;
  }

 private:
  const MetricsServer::Source source_;
};

// Connects to whoever listens there, and hangs up.
void Knock(const std::string& host, int port) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (getaddrinfo(WithoutBrackets(host).c_str(), absl::StrCat(port).c_str(),
                  &hints, &found) != 0) {
    return;
  }
  for (const addrinfo* a = found; a != nullptr; a = a->ai_next) {
    const int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) continue;
    (void)!connect(fd, a->ai_addr, a->ai_addrlen);
    close(fd);
  }
  freeaddrinfo(found);
}

class PrometheusServer : public MetricsServer {
 public:
  // Throws what the exposer throws.
  PrometheusServer(const std::string& host, int port, const Clock& clock)
      : host_(host),
        clock_(clock),
        exposer_(std::make_unique<prometheus::Exposer>(
            absl::StrCat(host, ":", port), kNumThreads)),
        port_(exposer_->GetListeningPorts().front()) {}

  // civetweb looks every two seconds whether it is to end, and when somebody
  // comes; so somebody does.
  ~PrometheusServer() override {
    const Ticker knocker(clock_, kKnockInterval,
                         [this] { Knock(host_, port_); });
    exposer_.reset();
  }

  void Serve(Source source) override {
    OARLOCK_CHECK(collectable_ == nullptr);
    collectable_ = std::make_shared<SourceCollectable>(std::move(source));
    exposer_->RegisterCollectable(collectable_);
  }

  int port() const override { return port_; }

 private:
  const std::string host_;
  const Clock& clock_;
  // Its threads end in the destructor. It holds the collectable weakly.
  std::unique_ptr<prometheus::Exposer> exposer_;
  const int port_;
  std::shared_ptr<SourceCollectable> collectable_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<MetricsServer>> MetricsServer::Listen(
    const std::string& host, int port, const Clock& clock) {
  if (port < 0 || port > kMaxPort) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the port for metrics is ", port, "; legal are 0 to ", kMaxPort));
  }
  const std::string endpoint = absl::StrCat(host, ":", port);
  if (absl::Status status = CheckCanListen(endpoint); !status.ok()) {
    return absl::Status(status.code(),
                        absl::StrCat("metrics: ", status.message()));
  }
  try {
    return std::make_unique<PrometheusServer>(host, port, clock);
  } catch (const std::exception& error) {
    // Somebody may have taken the port since it was looked at.
    return absl::FailedPreconditionError(
        absl::StrCat("metrics: cannot listen on ", endpoint, ": ", error.what(),
                     "; choose another --metrics_port"));
  }
}

}  // namespace oarlock
