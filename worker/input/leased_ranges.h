// Ranges leased from the coordinator, a few at a time.

#ifndef OARLOCK_WORKER_INPUT_LEASED_RANGES_H_
#define OARLOCK_WORKER_INPUT_LEASED_RANGES_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/clock.h"
#include "client/job_client.h"
#include "data/range_source.h"

namespace oarlock::worker {

// Thread-safe: all compute threads of a worker share one. Ranges are given to
// whoever asks first, so stragglers, joiners and fewer files than workers are
// no special case.
class LeasedRanges : public data::RangeSource {
 public:
  // Works off a push completion; OK when all of its pushes were acknowledged.
  // Thread-safe.
  using RunCompletion =
      std::function<absl::Status(const client::PushCompletion& completion)>;

  // `phase_name` is its name at the coordinator. `job` and `clock` outlive
  // this. `run_completion` may be null in a phase that pushes nothing.
  LeasedRanges(client::JobClient* job, std::string phase_name,
               RunCompletion run_completion, const Clock& clock)
      : job_(job),
        phase_name_(std::move(phase_name)),
        run_completion_(std::move(run_completion)),
        clock_(clock) {}

  // Push completions that the coordinator has are worked off first, in the
  // thread that asks for ranges; one that fails is the result.
  absl::StatusOr<std::optional<data::DataRange>> Next() override;
  // Remembers the lease; its gradients may still be on their way.
  void Done(const data::DataRange& item) override;

  // All gradients have been acknowledged: reports progress, then tells the
  // coordinator what is done. In this order: what was reported of an evaluation
  // counts for good when its leases are told done, and goes with a worker that
  // dies before, as its leases do.
  absl::Status ReportDone();
  // Waits until there is something that the next Next() will take, as when
  // another worker is lost, or the phase is over: false. Then it is over for
  // every worker, whenever it asks. An error once the job is ending or this
  // worker is fenced. REQUIRES: nobody is in Next().
  absl::StatusOr<bool> AwaitMore();

 private:
  client::JobClient* const job_;
  const std::string phase_name_;
  const RunCompletion run_completion_;
  const Clock& clock_;
  // What is leased next, or was while waiting for more.
  absl::StatusOr<client::Leases> Lease(const std::vector<uint64_t>& done);

  absl::Mutex mutex_;
  // Leased by AwaitMore.
  std::optional<client::Leases> ahead_ ABSL_GUARDED_BY(mutex_);
  std::vector<uint64_t> done_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace oarlock::worker

#endif  // OARLOCK_WORKER_INPUT_LEASED_RANGES_H_
