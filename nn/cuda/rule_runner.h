// Optimizers on a device: parameters, gradients and state in its memory, each
// update a launch or a few.

#ifndef OARLOCK_NN_CUDA_RULE_RUNNER_H_
#define OARLOCK_NN_CUDA_RULE_RUNNER_H_

#include <memory>

#include "nn/cuda/device.h"
#include "optim/update_device.h"

namespace oarlock::nn::cuda {

// For DenseOptimizer; any rule. `device` outlives it and is used by the same
// thread.
std::unique_ptr<optim::UpdateDevice> NewRuleRunner(Device* device);

}  // namespace oarlock::nn::cuda

#endif  // OARLOCK_NN_CUDA_RULE_RUNNER_H_
