// The reader thread before a compute thread: it reads batches, removes
// duplicate keys and, where rows may be a little old, asks for them ahead of
// time.

#ifndef OARLOCK_WORKER_EPOCH_BATCH_FEEDER_H_
#define OARLOCK_WORKER_EPOCH_BATCH_FEEDER_H_

#include <memory>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "base/bounded_queue.h"
#include "data/batch_source.h"
#include "worker/epoch/epoch_context.h"
#include "worker/step/row_cache.h"
#include "worker/step/step_buffer.h"

namespace oarlock::worker {

// Buffers go round: the feeder fills free ones, its consumer gives them back.
// Their number bounds how far reading and pulling run ahead.
class BatchFeeder {
 public:
  // Starts the thread. `context` outlives the feeder. With `pull_ahead` rows
  // are asked for as soon as a batch's keys are known and, where the context
  // has a gate, that lets the step begin; of a job with a cache of rows only
  // those that the executor of the compute thread's batches does not cache.
  BatchFeeder(const EpochContext* context, size_t compute_thread,
              size_t num_buffers, bool pull_ahead, data::BadLines* bad_lines);
  // Ends the thread; what it has read is dropped.
  ~BatchFeeder();

  // The next batch; null at the end of the data or after a failure.
  std::shared_ptr<StepBuffer> Next();
  // Waits for the rows of a batch that were asked for ahead of time. Batches
  // come here, and are computed, in the order in which Next gave them.
  absl::Status WaitForPull(StepBuffer* step);
  // Gives a buffer back. Never blocks.
  void Recycle(std::shared_ptr<StepBuffer> buffer);
  // Why reading ended; OK at the end of the data.
  absl::Status status() const;

 private:
  void Run();
  absl::Status Feed();

  const EpochContext* const context_;
  const size_t compute_thread_;
  const bool pull_ahead_;
  const std::unique_ptr<data::BatchSource> reader_;
  // One per sparse input, null where rows are not cached; empty: nowhere.
  std::vector<std::unique_ptr<RowCache>> caches_;
  PulledVersions pulled_versions_;
  BoundedQueue<std::shared_ptr<StepBuffer>> free_;
  BoundedQueue<std::shared_ptr<StepBuffer>> ready_;
  mutable absl::Mutex mutex_;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace oarlock::worker

#endif  // OARLOCK_WORKER_EPOCH_BATCH_FEEDER_H_
