#include "worker/step/step_buffer.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "base/random.h"
#include "nn/math_backend.h"

namespace oarlock::worker {
namespace {

// Keys of the slots `slots` of every example, in order.
void SelectSlots(const data::Batch& batch, size_t num_slots,
                 const std::vector<int>& slots, SparseInputBuffer* input) {
  input->selected_keys.clear();
  input->selected_offsets.clear();
  const bool single = batch.offsets.empty();
  if (!single) input->selected_offsets.push_back(0);
  for (size_t i = 0; i < batch.num_examples; ++i) {
    for (int slot : slots) {
      const size_t cell = i * num_slots + slot;
      if (single) {
        input->selected_keys.push_back(batch.keys[cell]);
        continue;
      }
      input->selected_keys.insert(input->selected_keys.end(),
                                  batch.keys.begin() + batch.offsets[cell],
                                  batch.keys.begin() + batch.offsets[cell + 1]);
      input->selected_offsets.push_back(
          static_cast<uint32_t>(input->selected_keys.size()));
    }
  }
}

}  // namespace

void StepBuffer::SeedFor(uint64_t job_seed, uint32_t epoch) {
  random_seed = DeriveSeed(job_seed, epoch);
  if (batch.ranges.empty()) return;
  random_seed = DeriveSeed(random_seed, batch.ranges[0].source);
  random_seed = DeriveSeed(random_seed, batch.ranges[0].begin);
}

void StepBuffer::BuildKeys(int partition_bits) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    const models::SparseInputSpec& spec = spec_->sparse_inputs[i];
    SparseInputBuffer& input = inputs[i];
    if (spec.is_statistics()) {
      input.selected_keys.resize(spec.num_fixed_keys);
      for (size_t key = 0; key < spec.num_fixed_keys; ++key) {
        input.selected_keys[key] = Key{key};
      }
      input.keys.Build(input.selected_keys, partition_bits);
    } else if (spec.slots.size() == spec_->num_slots) {
      input.keys.Build(batch.keys, partition_bits);
    } else {
      SelectSlots(batch, spec_->num_slots, spec.slots, &input);
      input.keys.Build(input.selected_keys, partition_bits);
    }
    const size_t floats = input.keys.keys().size() * spec.row_dim;
    input.rows.resize(floats);
    input.gradients.resize(floats);
  }
}

void StepBuffer::PlanRows(absl::Span<const std::unique_ptr<RowCache>> caches,
                          int partition_bits) {
  OARLOCK_CHECK(caches.size() == inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (caches[i] == nullptr) continue;
    SparseInputBuffer& input = inputs[i];
    input.cache_rows = caches[i]->cache_rows();
    caches[i]->Plan(input.keys.keys(), &input.plan);
    input.missed_keys.Build(input.plan.missed_keys, partition_bits);
    // Rows come in the order in which keys travel.
    for (uint32_t& miss : input.plan.miss_of_row) {
      if (miss != nn::CachedRows::kNone) {
        miss = input.missed_keys.row_of_key()[miss];
      }
    }
  }
}

void StepBuffer::CountStatistics() {
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (spec_->sparse_inputs[i].is_statistics()) continue;
    const size_t num_slots = spec_->sparse_inputs[i].slots.size();
    SparseInputBuffer& input = inputs[i];
    input.statistics.Count(
        input.keys.row_of_key(), input.keys.keys().size(),
        num_slots == spec_->num_slots ? batch.offsets : input.selected_offsets,
        num_slots, batch.labels);
  }
}

nn::StepInput StepBuffer::ModelInput(const float* parameters,
                                     float gradient_scale) const {
  nn::StepInput step;
  step.num_examples = batch.num_examples;
  step.labels = batch.labels.data();
  step.dense = batch.dense.data();
  step.parameters = parameters;
  step.gradient_scale = gradient_scale;
  step.random_seed = random_seed;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const SparseInputBuffer& input = inputs[i];
    const bool all_slots =
        spec_->sparse_inputs[i].slots.size() == spec_->num_slots;
    nn::SparseInput sparse;
    sparse.rows = input.rows.data();
    sparse.num_rows = input.keys.keys().size();
    sparse.row_of_key = input.keys.row_of_key();
    sparse.offsets = all_slots ? batch.offsets : input.selected_offsets;
    // The keys of statistics are no features of examples.
    if (!batch.weights.empty() && !spec_->sparse_inputs[i].is_statistics()) {
      // Only formats of one slot have weights.
      OARLOCK_CHECK(all_slots);
      sparse.weights = batch.weights;
    }
    if (input.cache_rows > 0) {
      sparse.cache_rows = input.cache_rows;
      sparse.num_missed = input.missed_keys.keys().size();
      sparse.miss_of_row = input.plan.miss_of_row;
      sparse.entry_of_row = input.plan.entry_of_row;
    }
    step.sparse.push_back(sparse);
  }
  return step;
}

nn::StepOutput StepBuffer::ModelOutput(float* parameter_gradients) {
  nn::StepOutput output;
  for (SparseInputBuffer& input : inputs) {
    output.row_gradients.push_back(input.gradients.data());
  }
  output.parameter_gradients = parameter_gradients;
  return output;
}

void StepBuffer::AddGradientsTo(client::PushRequest* push,
                                const std::vector<TableId>& tables,
                                bool statistics) const {
  for (size_t i = 0; i < inputs.size(); ++i) {
    const SparseInputBuffer& input = inputs[i];
    push->sparse.push_back({tables[i], &input.keys, input.gradients.data()});
    if (!statistics || spec_->sparse_inputs[i].is_statistics()) continue;
    push->sparse.back().shows = input.statistics.shows().data();
    push->sparse.back().clicks = input.statistics.clicks().data();
  }
}

void StepBuffer::StartPull(client::ParameterClient* client,
                           const std::vector<TableId>& tables,
                           std::shared_ptr<const void> memory) {
  client_ = client;
  memory_ = memory.get();
  pull_started_ = clock_.Now();
  const auto keys_of = [](SparseInputBuffer& input) -> const client::KeyBatch& {
    return input.cache_rows > 0 ? input.missed_keys : input.keys;
  };
  // A batch whose rows are all cached asks for none.
  const auto pulls = [&keys_of](SparseInputBuffer& input) {
    return input.cache_rows == 0 || !keys_of(input).keys().empty();
  };
  {
    absl::MutexLock lock(&mutex_);
    pulls_under_way_ =
        static_cast<size_t>(std::count_if(inputs.begin(), inputs.end(), pulls));
    pull_status_ = absl::OkStatus();
    pull_ended_ = pull_started_;
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    SparseInputBuffer& input = inputs[i];
    if (!pulls(input)) {
      input.pulled_versions.clear();
      continue;
    }
    client->EnqueuePullSparse(
        tables[i], keys_of(input), input.rows.data(), &input.pulled_versions,
        memory,
        [this, memory](absl::Status status) { OnPulled(std::move(status)); });
  }
}

void StepBuffer::OnPulled(absl::Status status) {
  const absl::Time now = clock_.Now();
  absl::MutexLock lock(&mutex_);
  if (!status.ok() && pull_status_.ok()) pull_status_ = std::move(status);
  pull_ended_ = now;
  --pulls_under_way_;
}

absl::Status StepBuffer::WaitForPull() {
  bool waits;
  {
    absl::MutexLock lock(&mutex_);
    waits = pulls_under_way_ > 0;
  }
  if (waits) client_->Flush(memory_);
  absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(
      +[](size_t* under_way) { return *under_way == 0; }, &pulls_under_way_));
  pull_time = pull_ended_ - pull_started_;
  return pull_status_;
}

}  // namespace oarlock::worker
