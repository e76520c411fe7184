// Evaluations of a job: what follows from one, and those that are made beside
// training.

#ifndef OARLOCK_WORKER_EVALUATION_EVALUATION_H_
#define OARLOCK_WORKER_EVALUATION_EVALUATION_H_

#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "base/clock.h"
#include "client/job_client.h"
#include "data/range_source.h"
#include "proto/config/job_config.pb.h"
#include "proto/v1/coordinator_job.pb.h"
#include "proto/v1/coordinator_training.pb.h"
#include "worker/dense/dense_parameters.h"
#include "worker/epoch/epoch_context.h"
#include "worker/report/progress_meter.h"

namespace oarlock::worker {

// Examples and steps of all epochs so far, over all workers.
struct TrainedTotals {
  uint64_t examples = 0;
  uint64_t steps = 0;
};
TrainedTotals TrainedTotalsOf(const v1::JobStatusResponse& status);

// InvalidArgument when flags ask for evaluations of test files that are not
// named.
absl::Status CheckEvaluation(const v1::JobConfig& config);

// Whether an evaluation of the test files predicted anything.
bool HasTestExamples(const v1::JobStatusResponse& status);

// FailedPrecondition: the test files have no example, so there is no metric.
// Where early stopping waits for one that ends the job; else it is a warning.
absl::Status NoTestExamples(const v1::JobConfig& config);
bool NeedsTestExamples(const v1::JobConfig& config);

// By one worker of the job, once for each evaluation: adds it to the job's list
// and the log. With early stopping, if it is the best one so far, a checkpoint
// is made that stays until a better one (where the job makes checkpoints; one
// that fails is a warning), and if it has been the best one for too long,
// training is stopped. Of `evaluation` what is measured must be set. One that
// this run has told before is not told again; one of a run before --resume, of
// an epoch that was cut short then, stays in the list, and this one follows. It
// is of now, by `wall_clock`.
absl::Status ConcludeEvaluation(const v1::JobConfig& config,
                                client::JobClient* job,
                                v1::Evaluation evaluation,
                                const Clock& wall_clock);

// By all workers, when a phase that predicts (phase and epoch) is over: worker
// 0 concludes it, and all return when that is done. `file`: of Evaluation.
// NoTestExamples, to worker 0, where they are needed.
absl::Status ConcludeEvaluationOfAll(const v1::JobConfig& config,
                                     client::JobClient* job,
                                     const PhaseId& phase,
                                     const std::string& file,
                                     const Clock& wall_clock);

// Evaluates all test files again and again, on a thread of its own, while the
// compute threads of all workers train. It reads parameters as any reader does,
// the newest that the servers have at that moment, holds no leases, takes no
// part in barriers, rounds or cuts, and uses one core besides theirs.
//
// The period is told in examples of the whole job, not in time: so the points
// of two runs lie at the same places of their curves, whatever else the
// machines do. An evaluation that takes longer than a period leaves out the
// ones that it runs into.
//
// Thread-safe.
class PeriodicEvaluation {
 public:
  // Begins at the next multiple of `period_examples` >= 1. `context` is that of
  // an evaluation but for phase, ranges, dense and progress, which are made
  // here; all that it refers to outlives this. `items`: the test files as a
  // whole.
  PeriodicEvaluation(const EpochContext& context,
                     std::vector<data::DataRange> items,
                     uint64_t period_examples);
  // Gives up one that is under way.
  ~PeriodicEvaluation();

 private:
  class Items;

  void Run();
  // Until the job has trained as many; false: this is being ended.
  absl::StatusOr<bool> AwaitTrained(uint64_t examples,
                                    v1::JobStatusResponse* status);
  absl::Status EvaluateOnce(const v1::JobStatusResponse& status);
  bool stopping() const {
    absl::MutexLock lock(&mutex_);
    return stopping_;
  }

  EpochContext context_;
  const std::vector<data::DataRange> items_;
  const uint64_t period_examples_;
  DenseParameters dense_;

  mutable absl::Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace oarlock::worker

#endif  // OARLOCK_WORKER_EVALUATION_EVALUATION_H_
