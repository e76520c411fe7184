#include "worker/epoch/merged_step.h"

#include <algorithm>
#include <cstddef>

namespace oarlock::worker {

void MergedStep::Merge(absl::Span<const std::shared_ptr<StepBuffer>> steps,
                       client::PushRequest* push) {
  for (const auto& step : steps) {
    if (step == nullptr) continue;
    push->examples.insert(push->examples.end(), step->batch.ranges.begin(),
                          step->batch.ranges.end());
  }
  for (size_t i = 0; i < merged_.size(); ++i) {
    const models::SparseInputSpec& spec =
        context_->model->spec().sparse_inputs[i];
    const bool counts = context_->PushesStatistics() && !spec.is_statistics();
    std::vector<MergedGradients::Source> sources;
    for (const auto& step : steps) {
      if (step == nullptr) continue;
      const SparseInputBuffer& input = step->inputs[i];
      sources.push_back({&input.keys, input.gradients.data()});
      if (!counts) continue;
      sources.back().shows = input.statistics.shows().data();
      sources.back().clicks = input.statistics.clicks().data();
    }
    MergedGradients& merged = merged_[i];
    merged.Merge(sources, spec.row_dim, context_->parameters->partition_bits());
    push->sparse.push_back(
        {context_->sparse_tables[i], &merged.keys(), merged.gradients()});
    if (!counts) continue;
    push->sparse.back().shows = merged.shows();
    push->sparse.back().clicks = merged.clicks();
  }
}

void SumParameterGradients(
    absl::Span<const std::unique_ptr<StepThread>> threads,
    absl::Span<const std::shared_ptr<StepBuffer>> steps, bool add,
    absl::Span<float> sum) {
  for (size_t thread = 0; thread < threads.size(); ++thread) {
    if (steps[thread] == nullptr) continue;
    const absl::Span<const float> part = threads[thread]->parameter_gradients();
    if (!add) {
      std::copy(part.begin(), part.end(), sum.begin());
      add = true;
      continue;
    }
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += part[i];
  }
  if (!add) std::fill(sum.begin(), sum.end(), 0.0f);
}

}  // namespace oarlock::worker
