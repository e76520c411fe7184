#include "worker/dense/dense_copy.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/dense_version.h"

namespace oarlock::worker {

uint32_t DefaultDenseInterval(int64_t num_copies, int64_t batch_size,
                              int64_t steps_of_copy) {
  constexpr int64_t kExchanges = 100;
  constexpr int64_t kExamples = 2048;
  constexpr int64_t kExamplesOfAllCopies = 8192;
  OARLOCK_CHECK(num_copies >= 1 && batch_size >= 1);
  const int64_t examples =
      std::min(kExamples, kExamplesOfAllCopies / (num_copies * num_copies));
  int64_t steps = examples / batch_size;
  if (steps_of_copy > 0) steps = std::min(steps, steps_of_copy / kExchanges);
  return static_cast<uint32_t>(std::max<int64_t>(1, steps));
}

DenseCopy::DenseCopy(const optim::UpdateRule& rule,
                     const client::DenseReplica& parameters,
                     uint32_t interval_steps)
    : rule_(rule),
      interval_steps_(interval_steps),
      replica_(std::make_shared<client::DenseReplica>(parameters)) {
  OARLOCK_CHECK(interval_steps >= 1);
  // Without steps in between nothing is applied here.
  if (interval_steps == 1) return;
  const size_t n = replica_->values.size();
  state_.resize(rule_.StateSize(n));
  rule_.InitState(state_.data(), n);
}

void DenseCopy::set_cut(uint64_t cut) {
  OARLOCK_CHECK(!HasGradients());
  cut_ = cut;
}

float* DenseCopy::gradients() {
  const size_t n = replica_->values.size();
  // The first step's gradients are the sum, the last one's are added to it by
  // the model; those between are applied by themselves.
  if (num_steps_ > 0 && !ExchangeComesNext()) {
    step_.resize(n);
    return step_.data();
  }
  if (sum_ == nullptr || (num_steps_ == 0 && sum_.use_count() > 1)) {
    sum_ = std::make_shared<std::vector<float>>(n);
  }
  return sum_->data();
}

void DenseCopy::AddExamples(absl::Span<const data::ExampleRange> examples) {
  // Without parameters no exchange would ever empty the list.
  if (replica_->values.empty()) return;
  for (const data::ExampleRange& range : examples) {
    if (!examples_.empty() && examples_.back().source == range.source &&
        examples_.back().end == range.begin) {
      examples_.back().end = range.end;
    } else {
      examples_.push_back(range);
    }
  }
}

void DenseCopy::StepDone(absl::Span<const data::ExampleRange> examples) {
  AddExamples(examples);
  const bool last = ExchangeComesNext();
  ++num_steps_;
  // What comes next replaces the parameters.
  if (last) return;
  const size_t n = replica_->values.size();
  const float* gradients = sum_->data();
  if (num_steps_ > 1) {
    float* const sum = sum_->data();
    for (size_t i = 0; i < n; ++i) sum[i] += step_[i];
    gradients = step_.data();
  }
  // By all workers, which are taken to have the same interval.
  const uint64_t pushes = replica_->block_versions.empty()
                              ? 0
                              : DensePushes(replica_->block_versions[0]);
  rule_.Apply(pushes * interval_steps_ + num_steps_, replica_->values.data(),
              state_.data(), gradients, n);
}

void DenseCopy::StepFailed() {
  num_steps_ = 0;
  examples_.clear();
}

DenseCopy::Exchange DenseCopy::TakeExchange(TableId table) {
  OARLOCK_CHECK(num_steps_ > 0);
  versions_before_ = replica_->block_versions;
  Exchange exchange;
  exchange.gradients = {table, sum_->data(), std::exchange(num_steps_, 0),
                        replica_.get(), replica_->block_versions};
  exchange.examples = std::exchange(examples_, {});
  exchange.memory = std::make_shared<
      std::pair<std::shared_ptr<const void>, std::shared_ptr<const void>>>(
      sum_, replica_);
  return exchange;
}

uint64_t DenseCopy::staleness() const {
  const std::vector<uint64_t>& now = replica_->block_versions;
  uint64_t most = 0;
  for (size_t b = 0; b < std::min(now.size(), versions_before_.size()); ++b) {
    const uint64_t before = versions_before_[b];
    const uint64_t after = now[b];
    // The copy's own push counts one. A server that came back counts anew.
    if (after > before && SameIncarnation(before, after)) {
      most = std::max(most, after - before - 1);
    }
  }
  return most;
}

}  // namespace oarlock::worker
