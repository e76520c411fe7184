// A static graph of layers: built once, then shared by the workspaces that
// run it.
//
//   NetworkBuilder builder;
//   NodeId x = builder.Add("dense", NewDenseInput({13}), {});
//   NodeId h = builder.Add("fc1", NewLinear({.num_outputs = 400}), {x});
//   NodeId logits = builder.Add("fc2", NewLinear({.num_outputs = 2}), {h});
//   NodeId p = builder.Add("loss", NewSoftmaxCrossEntropy(), {logits});
//   absl::StatusOr<std::unique_ptr<Network>> network = builder.Build(p);

#ifndef OARLOCK_NN_NETWORK_H_
#define OARLOCK_NN_NETWORK_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nn/layer.h"
#include "nn/parameter.h"
#include "nn/tensor.h"

namespace oarlock::nn {

// A node of the network being built.
enum class NodeId : size_t {};

// Immutable; thread-safe.
class Network {
 public:
  struct Node {
    std::string name;
    std::unique_ptr<Layer> layer;
    // Numbers of earlier nodes. An input that is a view is replaced by the node
    // that it views.
    std::vector<size_t> inputs;
    std::vector<Shape> input_shapes;
    Shape shape;
    // Leading floats of each example's output whose gradient is computed.
    size_t gradient_width = 0;
    std::vector<size_t> parameter_offsets;
    std::vector<size_t> statistic_offsets;
    // The concatenation whose arrays hold this node's value and gradient, from
    // float place_begin of each example on. It is the node itself if the node
    // has arrays of its own.
    size_t place = 0;
    size_t place_begin = 0;
  };

  // The nodes, each after its inputs.
  const std::vector<Node>& nodes() const { return nodes_; }
  // The node whose output is the predictions.
  size_t prediction() const { return prediction_; }
  const std::vector<ParameterSpec>& parameters() const { return parameters_; }
  size_t num_parameters() const { return num_parameters_; }
  // The statistics of norm layers, which change without gradients; each starts
  // at a constant.
  const std::vector<ParameterSpec>& statistics() const { return statistics_; }
  size_t num_statistics() const { return num_statistics_; }
  // [num_statistics()]: the start value of each statistic.
  std::vector<float> InitialStatistics() const;
  // [num_statistics()]: LayerStatistic::decay of each.
  const std::vector<float>& statistic_decays() const {
    return statistic_decays_;
  }
  // Floats of a row of each sparse input.
  const std::vector<size_t>& row_dims() const { return row_dims_; }
  // Number of the step's dense features; 0 if no node reads them.
  size_t num_dense() const { return num_dense_; }
  // Number of bytes of an image of the step; 0 if no node reads images.
  size_t num_image_bytes() const { return num_image_bytes_; }

 private:
  friend class NetworkBuilder;
  Network() = default;

  std::vector<Node> nodes_;
  size_t prediction_ = 0;
  std::vector<ParameterSpec> parameters_;
  size_t num_parameters_ = 0;
  std::vector<ParameterSpec> statistics_;
  size_t num_statistics_ = 0;
  std::vector<float> statistic_decays_;
  std::vector<size_t> row_dims_;
  size_t num_dense_ = 0;
  size_t num_image_bytes_ = 0;
};

// Nodes are added after their inputs. The first error is kept, and Build
// returns it. After it, Add does nothing.
class NetworkBuilder {
 public:
  NetworkBuilder();
  ~NetworkBuilder();

  // Adds a node called `name`, which must be unique. Its parameters are called
  // "name/weight" and so on; in the flat vector they are in the order of the
  // nodes.
  NodeId Add(const std::string& name, std::unique_ptr<Layer> layer,
             const std::vector<NodeId>& inputs);

  // `prediction` is a loss; every node leads to a loss. InvalidArgument names
  // the wrong node and the reason. The builder cannot be used afterwards.
  absl::StatusOr<std::unique_ptr<Network>> Build(NodeId prediction);

 private:
  absl::Status TryAdd(const std::string& name, std::unique_ptr<Layer> layer,
                      const std::vector<NodeId>& inputs);
  absl::Status AddInputs(const Layer& layer, const Network::Node& node);
  void AddParameters(Network::Node& node);
  void AddStatistics(Network::Node& node);
  absl::Status CheckUse(NodeId prediction) const;
  void SetGradientWidths();
  void PlaceInConcatenations();

  absl::Status status_;
  // For each node, whether a later node or view has it as an input of Add.
  std::vector<bool> used_;
  std::unique_ptr<Network> network_;
};

}  // namespace oarlock::nn

#endif  // OARLOCK_NN_NETWORK_H_
