// One suite for all backends: images of odd shapes against the reference, and
// small cases computed by hand for all, the reference too.

#include "nn/image_operations.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "nn/math_backend.h"
#include "nn/window.h"
#include "tests/nn/backends/conforming_backends.h"
#include "tests/nn/backends/math_backend_testing.h"

namespace oarlock::nn {
namespace {

class ImageOperationsTest : public MathBackendTest {
 protected:
  std::vector<uint8_t> RandomBytes(size_t size) {
    std::vector<uint8_t> bytes(size);
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random_.Below(256));
    return bytes;
  }
};

INSTANTIATE_TEST_SUITE_P(All, ImageOperationsTest,
                         ::testing::ValuesIn(ConformingImageBackends()),
                         [](const auto& info) { return info.param; });

constexpr Write kWrites[] = {Write::kOverwrite, Write::kAdd};

// Bytes in a backend's memory.
class Bytes {
 public:
  Bytes(MathBackend* math, const std::vector<uint8_t>& values)
      : math_(math), memory_(math, values.size() + 1), size_(values.size()) {
    math->CopyIn(values.data(), size_, memory_.data());
  }
  uint8_t* data() const { return static_cast<uint8_t*>(memory_.data()); }
  std::vector<uint8_t> Read() const {
    std::vector<uint8_t> values(size_);
    math_->CopyOut(memory_.data(), size_, values.data());
    return values;
  }

 private:
  MathBackend* math_;
  BackendArray memory_;
  size_t size_;
};

TEST(WindowTest, PositionsAndElementsAreThoseOfTryingAll) {
  for (size_t image = 1; image <= 7; ++image) {
    for (size_t kernel = 1; kernel <= 5; ++kernel) {
      for (size_t stride = 1; stride <= 4; ++stride) {
        for (size_t padding = 0; padding <= 6; ++padding) {
          std::vector<std::vector<size_t>> over(image);
          size_t position = 0;
          for (; position * stride + kernel <= image + 2 * padding;
               ++position) {
            std::vector<size_t> inside;
            for (size_t k = 0; k < kernel; ++k) {
              const size_t at = position * stride + k;
              if (at < padding || at >= image + padding) continue;
              inside.push_back(k);
              over[at - padding].push_back(position);
            }
            const Interval run =
                ElementsInside(position, image, kernel, stride, padding);
            ASSERT_EQ(run.end - run.begin, inside.size());
            ASSERT_TRUE(inside.empty() || run.begin == inside[0]);
          }
          ASSERT_EQ(NumPositions(image, kernel, stride, padding), position);
          for (size_t pixel = 0; pixel < image; ++pixel) {
            const Interval run =
                PositionsOver(pixel, position, kernel, stride, padding);
            ASSERT_EQ(run.end - run.begin, over[pixel].size())
                << image << " " << kernel << " " << stride << " " << padding;
            ASSERT_TRUE(over[pixel].empty() || run.begin == over[pixel][0]);
          }
        }
      }
    }
  }
}

// Image 2x3 of one channel, kernel 2x2, two channels out.
TEST_P(ImageOperationsTest, ConvolutionOfHandComputedImage) {
  Array x(math_.get(), {1, 2, 3, 4, 5, 6});
  Array weight(math_.get(), {1, 0, 0, 1, 2, 0, 0, -1});  // [2, 2, 1, 2]
  Array bias(math_.get(), {10, 3});
  Array y(math_.get(), std::vector<float>(4, kNan));
  ConvolutionArgs args;
  args.images = 1;
  args.shape = {{2, 3}, 1, 2, SquareWindow(2)};
  args.activation = Activation::kRelu;
  args.x = x.data();
  args.weight = weight.data();
  args.bias = bias.data();
  Array scratch(math_.get(), std::vector<float>(
                                 math_->ConvolutionScratch(1, args.shape) + 1));
  args.scratch = scratch.data();
  math_->Convolution(args, y.data());
  // 1*1 + 4*2 + 10; 2 - 5 + 3 = 0; 2 + 5*2 + 10; 3 - 6 + 3 = 0.
  EXPECT_EQ(y.Read(), (std::vector<float>{19, 0, 22, 0}));
  Array dy(math_.get(), {1, 5, 2, 7});
  Array dweight(math_.get(), std::vector<float>(8, kNan));
  Array dbias(math_.get(), {kNan, kNan});
  Array dx(math_.get(), std::vector<float>(6, kNan));
  ConvolutionGradients gradients;
  gradients.dy = dy.data();
  gradients.dweight = dweight.data();
  gradients.dbias = dbias.data();
  gradients.dx = dx.data();
  math_->ConvolutionBackward(args, y.data(), gradients);
  EXPECT_EQ(dweight.Read(), (std::vector<float>{5, 0, 8, 0, 14, 0, 17, 0}));
  EXPECT_EQ(dbias.Read(), (std::vector<float>{3, 0}));
  EXPECT_EQ(dx.Read(), (std::vector<float>{1, 2, 0, 2, 4, 0}));
}

std::vector<ConvolutionShape> ConvolutionShapes() {
  return {
      {{1, 1}, 1, 1, SquareWindow(1)},
      {{5, 4}, 3, 7, SquareWindow(3)},
      {{32, 32}, 3, 32, SquareWindow(3)},
      {{7, 9}, 16, 32, SquareWindow(3, 1, 1)},
      {{8, 8}, 5, 3, SquareWindow(3, 2, 1)},
      {{14, 14}, 1, 20, SquareWindow(5)},
      {{11, 10}, 3, 16, SquareWindow(7, 2, 3)},
      {{6, 6}, 64, 64, SquareWindow(3)},
      {{7, 7}, 17, 33, SquareWindow(1, 2)},
      {{4, 6}, 24, 48, SquareWindow(1)},
      {{6, 9}, 2, 4, {{2, 3}, {3, 1}, {1, 0}}},
      {{3, 3}, 4, 5, SquareWindow(5, 1, 2)},
  };
}

TEST_P(ImageOperationsTest, ConvolutionsOfAllShapesAndTheirGradients) {
  for (const ConvolutionShape& shape : ConvolutionShapes()) {
    for (const size_t images : {0, 1, 3}) {
      for (const bool bias : {false, true}) {
        for (const bool relu : {false, true}) {
          if (relu && !bias) continue;
          const Write write = kWrites[(images + bias) % 2];
          SCOPED_TRACE(testing::Message()
                       << images << " images " << shape.image.height << "x"
                       << shape.image.width << "x" << shape.in_channels
                       << " kernel " << shape.window.kernel.height << "x"
                       << shape.window.kernel.width << " bias " << bias
                       << " relu " << relu);
          const size_t in_size = images * shape.input_size();
          const size_t out_size = images * shape.output_size();
          // Rounded operands are not rounded again: what is left is the order
          // of sums. Without ReLU: it would round where x is near 0.
          const std::vector<std::vector<float>> inputs = {
              RandomBfloat16(in_size), RandomBfloat16(shape.weight_size()),
              RandomBfloat16(shape.out_channels)};
          const auto dy = RandomBfloat16(out_size);
          const std::vector<std::vector<float>> outputs = {
              std::vector<float>(out_size, kNan), dy,
              Before(shape.weight_size(), write),
              Before(shape.out_channels, write), Before(in_size, write)};
          Compare(
              inputs, outputs,
              [&](MathBackend& math, Arrays& in, Arrays& out) {
                BackendArray scratch(
                    &math, (math.ConvolutionScratch(images, shape) + 1) *
                               sizeof(float));
                ConvolutionArgs args;
                args.images = images;
                args.shape = shape;
                args.activation = relu ? Activation::kRelu : Activation::kNone;
                args.x = in[0].data();
                args.weight = in[1].data();
                if (bias) args.bias = in[2].data();
                args.scratch = scratch.floats();
                math.Convolution(args, out[0].data());
                ConvolutionGradients gradients;
                gradients.dy = out[1].data();
                gradients.parameter_write = write;
                gradients.dweight = out[2].data();
                if (bias) gradients.dbias = out[3].data();
                gradients.dx = out[4].data();
                gradients.dx_write = write;
                math.ConvolutionBackward(args, out[0].data(), gradients);
                // May be overwritten: not compared.
                math.Fill(out_size, 0, out[1].data());
              },
              1e-4f);
        }
      }
    }
  }
}

TEST_P(ImageOperationsTest, ConvolutionWithoutWantedInputGradientGivesTheRest) {
  const ConvolutionShape shape = {{6, 5}, 3, 8, SquareWindow(3, 1, 1)};
  Compare(
      {RandomBfloat16(2 * shape.input_size()),
       RandomBfloat16(shape.weight_size()),
       RandomBfloat16(2 * shape.output_size())},
      {std::vector<float>(2 * shape.output_size(), kNan),
       std::vector<float>(shape.weight_size(), kNan)},
      [&](MathBackend& math, Arrays& in, Arrays& out) {
        BackendArray scratch(
            &math, (math.ConvolutionScratch(2, shape) + 1) * sizeof(float));
        ConvolutionArgs args;
        args.images = 2;
        args.shape = shape;
        args.x = in[0].data();
        args.weight = in[1].data();
        args.scratch = scratch.floats();
        math.Convolution(args, out[0].data());
        ConvolutionGradients gradients;
        gradients.dy = in[2].data();
        gradients.dweight = out[1].data();
        math.ConvolutionBackward(args, out[0].data(), gradients);
      },
      1e-4f);
}

TEST_P(ImageOperationsTest, MaxPoolOfHandComputedImage) {
  // 3x3, one channel; kernel 2, stride 2, padding 1: the corners.
  Array x(math_.get(), {-1, 2, 3, 4, 5, 5, 7, 9, -3});
  Array y(math_.get(), std::vector<float>(4, kNan));
  Bytes chosen(math_.get(), std::vector<uint8_t>(4));
  const PoolingShape shape = {1, {3, 3}, 1, SquareWindow(2, 2, 1)};
  math_->MaxPool(shape, Activation::kNone, x.data(), y.data(), chosen.data());
  EXPECT_EQ(y.Read(), (std::vector<float>{-1, 3, 7, 9}));
  EXPECT_EQ(chosen.Read(), (std::vector<uint8_t>{3, 3, 3, 2}));
  math_->MaxPool(shape, Activation::kRelu, x.data(), y.data(), chosen.data());
  EXPECT_EQ(y.Read(), (std::vector<float>{0, 3, 7, 9}));
  EXPECT_EQ(chosen.Read(), (std::vector<uint8_t>{kNoneChosen, 3, 3, 2}));
  Array dy(math_.get(), {10, 20, 30, 40});
  Array dx(math_.get(), std::vector<float>(9, kNan));
  math_->MaxPoolBackward(shape, dy.data(), chosen.data(), Write::kOverwrite,
                         dx.data());
  EXPECT_EQ(dx.Read(), (std::vector<float>{0, 0, 20, 0, 0, 0, 30, 40, 0}));
}

TEST_P(ImageOperationsTest, OfEqualPixelsTheFirstIsChosen) {
  Array x(math_.get(), {5, 5, 5, 5});
  Array y(math_.get(), {kNan});
  Bytes chosen(math_.get(), {9});
  math_->MaxPool({1, {2, 2}, 1, SquareWindow(2)}, Activation::kNone, x.data(),
                 y.data(), chosen.data());
  EXPECT_EQ(chosen.Read(), (std::vector<uint8_t>{0}));
}

TEST_P(ImageOperationsTest, NanStaysNan) {
  for (const Activation activation : {Activation::kNone, Activation::kRelu}) {
    for (size_t at = 0; at < 4; ++at) {
      std::vector<float> pixels = {3, 5, 2, -1};
      pixels[at] = kNan;
      Array x(math_.get(), pixels);
      Array y(math_.get(), {0});
      Bytes chosen(math_.get(), {9});
      math_->MaxPool({1, {2, 2}, 1, SquareWindow(2)}, activation, x.data(),
                     y.data(), chosen.data());
      EXPECT_TRUE(std::isnan(y.Read()[0])) << at;
      EXPECT_EQ(chosen.Read()[0], at);
    }
    // One of two channels, at inference and in training.
    for (const bool training : {false, true}) {
      Array x(math_.get(), {1, kNan, 2, 3});
      Array y(math_.get(), {0, 0, 0, 0});
      Array ones(math_.get(), {1, 1});
      Array zeros(math_.get(), {0, 0});
      Array variance(math_.get(), {1, 1});
      BackendArray scratch(math_.get(), 4 * sizeof(float));
      BatchNormArgs args;
      args.rows = 2;
      args.channels = 2;
      args.epsilon = 1e-2f;
      args.momentum = 0.9f;
      args.activation = activation;
      args.x = x.data();
      args.scale = ones.data();
      args.shift = zeros.data();
      args.running_mean = zeros.data();
      args.running_variance = variance.data();
      args.scratch = scratch.floats();
      if (training) {
        math_->BatchNormTraining(args, y.data());
      } else {
        math_->BatchNormInference(args, y.data());
      }
      EXPECT_TRUE(std::isnan(y.Read()[1])) << training;
      EXPECT_FALSE(std::isnan(y.Read()[2])) << training;
    }
    // Of 3x3 pixels the first is NaN: all sums of a 2x2 window over it are.
    const ConvolutionShape shape = {{3, 3}, 1, 1, SquareWindow(2)};
    Array x(math_.get(), {kNan, 1, 1, 1, 1, 1, 1, 1, 1});
    Array weight(math_.get(), {1, 1, 1, 1});
    Array y(math_.get(), {0, 0, 0, 0});
    Array bias(math_.get(), {0});
    BackendArray scratch(
        math_.get(), (math_->ConvolutionScratch(1, shape) + 1) * sizeof(float));
    ConvolutionArgs args;
    args.images = 1;
    args.shape = shape;
    args.activation = activation;
    args.x = x.data();
    args.weight = weight.data();
    args.bias = bias.data();
    args.scratch = scratch.floats();
    math_->Convolution(args, y.data());
    EXPECT_TRUE(std::isnan(y.Read()[0]));
    EXPECT_EQ(y.Read()[3], 4);
  }
}

// What the networks of the examples rely on.
TEST_P(ImageOperationsTest, ReluBeforePoolingAndInPoolingAreTheSame) {
  const PoolingShape shape = {2, {7, 6}, 5, SquareWindow(3, 2, 1)};
  const size_t in_size = 2 * 7 * 6 * 5;
  const size_t out_size = shape.output_size();
  Array x(math_.get(), Random(in_size));
  Array dy(math_.get(), Random(out_size));
  Array positive(math_.get(), std::vector<float>(in_size, kNan));
  Array by_positive(math_.get(), std::vector<float>(in_size, kNan));
  std::vector<Array> y, dx;
  for (int i = 0; i < 2; ++i) {
    y.emplace_back(math_.get(), std::vector<float>(out_size, kNan));
    dx.emplace_back(math_.get(), std::vector<float>(in_size, kNan));
  }
  Bytes chosen(math_.get(), std::vector<uint8_t>(out_size));
  math_->Relu(in_size, x.data(), positive.data());
  math_->MaxPool(shape, Activation::kNone, positive.data(), y[0].data(),
                 chosen.data());
  math_->MaxPoolBackward(shape, dy.data(), chosen.data(), Write::kOverwrite,
                         by_positive.data());
  math_->ReluBackward(in_size, positive.data(), by_positive.data(),
                      Write::kOverwrite, dx[0].data());
  math_->MaxPool(shape, Activation::kRelu, x.data(), y[1].data(),
                 chosen.data());
  math_->MaxPoolBackward(shape, dy.data(), chosen.data(), Write::kOverwrite,
                         dx[1].data());
  EXPECT_EQ(y[0].Read(), y[1].Read());
  EXPECT_EQ(dx[0].Read(), dx[1].Read());
}

std::vector<PoolingShape> PoolingShapes() {
  std::vector<PoolingShape> shapes;
  for (const size_t images : {0, 1, 3}) {
    for (const size_t channels : {1, 3, 16, 33}) {
      shapes.push_back({images, {1, 1}, channels, SquareWindow(1)});
      shapes.push_back({images, {6, 4}, channels, SquareWindow(2, 2)});
      shapes.push_back({images, {7, 5}, channels, SquareWindow(2, 2)});
      shapes.push_back({images, {8, 9}, channels, SquareWindow(3, 2, 1)});
      shapes.push_back({images, {5, 7}, channels, SquareWindow(2, 3)});
      shapes.push_back({images, {5, 6}, channels, {{3, 2}, {1, 2}, {2, 0}}});
      shapes.push_back({images, {5, 3}, channels, {{5, 3}, {1, 1}, {0, 0}}});
    }
  }
  return shapes;
}

TEST_P(ImageOperationsTest, PoolingOfAllShapesAndItsGradients) {
  for (const PoolingShape& shape : PoolingShapes()) {
    const size_t in_size = shape.images * shape.image.area() * shape.channels;
    const size_t out_size = shape.output_size();
    SCOPED_TRACE(testing::Message()
                 << shape.images << " images " << shape.image.height << "x"
                 << shape.image.width << "x" << shape.channels << " kernel "
                 << shape.window.kernel.height << "x"
                 << shape.window.kernel.width);
    for (const Write write : kWrites) {
      for (const Activation activation :
           {Activation::kNone, Activation::kRelu}) {
        Compare({Random(in_size), Random(out_size)},
                {std::vector<float>(out_size, kNan), Before(in_size, write)},
                [&](MathBackend& math, Arrays& in, Arrays& out) {
                  Bytes chosen(&math, std::vector<uint8_t>(out_size));
                  math.MaxPool(shape, activation, in[0].data(), out[0].data(),
                               chosen.data());
                  math.MaxPoolBackward(shape, in[1].data(), chosen.data(),
                                       write, out[1].data());
                });
      }
      Compare({Random(in_size), Random(out_size)},
              {std::vector<float>(out_size, kNan), Before(in_size, write)},
              [&](MathBackend& math, Arrays& in, Arrays& out) {
                math.AveragePool(shape, in[0].data(), out[0].data());
                math.AveragePoolBackward(shape, in[1].data(), write,
                                         out[1].data());
              });
    }
  }
}

TEST_P(ImageOperationsTest, AverageLeavesOutThePadding) {
  Array x(math_.get(), {1, 2, 3, 6});
  Array y(math_.get(), std::vector<float>(9, kNan));
  math_->AveragePool({1, {2, 2}, 1, SquareWindow(2, 1, 1)}, x.data(), y.data());
  EXPECT_EQ(y.Read(), (std::vector<float>{1, 1.5, 2, 2, 3, 4, 3, 4.5, 6}));
}

struct NormCase {
  size_t rows, channels;
  bool relu, residual;
  Write write;
};

std::vector<NormCase> NormCases() {
  std::vector<NormCase> cases;
  for (const size_t rows : {0, 1, 2, 37, 600}) {
    for (const size_t channels : {1, 3, 16, 77}) {
      for (const bool relu : {false, true}) {
        for (const bool residual : {false, true}) {
          for (const Write write : kWrites) {
            cases.push_back({rows, channels, relu, residual, write});
          }
        }
      }
    }
  }
  return cases;
}

TEST_P(ImageOperationsTest, BatchNormOfAllShapesAndItsGradients) {
  for (const NormCase& c : NormCases()) {
    SCOPED_TRACE(testing::Message()
                 << c.rows << " rows " << c.channels << " channels relu "
                 << c.relu << " residual " << c.residual);
    const size_t size = c.rows * c.channels;
    const auto columns = [&] { return Random(c.channels); };
    const auto poison = [&] { return std::vector<float>(size, kNan); };
    std::vector<float> variance = columns();
    for (float& v : variance) v += 1.5f;
    Compare(
        {Random(size), columns(), columns(), Random(size), Random(size)},
        {poison(), poison(), columns(), variance, Before(c.channels, c.write),
         Before(c.channels, c.write), Before(size, c.write),
         Before(size, c.write)},
        [&](MathBackend& math, Arrays& in, Arrays& out) {
          BackendArray scratch(&math, 2 * c.channels * sizeof(float));
          BatchNormArgs args;
          args.rows = c.rows;
          args.channels = c.channels;
          args.epsilon = 1e-2f;
          args.momentum = 0.9f;
          args.activation = c.relu ? Activation::kRelu : Activation::kNone;
          args.x = in[0].data();
          args.scale = in[1].data();
          args.shift = in[2].data();
          if (c.residual) args.residual = in[3].data();
          args.running_mean = out[2].data();
          args.running_variance = out[3].data();
          args.scratch = scratch.floats();
          math.BatchNormInference(args, out[0].data());
          math.BatchNormTraining(args, out[1].data());
          BatchNormGradients gradients;
          gradients.dy = in[4].data();
          gradients.parameter_write = c.write;
          gradients.dscale = out[4].data();
          gradients.dshift = out[5].data();
          gradients.dx = out[6].data();
          gradients.dx_write = c.write;
          if (c.residual) gradients.dresidual = out[7].data();
          gradients.dresidual_write = c.write;
          math.BatchNormBackward(args, out[1].data(), gradients);
        },
        2e-4f);
  }
}

// 1, 3 and 5 have mean 3, variance 8/3 and unbiased variance 4.
TEST_P(ImageOperationsTest, BatchNormOfHandComputedColumn) {
  Array x(math_.get(), {1, 3, 5}), scale(math_.get(), {2});
  Array shift(math_.get(), {10}), y(math_.get(), {kNan, kNan, kNan});
  Array mean(math_.get(), {1}), variance(math_.get(), {2});
  Array scratch(math_.get(), {0, 0});
  BatchNormArgs args;
  args.rows = 3;
  args.channels = 1;
  args.momentum = 0.5f;
  args.epsilon = 4.0f / 3;
  args.x = x.data();
  args.scale = scale.data();
  args.shift = shift.data();
  args.running_mean = mean.data();
  args.running_variance = variance.data();
  args.scratch = scratch.data();
  math_->BatchNormTraining(args, y.data());
  const std::vector<float> got = y.Read();
  EXPECT_NEAR(got[0], 8, 1e-5);
  EXPECT_NEAR(got[1], 10, 1e-5);
  EXPECT_NEAR(got[2], 12, 1e-5);
  EXPECT_NEAR(mean.Read()[0], 2, 1e-6);
  EXPECT_NEAR(variance.Read()[0], 3, 1e-6);
}

TEST_P(ImageOperationsTest, LargeMeanCostsNoDigitsOfTheVariance) {
  constexpr size_t kRows = 5000;
  std::vector<float> x(kRows);
  for (size_t r = 0; r < kRows; ++r) x[r] = r % 2 == 0 ? 1000.0f : 1002.0f;
  Array in(math_.get(), x), scale(math_.get(), {1}), shift(math_.get(), {0});
  Array y(math_.get(), std::vector<float>(kRows, kNan));
  Array mean(math_.get(), {0}), variance(math_.get(), {0});
  Array scratch(math_.get(), {0, 0});
  BatchNormArgs args;
  args.rows = kRows;
  args.channels = 1;
  args.epsilon = 1e-5f;
  args.x = in.data();
  args.scale = scale.data();
  args.shift = shift.data();
  args.running_mean = mean.data();
  args.running_variance = variance.data();
  args.scratch = scratch.data();
  math_->BatchNormTraining(args, y.data());
  EXPECT_EQ(mean.Read()[0], 1001);
  EXPECT_NEAR(variance.Read()[0], kRows / (kRows - 1.0), 1e-5);
}

TEST_P(ImageOperationsTest, BytesAreScaledChannelByChannel) {
  ByteScale scale;
  scale.factor = {1.0f / 255, 2, -1, 0.5f};
  scale.addend = {0, -1, 3, 7};
  for (const size_t channels : {1, 2, 3, 4}) {
    for (const size_t pixels : {0, 1, 5, 100}) {
      const std::vector<uint8_t> bytes = RandomBytes(pixels * channels);
      Compare({}, {std::vector<float>(pixels * channels, kNan)},
              [&](MathBackend& math, Arrays& in, Arrays& out) {
                const Bytes in_memory(&math, bytes);
                math.ScaleBytes(pixels, channels, in_memory.data(), scale,
                                out[0].data());
              });
    }
  }
}

TEST_P(ImageOperationsTest, DropoutKeepsItsShareAndTheSum) {
  constexpr size_t kSize = 10000;
  for (const Write write : kWrites) {
    Compare({Random(kSize)}, {Before(kSize, write)},
            [&](MathBackend& math, Arrays& in, Arrays& out) {
              math.Dropout(kSize, 0.3f, kSeed, in[0].data(), write,
                           out[0].data());
            });
  }
  Array x(math_.get(), std::vector<float>(kSize, 1));
  Array y(math_.get(), std::vector<float>(kSize, kNan));
  math_->Dropout(kSize, 0.3f, kSeed, x.data(), Write::kOverwrite, y.data());
  double sum = 0;
  size_t kept = 0;
  for (float value : y.Read()) {
    sum += value;
    kept += value != 0;
  }
  EXPECT_NEAR(sum / kSize, 1, 0.03);
  EXPECT_NEAR(static_cast<double>(kept) / kSize, 0.7, 0.02);
}

}  // namespace
}  // namespace oarlock::nn
