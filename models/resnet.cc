#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "models/image_networks.h"
#include "nn/image_layers.h"
#include "nn/layers.h"

namespace oarlock::models {
namespace {

constexpr size_t kNumStages = 4;
constexpr size_t kFirstChannels = 64;
// A bottleneck's output has this many times the channels of its middle.
constexpr size_t kExpansion = 4;
// Far larger than any use; with these limits sizes cannot overflow.
constexpr size_t kMaxImage = 1 << 12;
constexpr size_t kMaxClasses = 1 << 20;

// Number of blocks of each stage: table 1 of the paper. All 0: not a legal
// depth.
std::array<size_t, kNumStages> BlocksOf(size_t depth) {
  switch (depth) {
    case 18:
      return {2, 2, 2, 2};
    case 34:
    case 50:
      return {3, 4, 6, 3};
    case 101:
      return {3, 4, 23, 3};
    case 152:
      return {3, 8, 36, 3};
    default:
      return {};
  }
}

absl::Status Validate(const ResNetOptions& o) {
  if (BlocksOf(o.depth)[0] == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("resnet's depth is ", o.depth,
                     "; legal are 18, 34, 50, 101 and 152: choose one"));
  }
  if (o.height == 0 || o.width == 0 || o.height > kMaxImage ||
      o.width > kMaxImage) {
    return absl::InvalidArgumentError(absl::StrCat(
        "resnet's image is ", o.height, " by ", o.width,
        " pixels; legal is 1 to ", kMaxImage, " on either side: correct it"));
  }
  if (o.num_classes < 2 || o.num_classes > kMaxClasses) {
    return absl::InvalidArgumentError(
        absl::StrCat("resnet's num_classes is ", o.num_classes,
                     "; legal is 2 to ", kMaxClasses, ": correct it"));
  }
  return absl::OkStatus();
}

class ResNetBuilder {
 public:
  explicit ResNetBuilder(const ResNetOptions& options) : options_(options) {}

  absl::StatusOr<std::unique_ptr<nn::Network>> Build() {
    nn::NodeId x = AddStem();
    size_t channels = kFirstChannels;
    for (size_t stage = 0; stage < kNumStages; ++stage) {
      for (size_t block = 0; block < BlocksOf(options_.depth)[stage]; ++block) {
        const size_t stride = stage > 0 && block == 0 ? 2 : 1;
        const std::string name =
            absl::StrCat("stage", stage + 1, "_block", block + 1);
        x = AddBlock(name, x, channels, stride);
      }
      channels *= 2;
    }
    x = net_.Add("pool", nn::NewGlobalAveragePool(), {x});
    nn::LinearOptions fc;
    fc.num_outputs = options_.num_classes;
    fc.weight_start = nn::WeightStart::kFanInUniform;
    x = net_.Add("fc", nn::NewLinear(fc), {x});
    return net_.Build(net_.Add("loss", nn::NewSoftmaxCrossEntropy(), {x}));
  }

 private:
  bool small_image() const {
    return options_.height <= kMaxSmallResNetImage &&
           options_.width <= kMaxSmallResNetImage;
  }

  nn::NodeId AddStem() {
    nn::ImageInputOptions input;
    input.shape = {options_.height, options_.width, 3};
    input.mean = {0.485f, 0.456f, 0.406f};
    input.deviation = {0.229f, 0.224f, 0.225f};
    nn::NodeId x = net_.Add("image", nn::NewImageInput(input), {});
    if (small_image()) {
      x = AddConvolution("conv1", x, kFirstChannels, nn::SquareWindow(3, 1, 1));
      x = AddNorm("norm1", {x}, nn::Activation::kRelu);
    } else {
      x = AddConvolution("conv1", x, kFirstChannels, nn::SquareWindow(7, 2, 3));
      x = AddNorm("norm1", {x}, nn::Activation::kRelu);
      nn::MaxPool2dOptions pool;
      pool.window = nn::SquareWindow(3, 2, 1);
      x = net_.Add("max_pool", nn::NewMaxPool2d(pool), {x});
    }
    in_channels_ = kFirstChannels;
    return x;
  }

  nn::NodeId AddBlock(const std::string& name, nn::NodeId x, size_t channels,
                      size_t stride) {
    const bool bottleneck = options_.depth >= 50;
    const size_t out_channels = bottleneck ? kExpansion * channels : channels;
    nn::NodeId shortcut = x;
    if (stride != 1 || in_channels_ != out_channels) {
      shortcut = AddConvolution(name + "_project", x, out_channels,
                                nn::SquareWindow(1, stride));
      shortcut =
          AddNorm(name + "_project_norm", {shortcut}, nn::Activation::kNone);
    }
    const nn::Window wide = nn::SquareWindow(3, 1, 1);
    const nn::Window strided = nn::SquareWindow(3, stride, 1);
    if (bottleneck) {
      x = AddConvolution(name + "_conv1", x, channels, nn::SquareWindow(1));
      x = AddNorm(name + "_norm1", {x}, nn::Activation::kRelu);
      x = AddConvolution(name + "_conv2", x, channels, strided);
      x = AddNorm(name + "_norm2", {x}, nn::Activation::kRelu);
      x = AddConvolution(name + "_conv3", x, out_channels, nn::SquareWindow(1));
      x = AddLastNorm(name + "_norm3", x, shortcut);
    } else {
      x = AddConvolution(name + "_conv1", x, channels, strided);
      x = AddNorm(name + "_norm1", {x}, nn::Activation::kRelu);
      x = AddConvolution(name + "_conv2", x, channels, wide);
      x = AddLastNorm(name + "_norm2", x, shortcut);
    }
    in_channels_ = out_channels;
    return x;
  }

  nn::NodeId AddConvolution(const std::string& name, nn::NodeId x,
                            size_t channels, const nn::Window& window) {
    nn::Conv2dOptions options;
    options.out_channels = channels;
    options.window = window;
    options.bias = false;
    return net_.Add(name, nn::NewConv2d(options), {x});
  }

  nn::NodeId AddNorm(const std::string& name,
                     const std::vector<nn::NodeId>& inputs,
                     nn::Activation activation) {
    nn::BatchNorm2dOptions options;
    options.activation = activation;
    return net_.Add(name, nn::NewBatchNorm2d(options), inputs);
  }

  // Adds a norm, the sum with the shortcut, and ReLU.
  nn::NodeId AddLastNorm(const std::string& name, nn::NodeId x,
                         nn::NodeId shortcut) {
    nn::BatchNorm2dOptions options;
    options.activation = nn::Activation::kRelu;
    options.scale_start = options_.zero_last_scale ? 0 : 1;
    return net_.Add(name, nn::NewBatchNorm2d(options), {x, shortcut});
  }

  const ResNetOptions options_;
  nn::NetworkBuilder net_;
  size_t in_channels_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<nn::Network>> NewResNet(
    const ResNetOptions& options) {
  const absl::Status status = Validate(options);
  if (!status.ok()) return status;
  return ResNetBuilder(options).Build();
}

}  // namespace oarlock::models
