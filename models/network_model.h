// A model made of a network of nn.

#ifndef OARLOCK_MODELS_NETWORK_MODEL_H_
#define OARLOCK_MODELS_NETWORK_MODEL_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "models/model.h"
#include "models/statistics_tables.h"
#include "nn/network.h"

namespace oarlock::models {

// A model called `name` with the network that `builder` has built up to
// `prediction`. InvalidArgument if the network is not valid. Tables of
// statistics become its last sparse inputs. `looks_at_pairs`: of keys in one
// slot, which only host memory can.
absl::StatusOr<std::unique_ptr<Model>> BuildModel(
    const std::string& name, const ModelOptions& options,
    std::vector<SparseInputSpec> sparse_inputs, nn::NetworkBuilder& builder,
    nn::NodeId prediction, bool looks_at_pairs);

}  // namespace oarlock::models

#endif  // OARLOCK_MODELS_NETWORK_MODEL_H_
