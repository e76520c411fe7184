#include "nn/cpu/math_threads.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "models/image_networks.h"
#include "nn/backends/backends.h"
#include "nn/network.h"
#include "nn/workspace.h"
#include "tests/nn/backends/available_backends.h"

namespace oarlock::nn {
namespace {

constexpr uint64_t kSeed = 7;
constexpr float kPoison = std::numeric_limits<float>::quiet_NaN();

TEST(ParallelForTest, EveryIndexIsInOneRange) {
  for (const int threads : {1, 2, 3, 8}) {
    for (const size_t size : {0, 1, 2, 7, 1000}) {
      std::vector<std::atomic<int>> visits(size);
      std::atomic<int> ranges = 0;
      ParallelFor(threads, size, [&](size_t begin, size_t end) {
        EXPECT_LT(begin, end);
        ++ranges;
        for (size_t i = begin; i < end; ++i) ++visits[i];
      });
      EXPECT_LE(ranges.load(), threads);
      for (const auto& count : visits) EXPECT_EQ(count.load(), 1);
    }
  }
}

// What a training step leaves behind.
struct Left {
  std::vector<float> gradients, statistics, predictions;
};

class MathThreadsTest : public ::testing::TestWithParam<std::string> {
 protected:
  Left Step(const Network& network, size_t num_images, int threads) const {
    RandomSequence random(kSeed);
    std::vector<uint8_t> images(num_images * network.num_image_bytes());
    for (uint8_t& byte : images) byte = static_cast<uint8_t>(random.Below(256));
    std::vector<float> labels(num_images);
    for (float& label : labels) label = static_cast<float>(random.Below(10));
    std::vector<float> parameters(network.num_parameters());
    for (float& parameter : parameters) {
      parameter = .2f * static_cast<float>(random.Uniform()) - .1f;
    }
    Left left;
    left.statistics.assign(network.num_statistics(), 1);
    left.gradients.assign(network.num_parameters(), kPoison);
    Workspace workspace(network, *NewMathBackend(GetParam(), threads),
                        num_images);
    StepInput input;
    input.num_examples = num_images;
    input.training = true;
    input.labels = labels.data();
    input.images = images.data();
    input.parameters = parameters.data();
    input.statistics = left.statistics.data();
    input.gradient_scale = 1.0f / static_cast<float>(num_images);
    StepOutput output;
    output.parameter_gradients = left.gradients.data();
    workspace.Forward(input, &output);
    workspace.Backward(&output);
    left.predictions.assign(output.predictions.begin(),
                            output.predictions.end());
    return left;
  }

  // In parts of the largest number.
  static void ExpectNear(const std::vector<float>& some,
                         const std::vector<float>& wanted, float tolerance) {
    ASSERT_EQ(some.size(), wanted.size());
    float largest = 0;
    for (const float value : wanted) {
      ASSERT_TRUE(std::isfinite(value));
      largest = std::max(largest, std::abs(value));
    }
    for (size_t i = 0; i < some.size(); ++i) {
      ASSERT_NEAR(some[i], wanted[i], tolerance * largest) << "at " << i;
    }
  }

  void ExpectSameWithThreads(const Network& network, size_t num_images) const {
    // A sum over images in another order, of operands of 8 bits or of 24.
    const float tolerance = GetParam() == "onednn_bfloat16" ? 2e-2f : 1e-4f;
    const Left one = Step(network, num_images, 1);
    for (const int threads : {2, 3}) {
      SCOPED_TRACE(testing::Message() << threads << " threads, " << num_images
                                      << " images, seed " << kSeed);
      const Left more = Step(network, num_images, threads);
      ExpectNear(more.predictions, one.predictions, tolerance);
      ExpectNear(more.gradients, one.gradients, tolerance);
      ExpectNear(more.statistics, one.statistics, tolerance);
      const Left again = Step(network, num_images, threads);
      EXPECT_EQ(again.gradients, more.gradients);
    }
  }
};

TEST_P(MathThreadsTest, NumberOfThreadsChangesNothingButRounding) {
  const std::unique_ptr<Network> cifar = models::NewCifar10Network();
  for (const size_t num_images : {1, 2, 5, 32}) {
    ExpectSameWithThreads(*cifar, num_images);
  }
  models::ResNetOptions options;
  options.height = options.width = 32;
  options.num_classes = 10;
  const std::unique_ptr<Network> resnet = *models::NewResNet(options);
  ExpectSameWithThreads(*resnet, 3);
}

std::vector<std::string> ThreadedBackends() {
  std::vector<std::string> names = AvailableBackends();
  std::erase(names, "reference");
  return names;
}

INSTANTIATE_TEST_SUITE_P(Backends, MathThreadsTest,
                         ::testing::ValuesIn(ThreadedBackends()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace oarlock::nn
