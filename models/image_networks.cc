#include "models/image_networks.h"

#include <memory>
#include <string>
#include <utility>

#include "base/check.h"
#include "nn/image_layers.h"
#include "nn/layers.h"

namespace oarlock::models {
namespace {

nn::NodeId AddConvolution(nn::NetworkBuilder& net, const std::string& name,
                          nn::NodeId x, size_t channels, size_t kernel,
                          nn::Activation activation) {
  nn::Conv2dOptions options;
  options.out_channels = channels;
  options.window = nn::SquareWindow(kernel);
  options.activation = activation;
  return net.Add(name, nn::NewConv2d(options), {x});
}

// A convolution, ReLU, and pooling of 2 by 2.
nn::NodeId AddPooledConvolution(nn::NetworkBuilder& net,
                                const std::string& number, nn::NodeId x,
                                size_t channels, size_t kernel) {
  nn::MaxPool2dOptions pool;
  pool.window = nn::SquareWindow(2, 2);
  pool.activation = nn::Activation::kRelu;
  return net.Add("pool" + number, nn::NewMaxPool2d(pool),
                 {AddConvolution(net, "conv" + number, x, channels, kernel,
                                 nn::Activation::kNone)});
}

nn::NodeId AddLinear(nn::NetworkBuilder& net, const std::string& name,
                     nn::NodeId x, size_t outputs, nn::Activation activation) {
  nn::LinearOptions options;
  options.num_outputs = outputs;
  options.activation = activation;
  options.weight_start = nn::WeightStart::kXavierUniform;
  return net.Add(name, nn::NewLinear(options), {x});
}

constexpr size_t kNumClasses = 10;

std::unique_ptr<nn::Network> MustBuild(nn::NetworkBuilder& net,
                                       nn::NodeId logits) {
  auto network =
      net.Build(net.Add("loss", nn::NewSoftmaxCrossEntropy(), {logits}));
  OARLOCK_CHECK(network.ok());  // its parts are constant
  return *std::move(network);
}

}  // namespace

std::unique_ptr<nn::Network> NewMnistNetwork() {
  nn::NetworkBuilder net;
  nn::ImageInputOptions input;
  input.shape = {28, 28, 1};
  input.mean = {0.5f};
  input.deviation = {0.5f};
  nn::NodeId x = net.Add("image", nn::NewImageInput(input), {});
  x = AddPooledConvolution(net, "1", x, 32, 5);
  x = AddPooledConvolution(net, "2", x, 64, 5);
  x = AddLinear(net, "fc1", x, 512, nn::Activation::kRelu);
  return MustBuild(
      net, AddLinear(net, "fc2", x, kNumClasses, nn::Activation::kNone));
}

std::unique_ptr<nn::Network> NewCifar10Network() {
  nn::NetworkBuilder net;
  nn::ImageInputOptions input;
  input.shape = {32, 32, 3};
  nn::NodeId x = net.Add("image", nn::NewImageInput(input), {});
  x = AddPooledConvolution(net, "1", x, 32, 3);
  x = AddPooledConvolution(net, "2", x, 64, 3);
  x = AddConvolution(net, "conv3", x, 64, 3, nn::Activation::kRelu);
  x = net.Add("flatten", nn::NewFlatten(), {x});
  x = AddLinear(net, "linear1", x, 64, nn::Activation::kRelu);
  return MustBuild(
      net, AddLinear(net, "linear2", x, kNumClasses, nn::Activation::kNone));
}

}  // namespace oarlock::models
