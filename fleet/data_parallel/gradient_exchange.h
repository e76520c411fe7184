// How the workers that train one dense network come to the same parameters.

#ifndef OARLOCK_FLEET_DATA_PARALLEL_GRADIENT_EXCHANGE_H_
#define OARLOCK_FLEET_DATA_PARALLEL_GRADIENT_EXCHANGE_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "fleet/data_parallel/step_times.h"

namespace oarlock {

// Parameters and gradients are flat vectors of the same length, in the order of
// the network's nodes, in the memory that WorkerGroup::NewExchange was told.
// One thread at a time. All workers make the same calls in
// the same order; after an error nothing but the destructor may be called.
class GradientExchange {
 public:
  virtual ~GradientExchange() = default;

  // Sets `values` to what all workers begin with. Once, first.
  virtual absl::Status Begin(absl::Span<float> values) = 0;

  // Epoch number `epoch` over the examples begins, of `num_updates` EndSteps,
  // each of `examples_per_update` examples of each worker. Returns how many of
  // them were applied before the job went on from a checkpoint of its servers;
  // 0 where workers keep the parameters. `values` are what all workers go on
  // with. FailedPrecondition when that checkpoint is not after whole updates,
  // InvalidArgument when the workers' epochs differ.
  virtual absl::StatusOr<uint64_t> BeginEpoch(uint32_t epoch,
                                              uint64_t num_updates,
                                              uint64_t examples_per_update,
                                              absl::Span<float> values) {
    return 0;
  }
  virtual absl::Status EndEpoch() { return absl::OkStatus(); }

  // Of the step under way, gradients[begin] and all behind it are final: they
  // are not touched any more until EndStep, and may travel meanwhile. Called
  // with ever smaller `begin`, the same ones on all workers; not at all is
  // legal, too.
  virtual void GradientsFinal(absl::Span<float> gradients, size_t begin) {}

  // Ends a step: applies the sum of all workers' gradients once, so that
  // `values` are the next step's, the same bits on every worker. `gradients`
  // are undefined afterwards. In a backend's memory that is queued: whatever
  // the backend is asked next finds it done.
  virtual absl::Status EndStep(absl::Span<float> gradients,
                               absl::Span<float> values) = 0;

  virtual ExchangeTimes times() const { return {}; }

  // What this worker keeps beside the parameters, for a checkpoint of its own:
  // the optimizer's state. Empty where servers keep it.
  virtual std::string SaveState() const { return ""; }
  // DataLoss or FailedPrecondition as DenseOptimizer::RestoreState.
  virtual absl::Status RestoreState(absl::string_view state) {
    return absl::OkStatus();
  }
};

}  // namespace oarlock

#endif  // OARLOCK_FLEET_DATA_PARALLEL_GRADIENT_EXCHANGE_H_
