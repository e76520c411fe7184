// Metrics: what a process counts, and how it is told to who asks.
//
// A metric is declared beside its use, with name, unit and a sentence, and
// belongs to a list of its library (`XMetrics()`), from which docs/metrics.md
// is made. What is counted lies in plain atomics that whoever counts owns, or
// in what it keeps anyhow; it is collected when somebody asks
// (fleet/role/metrics_server.h), so counting takes no lock and no memory.

#ifndef OARLOCK_BASE_METRICS_H_
#define OARLOCK_BASE_METRICS_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

namespace oarlock {

enum class MetricKind {
  kCounter,    // only grows while the process runs; its name ends in _total
  kGauge,      // goes up and down
  kHistogram,  // counts of values in buckets, and their sum
};

// What metrics are known by. All texts live as long as the program.
struct Metric {
  MetricKind kind;
  // "oarlock_server_pull_rows_total".
  const char* name;
  // What it counts: "rows", "bytes", "seconds".
  const char* unit;
  // The labels that its values carry, comma separated: "table, kind".
  const char* labels;
  // One sentence.
  const char* help;
};

using MetricList = absl::Span<const Metric* const>;

// "counter", "gauge", "histogram".
const char* MetricKindName(MetricKind kind);

// A histogram's values as they are told.
struct HistogramValues {
  // Inclusive upper bounds, ascending; what is larger than the last is beyond
  // them. counts has one more element, for those.
  std::vector<double> bounds;
  std::vector<uint64_t> counts;
  double sum = 0;
};

// How long something took. Buckets double from kFirstBoundNs on. Thread-safe;
// Add is two relaxed additions.
class LatencyHistogram {
 public:
  static constexpr uint64_t kFirstBoundNs = 8000;
  // The last bound is 8.4 s.
  static constexpr size_t kNumBounds = 21;

  void Add(absl::Duration time);
  // In seconds. What is added meanwhile may be in the counts and not in the
  // sum.
  HistogramValues Values() const;

 private:
  std::array<std::atomic<uint64_t>, kNumBounds + 1> counts_{};
  std::atomic<uint64_t> sum_ns_ = 0;
};

// The values of all metrics at one moment, being collected. Not thread-safe.
class MetricsSnapshot {
 public:
  // Name and value of each label, in the order of Metric::labels.
  using Labels = std::vector<std::pair<std::string, std::string>>;
  struct Sample {
    Labels labels;
    double value = 0;           // of counters and gauges
    HistogramValues histogram;  // of histograms
  };
  struct Family {
    const Metric* metric = nullptr;
    std::vector<Sample> samples;
  };

  // `metric` must outlive this; each set of labels is added once per metric.
  // REQUIRES: the labels' names are those that the metric declares, its kind
  // fits.
  void Add(const Metric& metric, double value, Labels labels = {});
  void Add(const Metric& metric, HistogramValues values, Labels labels = {});

  // By name.
  const std::map<absl::string_view, Family>& families() const {
    return families_;
  }

 private:
  std::vector<Sample>& SamplesOf(const Metric& metric, const Labels& labels);

  std::map<absl::string_view, Family> families_;
};

}  // namespace oarlock

#endif  // OARLOCK_BASE_METRICS_H_
