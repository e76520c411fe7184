#include "worker/geo/geo_dense.h"

#include <utility>

#include "base/check.h"

namespace oarlock::worker {

GeoDense::GeoDense(const optim::UpdateRule& rule, uint32_t num_workers)
    : rule_(rule),
      share_(1.0f / static_cast<float>(num_workers)),
      memory_(std::make_shared<Memory>()) {
  OARLOCK_CHECK(num_workers >= 1);
}

void GeoDense::Reset(const client::DenseReplica& parameters) {
  const size_t n = parameters.values.size();
  if (state_.size() != rule_.StateSize(n) || values_.size() != n) {
    state_.resize(rule_.StateSize(n));
    rule_.InitState(state_.data(), n);
  }
  values_ = parameters.values;
  // A push that failed may still refer to the other one.
  memory_ = std::make_shared<Memory>();
  memory_->replica = parameters;
  num_steps_ = 0;
}

void GeoDense::Apply(const float* gradients) {
  ++num_steps_;
  rule_.Apply(++steps_, values_.data(), state_.data(), gradients,
              values_.size());
}

GeoDense::Exchange GeoDense::TakeChanges(TableId table) {
  // Send buffers of an attempt that failed may still refer to the last one.
  if (memory_.use_count() > 1) memory_ = std::make_shared<Memory>(*memory_);
  const std::vector<float>& base = memory_->replica.values;
  std::vector<float>& differences = memory_->differences;
  differences.resize(base.size());
  for (size_t i = 0; i < base.size(); ++i) {
    differences[i] = (base[i] - values_[i]) * share_;
  }
  Exchange exchange;
  exchange.gradients = {table, differences.data(), std::exchange(num_steps_, 0),
                        &memory_->replica};
  exchange.memory = memory_;
  return exchange;
}

void GeoDense::Install() { values_ = memory_->replica.values; }

}  // namespace oarlock::worker
