// Sums the gradients of all ranks while backward still runs.

#ifndef OARLOCK_FLEET_DATA_PARALLEL_BUCKET_REDUCER_H_
#define OARLOCK_FLEET_DATA_PARALLEL_BUCKET_REDUCER_H_

#include <cstddef>
#include <deque>
#include <optional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/clock.h"
#include "collective/communicator.h"
#include "fleet/data_parallel/step_times.h"

namespace oarlock {

// Gradients are one flat vector that becomes final from its end towards its
// beginning (Workspace::Backward). As soon as a bucket of it is final its
// sum begins, on a thread of this class's own; buckets are summed one after the
// other, the same ones on all ranks, since all compute the same network.
//
// One thread at a time calls it.
class BucketReducer {
 public:
  // `communicator` outlives this and belongs to its thread meanwhile; its
  // spans, and so all of gradients, may lie in a GPU's memory, which nothing
  // here reads. A bucket is at least `bucket_floats` long, but for the last.
  // `clock`, which outlives this too, is what times() is measured by.
  BucketReducer(collective::Communicator* communicator, size_t bucket_floats,
                collective::WireFormat format, const Clock& clock);
  // Waits for the bucket under way.
  ~BucketReducer();

  BucketReducer(const BucketReducer&) = delete;
  BucketReducer& operator=(const BucketReducer&) = delete;

  // Whether a Final with this `begin`, of so many gradients, begins a sum.
  // Without one they are not touched.
  bool Takes(size_t num_gradients, size_t begin) const {
    return begin == 0 ||
           handed_begin_.value_or(num_gradients) - begin >= bucket_floats_;
  }
  // gradients[begin] and all behind it are final and belong to this class until
  // Finish. `begin` never grows within a step.
  void Final(absl::Span<float> gradients, size_t begin);

  // All are final: returns when all are summed. An error is that of the group,
  // which is over then.
  absl::Status Finish(absl::Span<float> gradients);

  // `communication` is the time from handing over a bucket while none is under
  // way until none is, or until a Finish that waits for that goes on: waking
  // the threads is in it. `exposed` is the part of it that Finish waited.
  ExchangeTimes times() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Run();
  bool HasWork() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return stopping_ || !buckets_.empty();
  }
  bool Done() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return buckets_.empty() && !reducing_;
  }

  collective::Communicator* const communicator_;
  const size_t bucket_floats_;
  const collective::WireFormat format_;
  const Clock& clock_;
  // Of the step under way: what lies behind this was handed to the thread.
  // Nothing between steps.
  std::optional<size_t> handed_begin_;

  mutable absl::Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool reducing_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<absl::Span<float>> buckets_ ABSL_GUARDED_BY(mutex_);
  // The group's first error.
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  // Of the last time that buckets were under way: begin and end.
  absl::Time under_way_since_ ABSL_GUARDED_BY(mutex_);
  absl::Time summed_at_ ABSL_GUARDED_BY(mutex_);
  ExchangeTimes times_ ABSL_GUARDED_BY(mutex_);

  std::thread thread_;
};

}  // namespace oarlock

#endif  // OARLOCK_FLEET_DATA_PARALLEL_BUCKET_REDUCER_H_
