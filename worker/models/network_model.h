// A model that is a network of worker/nn.

#ifndef OARLOCK_WORKER_MODELS_NETWORK_MODEL_H_
#define OARLOCK_WORKER_MODELS_NETWORK_MODEL_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/models/model.h"
#include "worker/nn/network.h"

namespace oarlock {

// Names "embedding", rows of row_dim floats, looked up by all slots.
SparseInputSpec AllSlots(const ModelOptions& options, size_t row_dim,
                         ParameterInit init);

// Adds hidden layers "fc1", "fc2", ... with ReLU to `input`, and returns the
// last. Weights start Normal(1 / sqrt(inputs)), biases at 0.
NodeId AddHiddenLayers(NetworkBuilder& builder, NodeId input,
                       const std::vector<size_t>& sizes);

// A model called `name` of the network that `builder` has built up to
// `prediction`. InvalidArgument if the network is none.
absl::StatusOr<std::unique_ptr<Model>> BuildModel(
    const std::string& name, const ModelOptions& options,
    std::vector<SparseInputSpec> sparse_inputs, NetworkBuilder& builder,
    NodeId prediction);

}  // namespace oarlock

#endif  // OARLOCK_WORKER_MODELS_NETWORK_MODEL_H_
