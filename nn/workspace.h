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

// Thread safety: one thread at a time. The network outlives it.
class Workspace {
 public:
  // Room for batches of up to `max_examples`.
  Workspace(const Network& network, std::unique_ptr<MathBackend> math,
            size_t max_examples);
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  // Forward and Backward, without waiting for the backend in between.
  void Step(const StepInput& input, StepOutput* output);

  // Sets output->loss_sum and predictions. A batch that does not fit the
  // workspace or the network breaks an invariant of the caller: it crashes.
  void Forward(const StepInput& input, StepOutput* output);
  // After Forward of the same input, whose arrays still hold what they held:
  // overwrites the gradients that `output` points to.
  void Backward(StepOutput* output) { Backward(output, nullptr); }
  // Says on the way which gradients are final: final_from(i) means that
  // output->parameter_gradients from number i on are. Numbers fall from call
  // to call, and the last is 0, unless there are no parameters. Another thread
  // may read what is final while Backward goes on; gradients that stay in the
  // backend are final for what the backend is asked to do from then on.
  using FinalFrom = std::function<void(size_t first)>;
  void Backward(StepOutput* output, const FinalFrom& final_from);

 private:
  // Gives every node its arrays: of its own, or a part of a concatenation's.
  void PlaceArrays();
  // Of gradients, each of which is needed from the first backward of a reader
  // to the node's own.
  Places PlaceGradients() const;
  void CheckInput(const StepInput& input) const;
  // Makes step_ the input in the backend's memory.
  void MapInput(const StepInput& input);
  const void* Map(const void* host, size_t num_bytes, BackendArray* copy);
  void MapSparse(const StepInput& input);
  // All rows of sparse input `index`, whose arrays of indices `cached` has in
  // the backend's memory.
  const float* MapCachedRows(size_t index, const SparseInput& cached);
  // Queue what Forward and Backward do, and the copies of what comes of it.
  void QueueForward(const StepInput& input, StepOutput* output);
  // Returns where those gradients begin of which final_from is still to be
  // told, if any.
  std::optional<size_t> QueueBackward(StepOutput* output,
                                      const FinalFrom& final_from);
  void RunForward(size_t node, double* loss_sum);
  void RunBackward(size_t node);
  // Gradients in the backend's memory, ready to be written or added to.
  void MapGradients(const StepOutput& output);
  // Floats of an example's prediction.
  size_t NumClasses() const;
  void QueuePredictions();
  // Once they are there.
  void SetPredictions(StepOutput* output);

  // Constant after construction.
  const Network& network_;
  const std::unique_ptr<MathBackend> math_;
  const size_t max_examples_;

  // Of the last Forward: its input, with pointers to the backend's memory.
  StepInput step_;
  // Of each node; a value may lie in the step's input.
  std::vector<const float*> values_;
  std::vector<float*> own_values_;
  std::vector<float*> gradients_;
  std::vector<float*> scratch_;
  // Floats between the examples of a value and of a gradient.
  std::vector<size_t> strides_;
  std::vector<size_t> gradient_strides_;
  // Whether the gradient holds a contribution of this Backward already.
  std::vector<bool> has_gradient_;

  BackendArray arena_;
  std::vector<float> host_predictions_;
  // Copies of what the caller gave, for a backend with memory of its own:
  // labels, dense, parameters, images, statistics, then five for each sparse
  // input.
  std::vector<BackendArray> copies_;
  // Of each sparse input: the rows that are cached from batch to batch, and
  // those of the batch, gathered.
  std::vector<BackendArray> entries_;
  std::vector<BackendArray> gathered_rows_;
  BackendArray parameter_gradients_;
  std::vector<BackendArray> row_gradients_;
  // Of this Backward, in the backend's memory.
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
