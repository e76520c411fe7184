#include "models/image_networks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "nn/image_layers.h"
#include "nn/layers.h"
#include "nn/workspace.h"
#include "tests/nn/backends/available_backends.h"

namespace oarlock::models {
namespace {

constexpr uint64_t kSeed = 3;

std::unique_ptr<nn::Network> MustBuild(const ResNetOptions& options) {
  auto network = NewResNet(options);
  EXPECT_TRUE(network.ok()) << network.status();
  return *std::move(network);
}

// As published: He et al.'s networks as PyTorch's torchvision counts them.
TEST(ImageNetworksTest, NumbersOfParametersAreThoseOfTheModels) {
  EXPECT_EQ(NewMnistNetwork()->num_parameters(), 582026u);
  EXPECT_EQ(NewCifar10Network()->num_parameters(), 122570u);
  EXPECT_EQ(MustBuild({})->num_parameters(), 11689512u);
  EXPECT_EQ(MustBuild({.depth = 34})->num_parameters(), 21797672u);
  EXPECT_EQ(MustBuild({.depth = 50})->num_parameters(), 25557032u);
  EXPECT_EQ(MustBuild({.depth = 101})->num_parameters(), 44549160u);
  EXPECT_EQ(MustBuild({.depth = 152})->num_parameters(), 60192808u);
  // A mean and a variance for each channel of twenty batch norms.
  EXPECT_EQ(MustBuild({})->num_statistics(), 2 * 4800u);
}

TEST(ImageNetworksTest, SmallImagesAreNotShrunkBeforeTheFirstStage) {
  const auto image_of = [](size_t size) {
    const auto network = MustBuild({.height = size, .width = size});
    for (const nn::Network::Node& node : network->nodes()) {
      if (node.name == "stage1_block1_conv1") return node.shape;
    }
    return nn::Shape{};
  };
  EXPECT_EQ(image_of(32), (nn::Shape{32, 32, 64}));
  EXPECT_EQ(image_of(224), (nn::Shape{56, 56, 64}));
}

TEST(ImageNetworksTest, LastScaleOfEachBlockStartsAtZeroIfWanted) {
  for (const bool zero : {false, true}) {
    const auto network = MustBuild({.depth = 50, .zero_last_scale = zero});
    size_t zeros = 0;
    for (const nn::ParameterSpec& spec : network->parameters()) {
      const bool scale = spec.name.ends_with("/scale");
      zeros += scale && spec.init.value == 0;
    }
    EXPECT_EQ(zeros, zero ? 16u : 0u);
  }
}

TEST(ImageNetworksTest, OptionsThatAreNotLegalAreRefusedInOneLine) {
  const auto message = [](const ResNetOptions& options) {
    const auto status = NewResNet(options).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_EQ(message({.depth = 20}),
            "resnet's depth is 20; legal are 18, 34, 50, 101 and 152: choose "
            "one");
  EXPECT_EQ(message({.height = 0}),
            "resnet's image is 0 by 224 pixels; legal is 1 to 4096 on either "
            "side: correct it");
  EXPECT_EQ(message({.num_classes = 1}),
            "resnet's num_classes is 1; legal is 2 to 1048576: correct it");
}

// A network, random images with random labels, and plain Adam.
class Training {
 public:
  Training(const nn::Network& network, const std::string& backend,
           size_t num_images, size_t num_classes)
      : num_images_(num_images),
        workspace_(network, *nn::NewMathBackend(backend), num_images) {
    RandomSequence random(kSeed);
    images_.resize(num_images * network.num_image_bytes());
    for (uint8_t& byte : images_) {
      byte = static_cast<uint8_t>(random.Below(256));
    }
    labels_.resize(num_images);
    for (float& label : labels_) {
      label = static_cast<float>(random.Below(num_classes));
    }
    Start(network.parameters(), network.num_parameters(), parameters_);
    Start(network.statistics(), network.num_statistics(), statistics_);
    gradients_.resize(parameters_.size());
    first_.resize(parameters_.size());
    second_.resize(parameters_.size());
    input_.num_examples = num_images;
    input_.labels = labels_.data();
    input_.images = images_.data();
    input_.parameters = parameters_.data();
    input_.statistics = statistics_.data();
    input_.gradient_scale = 1.0f / static_cast<float>(num_images);
    output_.parameter_gradients = gradients_.data();
  }

  void Step(float rate) {
    input_.training = true;
    workspace_.Forward(input_, &output_);
    workspace_.Backward(&output_);
    ++steps_;
    const double left_first = 1 - std::pow(0.9, steps_);
    const double left_second = 1 - std::pow(0.999, steps_);
    for (size_t i = 0; i < parameters_.size(); ++i) {
      const double g = gradients_[i];
      first_[i] = 0.9 * first_[i] + 0.1 * g;
      second_[i] = 0.999 * second_[i] + 0.001 * g * g;
      parameters_[i] -=
          static_cast<float>(rate * (first_[i] / left_first) /
                             (std::sqrt(second_[i] / left_second) + 1e-8));
    }
  }

  // Of the images as evaluation sees them.
  double Accuracy() {
    input_.training = false;
    workspace_.Forward(input_, &output_);
    const size_t classes = output_.predictions.size() / num_images_;
    size_t right = 0;
    for (size_t i = 0; i < num_images_; ++i) {
      const auto of_image = output_.predictions.subspan(i * classes, classes);
      const auto most = std::max_element(of_image.begin(), of_image.end());
      right += static_cast<float>(most - of_image.begin()) == labels_[i];
    }
    return static_cast<double>(right) / static_cast<double>(num_images_);
  }
  double mean_loss() const {
    return output_.loss_sum / static_cast<double>(num_images_);
  }

 private:
  static void Start(const std::vector<nn::ParameterSpec>& specs, size_t size,
                    std::vector<float>& values) {
    values.resize(size);
    for (const nn::ParameterSpec& spec : specs) {
      const size_t end = spec.offset + nn::Shape(spec.shape).size();
      for (size_t i = spec.offset; i < end; ++i) {
        switch (spec.init.kind) {
          case nn::ParameterInit::Kind::kConstant:
            values[i] = spec.init.value;
            break;
          case nn::ParameterInit::Kind::kUniform:
            values[i] = spec.init.value * (2 * RandomUniform(kSeed, i) - 1);
            break;
          case nn::ParameterInit::Kind::kNormal:
            values[i] = spec.init.value * RandomNormal(kSeed, i);
            break;
        }
      }
    }
  }

  const size_t num_images_;
  nn::Workspace workspace_;
  std::vector<uint8_t> images_;
  std::vector<float> labels_, parameters_, statistics_, gradients_;
  std::vector<double> first_, second_;
  nn::StepInput input_;
  nn::StepOutput output_;
  int steps_ = 0;
};

class ImageTrainingTest : public ::testing::TestWithParam<std::string> {};

INSTANTIATE_TEST_SUITE_P(All, ImageTrainingTest,
                         ::testing::ValuesIn(nn::AvailableBackends()),
                         [](const auto& info) { return info.param; });

// Everything that a ResNet has, in little.
std::unique_ptr<nn::Network> NewSmallNetwork() {
  nn::NetworkBuilder b;
  const auto conv = [&](const std::string& name, nn::NodeId x,
                        const nn::Window& w) {
    return b.Add(name,
                 nn::NewConv2d({.out_channels = 8, .window = w, .bias = false}),
                 {x});
  };
  nn::NodeId x = b.Add("image", nn::NewImageInput({.shape = {8, 8, 3}}), {});
  x = conv("conv1", x, nn::SquareWindow(3, 1, 1));
  x = b.Add("norm1", nn::NewBatchNorm2d({.activation = nn::Activation::kRelu}),
            {x});
  x = b.Add("pool", nn::NewMaxPool2d({.window = nn::SquareWindow(3, 2, 1)}),
            {x});
  nn::NodeId y = conv("conv2", x, nn::SquareWindow(3, 1, 1));
  y = b.Add("norm2", nn::NewBatchNorm2d({.activation = nn::Activation::kRelu}),
            {y, x});
  y = b.Add("flat", nn::NewFlatten(), {y});
  y = b.Add("fc", nn::NewLinear({.num_outputs = 10}), {y});
  return *b.Build(b.Add("loss", nn::NewSoftmaxCrossEntropy(), {y}));
}

TEST_P(ImageTrainingTest, SmallNetworkLearns64RandomImagesByHeart) {
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  const std::unique_ptr<nn::Network> network = NewSmallNetwork();
  Training training(*network, GetParam(), 64, 10);
  for (int step = 0; step < 100; ++step) training.Step(1e-2f);
  EXPECT_LT(training.mean_loss(), 0.02);
  // By the running statistics, too.
  EXPECT_EQ(training.Accuracy(), 1);
}

TEST_P(ImageTrainingTest, NetworksOfTheExamplesLearnFourImages) {
  if (GetParam() == "reference") GTEST_SKIP() << "its loops take minutes";
  const auto loss_after = [&](std::unique_ptr<nn::Network> network, int steps) {
    Training training(*network, GetParam(), 4, 10);
    for (int step = 0; step < steps; ++step) training.Step(1e-3f);
    return training.mean_loss();
  };
  EXPECT_LT(loss_after(NewMnistNetwork(), 20), 0.1);
  EXPECT_LT(loss_after(NewCifar10Network(), 60), 0.1);
  ResNetOptions resnet;
  resnet.num_classes = 10;
  resnet.height = resnet.width = 16;
  EXPECT_LT(loss_after(MustBuild(resnet), 4), 0.5);
  resnet.height = resnet.width = 65;
  resnet.depth = 50;
  EXPECT_LT(loss_after(MustBuild(resnet), 3), 0.5);
}

}  // namespace
}  // namespace oarlock::models
