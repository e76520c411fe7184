// A compute thread of a worker whose threads go from step to step together.

#ifndef OARLOCK_WORKER_EPOCH_STEP_THREAD_H_
#define OARLOCK_WORKER_EPOCH_STEP_THREAD_H_

#include <cstddef>
#include <memory>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/bounded_queue.h"
#include "worker/epoch/batch_feeder.h"
#include "worker/epoch/epoch_context.h"
#include "worker/step/step_buffer.h"

namespace oarlock::worker {

// Does what the thread that owns it asks, one step at a time.
class StepThread {
 public:
  // `index` is that of its ranges in the context, which outlives it, as does
  // `bad_lines`. With `pull_ahead` rows are asked for before their step starts.
  StepThread(const EpochContext* context, size_t index, bool pull_ahead,
             data::BadLines* bad_lines);
  ~StepThread();

  // Starts the next batch on `parameters`, [num_parameters], which stay as they
  // are until Wait returns.
  void Start(const float* parameters);
  // Waits until it is computed; sets the batch, or null at the end of the data.
  // Its rows' gradients are in it, the others in parameter_gradients.
  absl::Status Wait(std::shared_ptr<StepBuffer>* step);

  absl::Span<const float> parameter_gradients() const {
    return parameter_gradients_;
  }
  // Gives a batch back.
  void Recycle(std::shared_ptr<StepBuffer> step) {
    feeder_.Recycle(std::move(step));
  }

 private:
  struct Result {
    absl::Status status;
    std::shared_ptr<StepBuffer> step;
  };

  void Run();
  absl::StatusOr<std::shared_ptr<StepBuffer>> Step(const float* parameters);
  absl::Status Compute(StepBuffer& step, const float* parameters);

  const EpochContext* const context_;
  const bool pull_ahead_;
  BatchFeeder feeder_;
  const std::unique_ptr<models::ModelExecutor> executor_;
  std::vector<float> parameter_gradients_;
  BoundedQueue<const float*> commands_;
  BoundedQueue<Result> results_;
  std::thread thread_;
};

}  // namespace oarlock::worker

#endif  // OARLOCK_WORKER_EPOCH_STEP_THREAD_H_
