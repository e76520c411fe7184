#include "nn/network.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"

namespace oarlock::nn {

std::vector<float> Network::InitialStatistics() const {
  std::vector<float> values(num_statistics_);
  for (const ParameterSpec& spec : statistics_) {
    std::fill_n(values.begin() + spec.offset, Shape(spec.shape).size(),
                spec.init.value);
  }
  return values;
}

NetworkBuilder::NetworkBuilder() : network_(new Network) {}
NetworkBuilder::~NetworkBuilder() = default;

NodeId NetworkBuilder::Add(const std::string& name,
                           std::unique_ptr<Layer> layer,
                           const std::vector<NodeId>& inputs) {
  OARLOCK_CHECK(network_ != nullptr);
  if (status_.ok()) {
    status_ = Annotate(TryAdd(name, std::move(layer), inputs),
                       absl::StrCat("node \"", name, "\""));
  }
  return NodeId{network_->nodes_.empty() ? 0 : network_->nodes_.size() - 1};
}

absl::Status NetworkBuilder::TryAdd(const std::string& name,
                                    std::unique_ptr<Layer> layer,
                                    const std::vector<NodeId>& inputs) {
  Network::Node node;
  node.name = name;
  for (const Network::Node& other : network_->nodes_) {
    if (other.name == name) {
      return absl::InvalidArgumentError(
          "a node of this name exists; names are unique: choose another");
    }
  }
  for (NodeId input : inputs) {
    const size_t index = static_cast<size_t>(input);
    if (index >= network_->nodes_.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("input is node ", index, ", legal are nodes below ",
                       network_->nodes_.size(), ": add inputs first"));
    }
    if (network_->nodes_[index].layer->is_loss()) {
      return absl::InvalidArgumentError(
          absl::StrCat("input \"", network_->nodes_[index].name,
                       "\" is a loss; a loss feeds nothing"));
    }
    const Network::Node& from = network_->nodes_[index];
    node.inputs.push_back(from.layer->is_view() ? from.inputs[0] : index);
    node.input_shapes.push_back(from.shape);
  }
  OARLOCK_ASSIGN_OR_RETURN(node.shape, layer->OutputShape(node.input_shapes));
  OARLOCK_RETURN_IF_ERROR(AddInputs(*layer, node));
  node.layer = std::move(layer);
  AddParameters(node);
  AddStatistics(node);
  for (NodeId input : inputs) used_[static_cast<size_t>(input)] = true;
  used_.push_back(false);
  network_->nodes_.push_back(std::move(node));
  return absl::OkStatus();
}

absl::Status NetworkBuilder::AddInputs(const Layer& layer,
                                       const Network::Node& node) {
  StepInput probe;
  const float some = 0;
  probe.dense = &some;
  if (layer.External(probe) == &some) {
    const size_t size = node.shape.size();
    if (network_->num_dense_ != 0 && network_->num_dense_ != size) {
      return absl::InvalidArgumentError(
          absl::StrCat("reads ", size, " dense features, another node reads ",
                       network_->num_dense_, "; all read the same"));
    }
    network_->num_dense_ = size;
  }
  if (layer.image_bytes() > 0) {
    size_t& bytes = network_->num_image_bytes_;
    if (bytes != 0 && bytes != layer.image_bytes()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "reads images of ", layer.image_bytes(), " bytes, another node of ",
          bytes, "; all read the same"));
    }
    bytes = layer.image_bytes();
  }
  if (layer.sparse_input() >= 0) {
    const size_t index = static_cast<size_t>(layer.sparse_input());
    std::vector<size_t>& dims = network_->row_dims_;
    if (dims.size() <= index) dims.resize(index + 1, 0);
    if (dims[index] != 0 && dims[index] != layer.row_dim()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "reads rows of ", layer.row_dim(), " floats of sparse input ", index,
          ", another node rows of ", dims[index], "; all read the same"));
    }
    dims[index] = layer.row_dim();
  }
  return absl::OkStatus();
}

void NetworkBuilder::AddParameters(Network::Node& node) {
  for (LayerParameter& parameter : node.layer->Parameters(node.input_shapes)) {
    ParameterSpec spec;
    spec.name = absl::StrCat(node.name, "/", parameter.name);
    spec.shape = std::move(parameter.shape);
    spec.offset = network_->num_parameters_;
    spec.init = parameter.init;
    size_t size = 1;
    for (size_t dim : spec.shape) size *= dim;
    network_->num_parameters_ += size;
    node.parameter_offsets.push_back(spec.offset);
    network_->parameters_.push_back(std::move(spec));
  }
}

void NetworkBuilder::AddStatistics(Network::Node& node) {
  for (LayerStatistic& statistic : node.layer->Statistics(node.input_shapes)) {
    ParameterSpec spec;
    spec.name = absl::StrCat(node.name, "/", statistic.name);
    spec.shape = std::move(statistic.shape);
    spec.offset = network_->num_statistics_;
    spec.init = {ParameterInit::Kind::kConstant, statistic.start};
    network_->num_statistics_ += Shape(spec.shape).size();
    network_->statistic_decays_.resize(network_->num_statistics_,
                                       statistic.decay);
    node.statistic_offsets.push_back(spec.offset);
    network_->statistics_.push_back(std::move(spec));
  }
}

absl::StatusOr<std::unique_ptr<Network>> NetworkBuilder::Build(
    NodeId prediction) {
  OARLOCK_CHECK(network_ != nullptr);
  OARLOCK_RETURN_IF_ERROR(status_);
  OARLOCK_RETURN_IF_ERROR(CheckUse(prediction));
  network_->prediction_ = static_cast<size_t>(prediction);
  SetGradientWidths();
  PlaceInConcatenations();
  return std::move(network_);
}

absl::Status NetworkBuilder::CheckUse(NodeId prediction) const {
  const std::vector<Network::Node>& nodes = network_->nodes_;
  const size_t index = static_cast<size_t>(prediction);
  if (index >= nodes.size() || !nodes[index].layer->is_loss()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the prediction is node ", index,
                     ", which is no loss; legal is a loss"));
  }
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (!used_[i] && !nodes[i].layer->is_loss()) {
      return absl::InvalidArgumentError(
          absl::StrCat("node \"", nodes[i].name,
                       "\" feeds no other; all lead to a loss: connect it or "
                       "leave it out"));
    }
  }
  return absl::OkStatus();
}

void NetworkBuilder::SetGradientWidths() {
  std::vector<Network::Node>& nodes = network_->nodes_;
  std::vector<bool> can_narrow(nodes.size(), true);
  for (const Network::Node& node : nodes) {
    if (node.layer->is_view()) continue;
    for (size_t input : node.inputs) {
      if (!node.layer->CanNarrowGradient()) can_narrow[input] = false;
    }
  }
  for (size_t i = 0; i < nodes.size(); ++i) {
    Network::Node& node = nodes[i];
    if (node.layer->is_loss() || node.layer->is_view()) continue;
    std::vector<size_t> input_widths;
    for (size_t input : node.inputs) {
      input_widths.push_back(nodes[input].gradient_width);
    }
    const size_t width =
        node.layer->OutputGradientWidth(node.input_shapes, input_widths);
    node.gradient_width =
        width > 0 && !can_narrow[i] ? node.shape.size() : width;
  }
}

void NetworkBuilder::PlaceInConcatenations() {
  std::vector<Network::Node>& nodes = network_->nodes_;
  std::vector<size_t> num_readers(nodes.size(), 0);
  for (size_t i = 0; i < nodes.size(); ++i) {
    nodes[i].place = i;
    if (nodes[i].layer->is_view()) continue;
    for (size_t input : nodes[i].inputs) ++num_readers[input];
  }
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (!nodes[i].layer->is_concatenation()) continue;
    size_t begin = 0;
    for (size_t input : nodes[i].inputs) {
      if (num_readers[input] == 1 && nodes[input].layer->CanStrideOutput()) {
        nodes[input].place = i;
        nodes[input].place_begin = begin;
      }
      begin += nodes[input].shape.size();
    }
  }
}

}  // namespace oarlock::nn
