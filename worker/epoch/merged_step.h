// The steps of several compute threads as one push.

#ifndef OARLOCK_WORKER_EPOCH_MERGED_STEP_H_
#define OARLOCK_WORKER_EPOCH_MERGED_STEP_H_

#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "client/parameter_client.h"
#include "worker/epoch/epoch_context.h"
#include "worker/epoch/merged_gradients.h"
#include "worker/epoch/step_thread.h"
#include "worker/step/step_buffer.h"

namespace oarlock::worker {

// What the rows of such a push point to. Reused from push to push when nothing
// points to it any more; not thread-safe.
class MergedStep {
 public:
  explicit MergedStep(const EpochContext* context)
      : context_(context),
        merged_(context->model->spec().sparse_inputs.size()) {}

  // Adds to `push` the examples of the steps and their rows' gradients, summed
  // key by key in the order given. Null steps add nothing. The steps are no
  // longer needed then.
  void Merge(absl::Span<const std::shared_ptr<StepBuffer>> steps,
             client::PushRequest* push);

 private:
  const EpochContext* const context_;
  std::vector<MergedGradients> merged_;  // one per sparse input
};

// Writes the sum of the gradients of parameters of those compute threads that
// have a step, in their order, to `sum`, [num_parameters], or with `add` adds
// them to what is there.
void SumParameterGradients(
    absl::Span<const std::unique_ptr<StepThread>> threads,
    absl::Span<const std::shared_ptr<StepBuffer>> steps, bool add,
    absl::Span<float> sum);

}  // namespace oarlock::worker

#endif  // OARLOCK_WORKER_EPOCH_MERGED_STEP_H_
