#include "nn/workspace.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/check.h"

namespace oarlock::nn {
namespace {

// A cache line has this many floats. Arrays are aligned to it, so that no two
// arrays share a cache line.
constexpr size_t kAlignmentFloats = 16;

size_t Aligned(size_t num_floats) {
  return (num_floats + kAlignmentFloats - 1) / kAlignmentFloats *
         kAlignmentFloats;
}

enum Copy : size_t {
  kLabels,
  kDense,
  kParameters,
  kImages,
  kStatistics,
  kFirstSparse
};
enum SparseCopy : size_t {
  kRows,
  kRowOfKey,
  kOffsets,
  kMissOfRow,
  kEntryOfRow,
  kCopiesPerSparseInput
};

}  // namespace

Workspace::Workspace(const Network& network, std::unique_ptr<MathBackend> math,
                     size_t max_examples)
    : network_(network), math_(std::move(math)), max_examples_(max_examples) {
  const size_t num_nodes = network_.nodes().size();
  const size_t num_sparse = network_.row_dims().size();
  values_.resize(num_nodes, nullptr);
  own_values_.resize(num_nodes, nullptr);
  gradients_.resize(num_nodes, nullptr);
  scratch_.resize(num_nodes, nullptr);
  strides_.resize(num_nodes, 0);
  gradient_strides_.resize(num_nodes, 0);
  has_gradient_.resize(num_nodes, false);
  copies_.resize(kFirstSparse + kCopiesPerSparseInput * num_sparse);
  entries_.resize(num_sparse);
  gathered_rows_.resize(num_sparse);
  row_gradients_.resize(num_sparse);
  PlaceArrays();
}

Places Workspace::PlaceGradients() const {
  const std::vector<Network::Node>& nodes = network_.nodes();
  std::vector<Lifetime> lifetimes(nodes.size());
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i].layer->is_view()) continue;
    Lifetime& own = lifetimes[i];
    if (nodes[i].place == i) {
      own.size = Aligned(nodes[i].gradient_width * max_examples_);
    }
    own.begin = own.end = i;
    for (size_t input : nodes[i].inputs) {
      Lifetime& read = lifetimes[nodes[input].place];
      read.end = std::max(read.end, i);
    }
  }
  // A part of a concatenation reads its gradient in the concatenation's
  // gradient.
  for (size_t i = 0; i < nodes.size(); ++i) {
    Lifetime& whole = lifetimes[nodes[i].place];
    whole.begin = std::min(whole.begin, i);
  }
  // Backward begins with the last node.
  std::reverse(lifetimes.begin(), lifetimes.end());
  Places places = PlaceByLifetime(lifetimes);
  std::reverse(places.begins.begin(), places.begins.end());
  return places;
}

void Workspace::PlaceArrays() {
  const std::vector<Network::Node>& nodes = network_.nodes();
  StepInput probe;
  const float some = 0;
  probe.dense = probe.labels = &some;
  // The loop runs twice: first to compute the size of the arena, then to place
  // the arrays.
  const Places places = PlaceGradients();
  size_t total = 0;
  for (const bool place : {false, true}) {
    size_t used = places.total;
    const auto take = [&](size_t size, std::vector<float*>& arrays,
                          size_t node) {
      if (size == 0) return;
      if (place) arrays[node] = arena_.floats() + used;
      used += Aligned(size);
    };
    for (size_t i = 0; i < nodes.size(); ++i) {
      strides_[i] = nodes[i].shape.size();
      gradient_strides_[i] = nodes[i].gradient_width;
      take(nodes[i].layer->ScratchFloats(*math_, nodes[i].input_shapes,
                                         max_examples_),
           scratch_, i);
      if (nodes[i].place != i || nodes[i].layer->is_view()) continue;
      if (nodes[i].layer->External(probe) == nullptr) {
        take(strides_[i] * max_examples_, own_values_, i);
      }
      if (place && gradient_strides_[i] > 0) {
        gradients_[i] = arena_.floats() + places.begins[i];
      }
    }
    if (!place) {
      total = used;
      arena_ = BackendArray(math_.get(), total * sizeof(float));
    }
  }
  math_->Fill(total, 0, arena_.floats());
  for (size_t i = 0; i < nodes.size(); ++i) {
    const size_t whole = nodes[i].place;
    if (whole == i) continue;
    own_values_[i] = own_values_[whole] + nodes[i].place_begin;
    strides_[i] = strides_[whole];
    if (gradients_[whole] == nullptr) continue;
    gradients_[i] = gradients_[whole] + nodes[i].place_begin;
    gradient_strides_[i] = gradient_strides_[whole];
  }
}

void Workspace::CheckInput(const StepInput& input) const {
  OARLOCK_CHECK(input.num_examples <= max_examples_);
  OARLOCK_CHECK(input.sparse.size() == network_.row_dims().size());
  OARLOCK_CHECK(input.num_examples == 0 || input.labels != nullptr);
  OARLOCK_CHECK(input.num_examples == 0 || network_.num_dense() == 0 ||
                input.dense != nullptr);
  OARLOCK_CHECK(input.num_examples == 0 || network_.num_image_bytes() == 0 ||
                input.images != nullptr);
  OARLOCK_CHECK(network_.num_parameters() == 0 || input.parameters != nullptr);
  OARLOCK_CHECK(network_.num_statistics() == 0 || input.statistics != nullptr);
}

const void* Workspace::Map(const void* host, size_t num_bytes,
                           BackendArray* copy) {
  if (math_->uses_host_memory() || num_bytes == 0) return host;
  copy->Reserve(math_.get(), num_bytes);
  math_->CopyIn(host, num_bytes, copy->data());
  return copy->data();
}

void Workspace::MapInput(const StepInput& input) {
  const size_t n = input.num_examples;
  const auto map_floats = [&](const float* host, size_t size, size_t copy) {
    return static_cast<const float*>(
        Map(host, size * sizeof(float), &copies_[copy]));
  };
  step_ = input;
  step_.labels = map_floats(input.labels, n, kLabels);
  step_.dense = map_floats(input.dense, n * network_.num_dense(), kDense);
  step_.images = static_cast<const uint8_t*>(
      Map(input.images, n * network_.num_image_bytes(), &copies_[kImages]));
  if (!input.parameters_in_backend) {
    step_.parameters =
        map_floats(input.parameters, network_.num_parameters(), kParameters);
    step_.statistics = const_cast<float*>(
        map_floats(input.statistics, network_.num_statistics(), kStatistics));
  }
  MapSparse(input);
}

void Workspace::MapSparse(const StepInput& input) {
  const auto map_indices = [&](absl::Span<const uint32_t> host, size_t copy) {
    return absl::MakeConstSpan(
        static_cast<const uint32_t*>(
            Map(host.data(), host.size() * sizeof(uint32_t), &copies_[copy])),
        host.size());
  };
  for (size_t i = 0; i < input.sparse.size(); ++i) {
    const SparseInput& from = input.sparse[i];
    const size_t copy = kFirstSparse + kCopiesPerSparseInput * i;
    const size_t num_given =
        from.cache_rows > 0 ? from.num_missed : from.num_rows;
    SparseInput& to = step_.sparse[i];
    to.rows = static_cast<const float*>(
        Map(from.rows, num_given * network_.row_dims()[i] * sizeof(float),
            &copies_[copy + kRows]));
    to.row_of_key = map_indices(from.row_of_key, copy + kRowOfKey);
    to.offsets = map_indices(from.offsets, copy + kOffsets);
    if (from.cache_rows == 0) continue;
    to.miss_of_row = map_indices(from.miss_of_row, copy + kMissOfRow);
    to.entry_of_row = map_indices(from.entry_of_row, copy + kEntryOfRow);
    to.rows = MapCachedRows(i, to);
  }
}

const float* Workspace::MapCachedRows(size_t index, const SparseInput& cached) {
  OARLOCK_CHECK(cached.miss_of_row.size() == cached.num_rows &&
                cached.entry_of_row.size() == cached.num_rows);
  const size_t row_dim = network_.row_dims()[index];
  // The entries must not grow later: cached rows would be lost.
  const size_t cache_bytes = cached.cache_rows * row_dim * sizeof(float);
  OARLOCK_CHECK(entries_[index].num_bytes() == 0 ||
                entries_[index].num_bytes() == cache_bytes);
  entries_[index].Reserve(math_.get(), cache_bytes);
  gathered_rows_[index].Reserve(math_.get(),
                                cached.num_rows * row_dim * sizeof(float));
  math_->GatherRows({.num_rows = cached.num_rows,
                     .row_dim = row_dim,
                     .miss_of_row = cached.miss_of_row.data(),
                     .entry_of_row = cached.entry_of_row.data()},
                    cached.rows, entries_[index].floats(),
                    gathered_rows_[index].floats());
  return gathered_rows_[index].floats();
}

void Workspace::Step(const StepInput& input, StepOutput* output) {
  QueueForward(input, output);
  QueueBackward(output, nullptr);
  math_->Finish();
  SetPredictions(output);
}

void Workspace::Forward(const StepInput& input, StepOutput* output) {
  QueueForward(input, output);
  math_->Finish();
  SetPredictions(output);
}

void Workspace::Backward(StepOutput* output, const FinalFrom& final_from) {
  const std::optional<size_t> first = QueueBackward(output, final_from);
  math_->Finish();
  if (first.has_value()) final_from(*first);
}

void Workspace::QueueForward(const StepInput& input, StepOutput* output) {
  CheckInput(input);
  MapInput(input);
  output->loss_sum = 0;
  for (size_t i = 0; i < network_.nodes().size(); ++i) {
    RunForward(i, &output->loss_sum);
  }
  if (!math_->uses_host_memory() && input.training &&
      !input.parameters_in_backend) {
    math_->CopyOutLater(step_.statistics,
                        network_.num_statistics() * sizeof(float),
                        input.statistics);
  }
  QueuePredictions();
}

void Workspace::RunForward(size_t index, double* loss_sum) {
  const Network::Node& node = network_.nodes()[index];
  if (node.layer->is_view()) return;
  const float* external = node.layer->External(step_);
  values_[index] = external != nullptr ? external : own_values_[index];
  if (external != nullptr) return;
  inputs_.clear();
  for (size_t input : node.inputs) inputs_.push_back(values_[input]);
  parameters_.clear();
  for (size_t offset : node.parameter_offsets) {
    parameters_.push_back(step_.parameters + offset);
  }
  statistics_.clear();
  for (size_t offset : node.statistic_offsets) {
    statistics_.push_back(step_.statistics + offset);
  }
  node.layer->Forward({.math = *math_,
                       .step = step_,
                       .shapes = node.input_shapes,
                       .inputs = inputs_,
                       .parameters = parameters_,
                       .statistics = statistics_,
                       .scratch = scratch_[index],
                       .output = own_values_[index],
                       .output_stride = strides_[index],
                       .loss_sum = loss_sum,
                       .node = index});
}

void Workspace::QueuePredictions() {
  const size_t floats = step_.num_examples * NumClasses();
  if (NumClasses() != 2 && math_->uses_host_memory()) return;
  host_predictions_.resize(floats);
  math_->CopyOutLater(values_[network_.prediction()], floats * sizeof(float),
                      host_predictions_.data());
}

void Workspace::SetPredictions(StepOutput* output) {
  const size_t n = step_.num_examples;
  if (NumClasses() != 2 && math_->uses_host_memory()) {
    output->predictions =
        absl::MakeConstSpan(values_[network_.prediction()], n * NumClasses());
    return;
  }
  if (NumClasses() == 2) {
    for (size_t i = 0; i < n; ++i) {
      host_predictions_[i] = host_predictions_[2 * i + 1];
    }
    host_predictions_.resize(n);
  }
  output->predictions = host_predictions_;
}

size_t Workspace::NumClasses() const {
  return network_.nodes()[network_.prediction()].shape.size();
}

void Workspace::MapGradients(const StepOutput& output) {
  const bool on_host = math_->uses_host_memory();
  parameter_gradients_to_ = output.parameter_gradients;
  row_gradients_to_ = output.row_gradients;
  if (!on_host && !step_.parameters_in_backend) {
    const size_t bytes = network_.num_parameters() * sizeof(float);
    parameter_gradients_.Reserve(math_.get(), bytes);
    parameter_gradients_to_ = parameter_gradients_.floats();
    if (step_.accumulate_parameter_gradients) {
      math_->CopyIn(output.parameter_gradients, bytes, parameter_gradients_to_);
    }
  }
  for (size_t i = 0; i < row_gradients_to_.size(); ++i) {
    const size_t floats = step_.sparse[i].num_rows * network_.row_dims()[i];
    if (!on_host) {
      row_gradients_[i].Reserve(math_.get(), floats * sizeof(float));
      row_gradients_to_[i] = row_gradients_[i].floats();
    }
    math_->Fill(floats, 0, row_gradients_to_[i]);
  }
}

std::optional<size_t> Workspace::QueueBackward(StepOutput* output,
                                               const FinalFrom& final_from) {
  const std::vector<Network::Node>& nodes = network_.nodes();
  OARLOCK_CHECK(output->row_gradients.size() == network_.row_dims().size());
  OARLOCK_CHECK(network_.num_parameters() == 0 ||
                output->parameter_gradients != nullptr);
  const bool on_host = math_->uses_host_memory();
  MapGradients(*output);
  std::fill(has_gradient_.begin(), has_gradient_.end(), false);
  size_t given = network_.num_parameters();
  std::optional<size_t> unreported;
  for (size_t i = nodes.size(); i > 0; --i) {
    RunBackward(i - 1);
    // Parameters are in the order of the nodes.
    const std::vector<size_t>& offsets = nodes[i - 1].parameter_offsets;
    if (offsets.empty()) continue;
    if (on_host || step_.parameters_in_backend) {
      if (final_from) final_from(offsets[0]);
      continue;
    }
    if (!final_from && offsets[0] > 0) continue;
    if (unreported.has_value()) {
      // These gradients were copied while this node was computed.
      math_->Finish();
      final_from(*unreported);
    }
    math_->CopyOutLater(parameter_gradients_to_ + offsets[0],
                        (given - offsets[0]) * sizeof(float),
                        output->parameter_gradients + offsets[0]);
    given = offsets[0];
    if (final_from) unreported = given;
  }
  if (on_host) return std::nullopt;
  for (size_t i = 0; i < row_gradients_to_.size(); ++i) {
    const size_t floats = step_.sparse[i].num_rows * network_.row_dims()[i];
    math_->CopyOutLater(row_gradients_to_[i], floats * sizeof(float),
                        output->row_gradients[i]);
  }
  return unreported;
}

void Workspace::RunBackward(size_t index) {
  const Network::Node& node = network_.nodes()[index];
  OARLOCK_CHECK(step_.training || !node.layer->learns_in_training_only());
  if (node.layer->is_view()) return;
  if (node.gradient_width == 0 && !node.layer->is_loss()) return;
  inputs_.clear();
  targets_.clear();
  for (size_t input : node.inputs) {
    inputs_.push_back(values_[input]);
    GradientTarget target;
    target.data = gradients_[input];
    target.width = network_.nodes()[input].gradient_width;
    target.write = has_gradient_[input] ? Write::kAdd : Write::kOverwrite;
    has_gradient_[input] = true;
    targets_.push_back(target);
  }
  parameters_.clear();
  node_parameter_gradients_.clear();
  for (size_t offset : node.parameter_offsets) {
    parameters_.push_back(step_.parameters + offset);
    node_parameter_gradients_.push_back(parameter_gradients_to_ + offset);
  }
  node.layer->Backward({.math = *math_,
                        .step = step_,
                        .shapes = node.input_shapes,
                        .inputs = inputs_,
                        .parameters = parameters_,
                        .scratch = scratch_[index],
                        .output = values_[index],
                        .output_gradient = gradients_[index],
                        .output_gradient_width = node.gradient_width,
                        .output_gradient_stride = gradient_strides_[index],
                        .input_gradients = targets_,
                        .parameter_gradients = node_parameter_gradients_,
                        .parameter_write = step_.accumulate_parameter_gradients
                                               ? Write::kAdd
                                               : Write::kOverwrite,
                        .row_gradients = row_gradients_to_,
                        .node = index});
}

}  // namespace oarlock::nn
