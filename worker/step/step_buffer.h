// Everything that a batch needs on its way through the pipeline: examples,
// distinct keys, pulled rows, gradients.

#ifndef OARLOCK_WORKER_STEP_STEP_BUFFER_H_
#define OARLOCK_WORKER_STEP_STEP_BUFFER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/clock.h"
#include "client/key_batch.h"
#include "client/parameter_client.h"
#include "data/batch.h"
#include "models/model.h"
#include "worker/step/key_statistics.h"
#include "worker/step/row_cache.h"

namespace oarlock::worker {

// One batch's part for one sparse input of the model.
struct SparseInputBuffer {
  // The batch's keys in this input's slots, or the fixed ones; empty when the
  // input has all slots and the batch's own arrays serve.
  std::vector<Key> selected_keys;
  std::vector<uint32_t> selected_offsets;
  client::KeyBatch keys;
  std::vector<float> rows;       // [keys, row_dim]
  std::vector<float> gradients;  // [keys, row_dim]
  KeyStatistics statistics;      // of the keys, once counted
  client::TableVersions pulled_versions;

  // Where the compute thread caches rows, in so many entries: which of them
  // come from there, and the keys that are pulled, whose rows are the first of
  // `rows`. 0: all are pulled.
  size_t cache_rows = 0;
  RowPlan plan;
  client::KeyBatch missed_keys;
};

// Goes from stage to stage and back to the first; one stage owns it at a time.
class StepBuffer {
 public:
  // Both outlive this; the clock measures pulls.
  StepBuffer(const models::ModelSpec* spec, const Clock& clock)
      : inputs(spec->sparse_inputs.size()), spec_(spec), clock_(clock) {}

  // Makes random_seed that of the batch: the same for the same examples in the
  // same epoch of the same job, whoever computes them.
  void SeedFor(uint64_t job_seed, uint32_t epoch);
  // Fills keys and sizes rows and gradients for the batch.
  void BuildKeys(int partition_bits);
  // Decides which rows the compute thread has, and which are to be pulled.
  // `caches` has one per input, null where nothing is cached. REQUIRES:
  // BuildKeys was called.
  void PlanRows(absl::Span<const std::unique_ptr<RowCache>> caches,
                int partition_bits);
  // Counts shows and clicks of the keys. REQUIRES: BuildKeys was called.
  void CountStatistics();
  // The batch, its rows and `parameters` as the model wants them.
  nn::StepInput ModelInput(const float* parameters, float gradient_scale) const;
  // Where the model's gradients go: those of rows to `inputs`.
  nn::StepOutput ModelOutput(float* parameter_gradients);
  // Adds the rows' gradients to `push`, and with `statistics` the counts of
  // keys in slots; `tables` has one id per input. The push points into this
  // buffer.
  void AddGradientsTo(client::PushRequest* push,
                      const std::vector<TableId>& tables,
                      bool statistics) const;

  // Asks for the rows of all inputs, or those of them that are not cached; they
  // need not come before WaitForPull is called. `tables` has one id per input;
  // `memory` keeps this buffer alive. `client` outlives the pull.
  void StartPull(client::ParameterClient* client,
                 const std::vector<TableId>& tables,
                 std::shared_ptr<const void> memory);
  // Waits for them. Sets `pull_time`.
  absl::Status WaitForPull();

  data::Batch batch;
  // What dropout drops in this step.
  uint64_t random_seed = 0;
  std::vector<SparseInputBuffer> inputs;
  client::TableVersions pushed_versions;
  // Its compute thread's count of steps, where one is kept (step_gate.h).
  uint64_t step = 0;
  // From asking for rows to having all of them.
  absl::Duration pull_time;

 private:
  void OnPulled(absl::Status status);

  const models::ModelSpec* const spec_;
  const Clock& clock_;
  // Of the pull under way.
  client::ParameterClient* client_ = nullptr;
  const void* memory_ = nullptr;
  absl::Time pull_started_;

  absl::Mutex mutex_;
  size_t pulls_under_way_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status pull_status_ ABSL_GUARDED_BY(mutex_);
  absl::Time pull_ended_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace oarlock::worker

#endif  // OARLOCK_WORKER_STEP_STEP_BUFFER_H_
