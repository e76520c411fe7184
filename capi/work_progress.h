// What this worker has done of works and evaluations, as its heartbeats tell
// the coordinator.

#ifndef OARLOCK_CAPI_WORK_PROGRESS_H_
#define OARLOCK_CAPI_WORK_PROGRESS_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "base/auc.h"
#include "proto/v1/coordinator_progress.pb.h"

namespace oarlock::capi {

// A name and an epoch: "train", 0.
using WorkId = std::pair<std::string, uint32_t>;

// "train/0".
std::string NameOf(const WorkId& work);

// Thread-safe.
class WorkProgress {
 public:
  // Evaluations that a client may add to at a time; each takes 0.5 MB.
  static constexpr size_t kMaxEvaluations = 16;

  // A step of so many examples was pushed.
  void AddStep(const WorkId& work, uint64_t examples);

  // Adds examples to an evaluation: labels, 0 or 1, and predicted
  // probabilities. InvalidArgument, and nothing is added, for other values;
  // ResourceExhausted for one evaluation too many.
  absl::Status AddPredictions(const WorkId& evaluation,
                              absl::Span<const float> labels,
                              absl::Span<const float> predictions);
  // What was added goes with the next report, or is forgotten.
  void EndEvaluation(const WorkId& evaluation, bool report);

  // What was done since the last call: one message for each work.
  std::vector<v1::PhaseProgress> Take();

 private:
  struct Sums {
    v1::PhaseProgress progress;
    AucHistogram histogram;
  };

  absl::Mutex mutex_;
  std::map<WorkId, Sums> evaluations_ ABSL_GUARDED_BY(mutex_);
  std::map<WorkId, v1::PhaseProgress> done_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace oarlock::capi

#endif  // OARLOCK_CAPI_WORK_PROGRESS_H_
