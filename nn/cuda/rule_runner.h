// Runs optimizers on a device. Parameters, gradients and state are in its
// memory; each update takes one or a few launches.

#ifndef OARLOCK_NN_CUDA_RULE_RUNNER_H_
#define OARLOCK_NN_CUDA_RULE_RUNNER_H_

#include <memory>

#include "nn/cuda/device.h"
#include "optim/update_device.h"

namespace oarlock::nn::cuda {

// For DenseOptimizer, with any rule. `device` outlives the result, and the same
// thread uses both.
std::unique_ptr<optim::UpdateDevice> NewRuleRunner(Device* device);

}  // namespace oarlock::nn::cuda

#endif  // OARLOCK_NN_CUDA_RULE_RUNNER_H_
