// A geo worker's own dense parameters.

#ifndef OARLOCK_WORKER_GEO_GEO_DENSE_H_
#define OARLOCK_WORKER_GEO_GEO_DENSE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "base/types.h"
#include "client/parameter_client.h"
#include "optim/rules.h"

namespace oarlock::worker {

// Not thread-safe. All workers change all parameters, so that the sum of what W
// of them did alone would go W times too far: a worker pushes its change times
// 1 / W, and all come to the mean of them.
class GeoDense {
 public:
  // `num_workers` at least 1.
  GeoDense(const optim::UpdateRule& rule, uint32_t num_workers);

  // What the servers have. What was trained here and not taken is dropped.
  void Reset(const client::DenseReplica& parameters);

  const float* values() const { return values_.data(); }
  size_t size() const { return values_.size(); }
  // One step.
  void Apply(const float* gradients);
  // Steps since the last exchange.
  uint32_t num_steps() const { return num_steps_; }

  // What a push needs; `memory` keeps it alive. No step until the push is done;
  // then Install.
  struct Exchange {
    client::DenseGradients gradients;
    std::shared_ptr<const void> memory;
  };
  Exchange TakeChanges(TableId table);
  // The push was acknowledged: parameters are what it has brought.
  void Install();

 private:
  // What a push under way points to.
  struct Memory {
    client::DenseReplica replica;
    std::vector<float> differences;
  };

  const optim::UpdateRule rule_;
  const float share_;
  std::vector<float> values_;
  std::vector<float> state_;
  // Of which the replica is what the servers had last.
  std::shared_ptr<Memory> memory_;
  uint32_t num_steps_ = 0;
  // Since the beginning.
  uint64_t steps_ = 0;
};

}  // namespace oarlock::worker

#endif  // OARLOCK_WORKER_GEO_GEO_DENSE_H_
