// Runs a network on batches: holds the values and gradients of one batch.

#ifndef OARLOCK_NN_WORKSPACE_H_
#define OARLOCK_NN_WORKSPACE_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "nn/lifetimes.h"
#include "nn/math_backend.h"
#include "nn/network.h"
#include "nn/step.h"

namespace oarlock::nn {

// Thread safety: only one thread at a time may use it. The network outlives it.
class Workspace {
 public:
  // A workspace for batches of up to `max_examples`.
  Workspace(const Network& network, std::unique_ptr<MathBackend> math,
            size_t max_examples);
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  // Forward and Backward, without waiting for the backend in between.
  void Step(const StepInput& input, StepOutput* output);

  // Sets output->loss_sum and predictions. Crashes for a batch that does not
  // fit the workspace or the network: that is an error of the caller.
  void Forward(const StepInput& input, StepOutput* output);
  // Overwrites the gradients that `output` points to. REQUIRES: Forward was
  // called before with the same input, and its arrays have not changed.
  void Backward(StepOutput* output) { Backward(output, nullptr); }
  // The same, and reports while it runs which gradients are final.
  // final_from(i) means that output->parameter_gradients from number i on are
  // final. The numbers decrease from call to call; the last is 0, unless there
  // are no parameters. Another thread may read final gradients while Backward
  // continues. Gradients that stay in the backend are final for later calls to
  // the backend.
  using FinalFrom = std::function<void(size_t first)>;
  void Backward(StepOutput* output, const FinalFrom& final_from);

 private:
  // Gives every node its arrays: its own, or parts of the arrays of a
  // concatenation.
  void PlaceArrays();
  // The places of the gradients. A gradient is needed from the first backward
  // of a reader to the node's own backward.
  Places PlaceGradients() const;
  void CheckInput(const StepInput& input) const;
  // Sets step_ to `input` with all arrays in the backend's memory.
  void MapInput(const StepInput& input);
  const void* Map(const void* host, size_t num_bytes, BackendArray* copy);
  void MapSparse(const StepInput& input);
  // All rows of sparse input `index`. The index arrays of `cached` are in the
  // backend's memory.
  const float* MapCachedRows(size_t index, const SparseInput& cached);
  // Queue the operations of Forward and Backward, and the copies of their
  // results.
  void QueueForward(const StepInput& input, StepOutput* output);
  // Returns the number with which the caller still has to call final_from, if
  // any.
  std::optional<size_t> QueueBackward(StepOutput* output,
                                      const FinalFrom& final_from);
  void RunForward(size_t node, double* loss_sum);
  void RunBackward(size_t node);
  // Prepares arrays in the backend's memory for the gradients, to be
  // overwritten or added to.
  void MapGradients(const StepOutput& output);
  // Number of floats of an example's prediction.
  size_t NumClasses() const;
  void QueuePredictions();
  // Call after the predictions have been copied to the host.
  void SetPredictions(StepOutput* output);

  // Constant after construction.
  const Network& network_;
  const std::unique_ptr<MathBackend> math_;
  const size_t max_examples_;

  // The input of the last Forward, with pointers to the backend's memory.
  StepInput step_;
  // By node. A value may be an array of the step's input.
  std::vector<const float*> values_;
  std::vector<float*> own_values_;
  std::vector<float*> gradients_;
  std::vector<float*> scratch_;
  // Floats from one example to the next, of a value and of a gradient.
  std::vector<size_t> strides_;
  std::vector<size_t> gradient_strides_;
  // Whether the gradient already holds a contribution of this Backward.
  std::vector<bool> has_gradient_;

  BackendArray arena_;
  std::vector<float> host_predictions_;
  // Copies of the caller's arrays, for a backend with memory of its own:
  // labels, dense, parameters, images, statistics, then five for each sparse
  // input.
  std::vector<BackendArray> copies_;
  // For each sparse input: the rows that are cached from batch to batch, and
  // the gathered rows of the batch.
  std::vector<BackendArray> entries_;
  std::vector<BackendArray> gathered_rows_;
  BackendArray parameter_gradients_;
  std::vector<BackendArray> row_gradients_;
  // The gradients of this Backward, in the backend's memory.
  float* parameter_gradients_to_ = nullptr;
  std::vector<float*> row_gradients_to_;

  // Reused from node to node.
  std::vector<const float*> inputs_;
  std::vector<const float*> parameters_;
  std::vector<float*> statistics_;
  std::vector<float*> node_parameter_gradients_;
  std::vector<GradientTarget> targets_;
};

}  // namespace oarlock::nn

#endif  // OARLOCK_NN_WORKSPACE_H_
