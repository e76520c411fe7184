// The optimizer of parameters that lie in one flat vector in this process: what
// a dense table of the servers does with a push, without servers.

#ifndef OARLOCK_OPTIM_DENSE_OPTIMIZER_H_
#define OARLOCK_OPTIM_DENSE_OPTIMIZER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "optim/rules.h"
#include "optim/update_device.h"
#include "proto/v1/table.pb.h"

namespace oarlock::optim {

// Applies the rule to one block after the other, so that norms and other state
// that weights share are those of a parameter. Where weights share nothing the
// result does not depend on the blocks, and equals that of a dense table under
// the same configuration bit by bit.
//
// Not thread-safe.
class DenseOptimizer {
 public:
  // `blocks` are adjacent, in the order of the vector. InvalidArgument when the
  // configuration is not what table.proto allows, or a block is empty. With
  // `device` parameters and gradients lie in its memory, and so does the state.
  static absl::StatusOr<DenseOptimizer> Create(
      const v1::OptimizerConfig& config,
      absl::Span<const ParameterBlock> blocks,
      std::unique_ptr<UpdateDevice> device = nullptr);

  // Floats of the vector.
  size_t size() const { return size_; }
  // Whether the rule goes by means over a block's weights: then a device and
  // the CPU differ by rounding, and else by nothing.
  bool takes_means() const { return rule_.TakesMeans(); }
  // Steps that have been applied.
  uint64_t steps() const { return steps_; }
  // Of the step that was applied last; before the first one that of the first.
  float learning_rate() const;

  // One update of parameters [size()] by gradients [size()]. `num_steps`: how
  // many steps' gradients these are, summed, at least 1; warm-up and schedule
  // go by steps. On a device it is queued: see UpdateDevice.
  void Step(float* parameters, const float* gradients, uint32_t num_steps = 1);

  // Steps and state as bytes, for a checkpoint, the same with a device and
  // without: little-endian
  //
  //   8 bytes    "OARLOPT1"
  //   uint64     field number of the rule in OptimizerConfig
  //   uint64     XXH3-64 of the blocks' sizes, uint64 each
  //   uint64     steps
  //   uint64     number of floats
  //   float32s   state of block after block, as optim/*_rules.h say
  //   uint64     XXH3-64 of everything before
  std::string SaveState() const;

  // Makes the state what SaveState gave. DataLoss when bytes are damaged or
  // missing, FailedPrecondition when they are of another rule or other blocks;
  // nothing has changed then. Learning rate and other numbers of the
  // configuration may differ.
  absl::Status RestoreState(absl::string_view bytes);

 private:
  DenseOptimizer(const v1::OptimizerConfig& config, UpdateRule rule,
                 UpdateRule rule_without_decay,
                 absl::Span<const ParameterBlock> blocks,
                 std::unique_ptr<UpdateDevice> device);

  uint64_t DigestOfSizes() const;

  v1::OptimizerConfig config_;
  UpdateRule rule_;
  // Of blocks that do not decay.
  UpdateRule rule_without_decay_;
  std::vector<ParameterBlock> blocks_;
  size_t size_ = 0;
  size_t state_size_ = 0;
  // Null: all is in the host's memory.
  std::unique_ptr<UpdateDevice> device_;
  // Empty with a device.
  std::vector<float> state_;
  uint64_t steps_ = 0;
};

}  // namespace oarlock::optim

#endif  // OARLOCK_OPTIM_DENSE_OPTIMIZER_H_
