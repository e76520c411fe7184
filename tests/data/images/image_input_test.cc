// A batch of the loader goes into a network as it is: what the network makes of
// it is (byte / 255 - mean) / deviation, channel by channel.

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "data/images/image_loader.h"
#include "data/images/synthetic_images.h"
#include "data/order/distributed_batch_sampler.h"
#include "nn/backends/backends.h"
#include "nn/image_layers.h"
#include "nn/layers.h"
#include "nn/network.h"
#include "nn/step.h"
#include "nn/workspace.h"

namespace oarlock::data {
namespace {

constexpr uint64_t kSeed = 21;
constexpr ImageShape kShape = {6, 5, 3};
constexpr size_t kClasses = 10;
constexpr uint32_t kBatch = 8;

// Softmax regression over images that are normalised by three means and three
// deviations.
std::vector<double> Predict(const std::vector<float>& parameters,
                            const uint8_t* image,
                            const std::vector<float>& means,
                            const std::vector<float>& deviations) {
  const size_t num_bytes = kShape.size();
  std::vector<double> scores(kClasses);
  double sum = 0;
  for (size_t k = 0; k < kClasses; ++k) {
    for (size_t i = 0; i < num_bytes; ++i) {
      const double x = (image[i] / 255.0 - means[i % 3]) / deviations[i % 3];
      scores[k] += x * parameters[i * kClasses + k];
    }
    scores[k] = std::exp(scores[k] + parameters[num_bytes * kClasses + k]);
    sum += scores[k];
  }
  for (double& x : scores) x /= sum;
  return scores;
}

class ImageInputTest : public ::testing::TestWithParam<std::string> {
 protected:
  // Runs batches through a network of `options`, and compares it with Predict.
  void Compare(const nn::ImageInputOptions& options,
               const std::vector<float>& means,
               const std::vector<float>& deviations) {
    nn::NetworkBuilder builder;
    const nn::NodeId image =
        builder.Add("image", nn::NewImageInput(options), {});
    const nn::NodeId logits =
        builder.Add("fc", nn::NewLinear({.num_outputs = kClasses}), {image});
    const auto network = builder.Build(
        builder.Add("loss", nn::NewSoftmaxCrossEntropy(), {logits}));
    ASSERT_TRUE(network.ok()) << network.status();
    std::vector<float> parameters((*network)->num_parameters());
    for (size_t i = 0; i < parameters.size(); ++i) {
      parameters[i] = 0.1f * RandomNormal(kSeed, i);
    }
    nn::Workspace workspace(**network, *nn::NewMathBackend(GetParam()), kBatch);

    const auto images = *NewSyntheticImages(
        {.shape = kShape, .num_examples = 21, .seed = kSeed});
    const ImageTransform transform =
        *ImageTransform::Create(kShape, {.padding = 1, .flip = true}, kSeed);
    const DistributedBatchSampler sampler = *DistributedBatchSampler::Create(
        {.num_examples = images->size(), .batch_size = kBatch});
    ImageLoader loader(images.get(), &transform, sampler.Epoch(0), {});
    size_t num_examples = 0;
    while (const ImageBatch* const batch = *loader.Next()) {
      nn::StepInput input;
      input.num_examples = batch->num_examples;
      input.labels = batch->labels.data();
      input.images = batch->images.data();
      input.parameters = parameters.data();
      nn::StepOutput output;
      workspace.Forward(input, &output);
      for (size_t i = 0; i < batch->num_examples; ++i, ++num_examples) {
        const std::vector<double> expected =
            Predict(parameters, batch->images.data() + i * kShape.size(), means,
                    deviations);
        for (size_t k = 0; k < kClasses; ++k) {
          ASSERT_NEAR(output.predictions[i * kClasses + k], expected[k], 1e-5)
              << "seed " << kSeed << " example " << num_examples;
        }
      }
    }
    EXPECT_EQ(num_examples, images->size());
  }
};

INSTANTIATE_TEST_SUITE_P(All, ImageInputTest,
                         ::testing::Values("reference", "onednn"));

TEST_P(ImageInputTest, EachChannelHasItsMeanAndDeviation) {
  const std::vector<float> means = {0.4914f, 0.4822f, 0.4465f};
  const std::vector<float> deviations = {0.2470f, 0.1435f, 0.3616f};
  Compare({.shape = {6, 5, 3}, .mean = means, .deviation = deviations}, means,
          deviations);
}

TEST_P(ImageInputTest, OneMeanAndDeviationStandForAllChannels) {
  Compare({.shape = {6, 5, 3}, .mean = {0.5f}, .deviation = {0.25f}},
          {0.5f, 0.5f, 0.5f}, {0.25f, 0.25f, 0.25f});
}

TEST_P(ImageInputTest, WithoutMeanAndDeviationBytesBecomeZeroToOne) {
  Compare({.shape = {6, 5, 3}}, {0, 0, 0}, {1, 1, 1});
}

}  // namespace
}  // namespace oarlock::data
