// A device that applies rules to parameters in memory of its own (a GPU's), for
// DenseOptimizer: it has the memory and the arithmetic, the optimizer has all
// else.

#ifndef OARLOCK_OPTIM_UPDATE_DEVICE_H_
#define OARLOCK_OPTIM_UPDATE_DEVICE_H_

#include <cstddef>

#include "absl/types/span.h"
#include "optim/any_rule.h"

namespace oarlock::optim {

// A parameter of a network: a run of the vector.
struct ParameterBlock {
  // Floats, at least 1.
  size_t size = 0;
  // Whether it is pulled towards 0: false takes l1, l2 and the weight decay of
  // adamw and lars away, as is usual for biases and batch norm. With lars that
  // makes the step as long as momentum's (PaddlePaddle's
  // exclude_from_weight_decay).
  bool decays = true;
};

// State on the device is laid out as rules say, block after block. Not
// thread-safe.
class UpdateDevice {
 public:
  virtual ~UpdateDevice() = default;

  // Once, first: room for the state of `blocks`, adjacent runs of the vector,
  // under `rule`. What the state is, WriteState says.
  virtual void Begin(absl::Span<const ParameterBlock> blocks,
                     const AnyRule& rule) = 0;

  // Updates parameters by gradients, both of the device: blocks that decay by
  // `rule`, the others by `rule_without_decay`, as they are in this step. May
  // return before it is done; what is asked of the device later is done after
  // it.
  virtual void Update(const AnyRule& rule, const AnyRule& rule_without_decay,
                      float* parameters, const float* gradients) = 0;

  // All state, from and to memory of the host.
  virtual void ReadState(absl::Span<float> state) const = 0;
  virtual void WriteState(absl::Span<const float> state) = 0;
};

}  // namespace oarlock::optim

#endif  // OARLOCK_OPTIM_UPDATE_DEVICE_H_
