// What a worker has done since it last reported.

#ifndef OARLOCK_WORKER_REPORT_PROGRESS_METER_H_
#define OARLOCK_WORKER_REPORT_PROGRESS_METER_H_

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/auc.h"
#include "proto/v1/coordinator_progress.pb.h"

namespace oarlock::worker {

// The stages of a step. What a stage's thread does is its own time; what the
// computing thread waits for is a wait.
enum class Stage {
  kRead,      // read, parse, deduplicate
  kPull,      // from asking for rows to having them
  kWaitPull,  // the part of it that computing waited for
  kCompute,   // forward and backward
  kPush,      // from sending gradients to the response
  kWaitPush,  // waiting for a permit to send
  kNumStages,
};
std::string StageName(Stage stage);

// What is done with the data, in which epoch.
struct PhaseId {
  std::string phase;  // "train" or "test"
  uint32_t epoch = 0;
  friend auto operator<=>(const PhaseId&, const PhaseId&) = default;

  // Its phase name: "train/0".
  std::string Name() const { return phase + "/" + std::to_string(epoch); }
};

// Losses are added up in multiples of this, nats. Sums below 2^29, those of a
// billion examples of a click log, are exact then: they do not tell how steps
// were grouped into reports, nor which report came first, and a job that
// repeats has the same logloss to the last bit.
inline constexpr double kLossUnit = 1.0 / (1 << 24);

// Totals of a phase on this worker.
struct PhaseTotals {
  uint64_t examples = 0;
  uint64_t steps = 0;
  double loss_sum = 0;
  double label_sum = 0;
};

// All that a worker has done in the phases of one kind.
struct KindTotals {
  uint64_t examples = 0;
  uint64_t steps = 0;
  uint64_t bad_lines = 0;
  double loss_sum = 0;
  std::array<double, static_cast<size_t>(Stage::kNumStages)> stage_seconds{};
  // staleness[i]: gradients sent 2^(i-1) .. 2^i - 1 pushes after their rows
  // were read (0: none).
  std::vector<uint64_t> staleness;
  uint64_t staleness_sum = 0;
  // The same of exchanges of dense parameters.
  std::vector<uint64_t> dense_staleness;
  uint64_t dense_staleness_sum = 0;
  // With a cache of rows: rows needed, and found in it.
  uint64_t row_cache_lookups = 0;
  uint64_t row_cache_hits = 0;
  // The newest phase of it, and its part.
  PhaseId newest;
  PhaseTotals newest_totals;
};

// Thread-safe.
class ProgressMeter {
 public:
  // A step's examples: their labels (0 or 1) and predictions, and the sum of
  // their losses, of which the nearest multiple of kLossUnit counts. Returns
  // the totals so far.
  PhaseTotals AddStep(const PhaseId& phase, absl::Span<const float> labels,
                      absl::Span<const float> predictions, double loss_sum);
  // Remembers the largest magnitude among the dense features of a step,
  // [num_examples, features].
  void ObserveDense(absl::Span<const float> dense, size_t num_examples);
  // The largest so far, and its column.
  struct LargestDense {
    float magnitude = 0;
    size_t column = 0;
  };
  LargestDense largest_dense() const;
  // Of this worker's examples of the phase so far; NaN while a class is
  // missing.
  double Auc(const PhaseId& phase) const;
  void AddTime(const PhaseId& phase, Stage stage, absl::Duration time);
  void AddBadLines(const PhaseId& phase, uint64_t lines);
  // A gradient was sent `pushes` pushes after its rows were read.
  void AddStaleness(const PhaseId& phase, uint64_t pushes);
  // Dense parameters were `pushes` pushes old when their gradients were sent.
  void AddDenseStaleness(const PhaseId& phase, uint64_t pushes);
  // `rows` distinct rows were needed, and `pulled` of them were not in the
  // cache.
  void AddRowCache(const PhaseId& phase, uint64_t rows, uint64_t pulled);
  // What AddStaleness has counted of the phase so far (base/log2_histogram.h).
  std::vector<uint64_t> Staleness(const PhaseId& phase) const;

  // Everything since the start, by kind.
  std::map<std::string, KindTotals> Totals() const;

  // Everything since the last call, one message per phase that moved.
  std::vector<v1::PhaseProgress> Take();

 private:
  struct PhaseCounts {
    v1::PhaseProgress since_report;
    AucHistogram auc_since_report;
    std::array<double, static_cast<size_t>(Stage::kNumStages)> seconds{};
    bool moved = false;
    PhaseTotals totals;
    std::vector<uint64_t> staleness;
    AucHistogram auc_total;
    // In kinds_; never null once the phase has moved.
    KindTotals* kind = nullptr;
  };
  PhaseCounts& Moved(const PhaseId& phase)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable absl::Mutex mutex_;
  std::map<PhaseId, PhaseCounts> phases_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, KindTotals> kinds_ ABSL_GUARDED_BY(mutex_);
  LargestDense largest_dense_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace oarlock::worker

#endif  // OARLOCK_WORKER_REPORT_PROGRESS_METER_H_
