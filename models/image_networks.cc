#include "models/image_networks.h"

#include <memory>
#include <string>
#include <utility>

#include "base/check.h"
#include "nn/image_layers.h"
#include "nn/layers.h"

namespace oarlock {
namespace {

NodeId AddConvolution(NetworkBuilder& net, const std::string& name, NodeId x,
                      size_t channels, size_t kernel, Activation activation) {
  Conv2dOptions options;
  options.out_channels = channels;
  options.window = SquareWindow(kernel);
  options.activation = activation;
  return net.Add(name, NewConv2d(options), {x});
}

// A convolution, ReLU, and pooling of 2 by 2.
NodeId AddPooledConvolution(NetworkBuilder& net, const std::string& number,
                            NodeId x, size_t channels, size_t kernel) {
  MaxPool2dOptions pool;
  pool.window = SquareWindow(2, 2);
  pool.activation = Activation::kRelu;
  return net.Add("pool" + number, NewMaxPool2d(pool),
                 {AddConvolution(net, "conv" + number, x, channels, kernel,
                                 Activation::kNone)});
}

NodeId AddLinear(NetworkBuilder& net, const std::string& name, NodeId x,
                 size_t outputs, Activation activation) {
  LinearOptions options;
  options.num_outputs = outputs;
  options.activation = activation;
  options.weight_start = WeightStart::kXavierUniform;
  return net.Add(name, NewLinear(options), {x});
}

constexpr size_t kNumClasses = 10;

std::unique_ptr<Network> MustBuild(NetworkBuilder& net, NodeId logits) {
  auto network = net.Build(net.Add("loss", NewSoftmaxCrossEntropy(), {logits}));
  OARLOCK_CHECK(network.ok());  // nothing in it comes from outside
  return *std::move(network);
}

}  // namespace

std::unique_ptr<Network> NewMnistNetwork() {
  NetworkBuilder net;
  ImageInputOptions input;
  input.shape = {28, 28, 1};
  input.mean = {0.5f};
  input.deviation = {0.5f};
  NodeId x = net.Add("image", NewImageInput(input), {});
  x = AddPooledConvolution(net, "1", x, 32, 5);
  x = AddPooledConvolution(net, "2", x, 64, 5);
  x = AddLinear(net, "fc1", x, 512, Activation::kRelu);
  return MustBuild(net,
                   AddLinear(net, "fc2", x, kNumClasses, Activation::kNone));
}

std::unique_ptr<Network> NewCifar10Network() {
  NetworkBuilder net;
  ImageInputOptions input;
  input.shape = {32, 32, 3};
  NodeId x = net.Add("image", NewImageInput(input), {});
  x = AddPooledConvolution(net, "1", x, 32, 3);
  x = AddPooledConvolution(net, "2", x, 64, 3);
  x = AddConvolution(net, "conv3", x, 64, 3, Activation::kRelu);
  x = net.Add("flatten", NewFlatten(), {x});
  x = AddLinear(net, "linear1", x, 64, Activation::kRelu);
  return MustBuild(
      net, AddLinear(net, "linear2", x, kNumClasses, Activation::kNone));
}

}  // namespace oarlock
