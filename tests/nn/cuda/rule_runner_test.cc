// Optimizers on a device against those on the CPU: the emulated device, and the
// GPU where there is one.

#include "nn/cuda/rule_runner.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "nn/cuda/gpu.h"
#include "optim/dense_optimizer.h"
#include "tests/nn/cuda/emulated_device.h"
#include "tests/optim/rule_testing.h"

namespace oarlock::nn::cuda {
namespace {

constexpr uint64_t kSeed = 43;
// What the order of a sum makes of a mean: some hundred additions of 24-bit
// floats on the CPU, against doubles.
constexpr float kTolerance = 1e-5f;

// Around the borders of tiles, of one weight, with decay and without.
const std::vector<optim::ParameterBlock> kBlocks = {
    {.size = 40},
    {.size = 1},
    {.size = kRuleTileFloats + 1, .decays = false},
    {.size = 3 * kRuleTileFloats},
    {.size = 1, .decays = false},
    {.size = 7, .decays = false},
    {.size = kRuleTileFloats - 1}};

size_t SizeOf(const std::vector<optim::ParameterBlock>& blocks) {
  size_t size = 0;
  for (const optim::ParameterBlock& block : blocks) size += block.size;
  return size;
}

// Every rule, plain and with what may stand around it.
std::vector<v1::OptimizerConfig> Configs() {
  std::vector<v1::OptimizerConfig> configs = optim::OneOfEachRule();
  for (v1::OptimizerConfig config : optim::OneOfEachRule()) {
    config.set_warmup_steps(3);
    config.mutable_schedule()->mutable_cosine()->set_steps(40);
    config.mutable_weight_bounds()->set_lower(-0.4f);
    config.mutable_weight_bounds()->set_upper(0.45f);
    configs.push_back(config);
    config.set_l1(0.01f);
    if (optim::UpdateRule::Create(config).ok()) configs.push_back(config);
    config.set_l2(0.02f);
    if (optim::UpdateRule::Create(config).ok()) configs.push_back(config);
  }
  return configs;
}

// Parameters on a device, with their optimizer.
class OnDevice {
 public:
  OnDevice(std::unique_ptr<Device> device, const v1::OptimizerConfig& config,
           const std::vector<optim::ParameterBlock>& blocks,
           const std::vector<float>& parameters)
      : device_(std::move(device)),
        size_(SizeOf(blocks)),
        parameters_(device_.get()),
        gradients_(device_.get()) {
    auto optimizer = optim::DenseOptimizer::Create(
        config, blocks, NewRuleRunner(device_.get()));
    EXPECT_TRUE(optimizer.ok()) << optimizer.status();
    optimizer_ = std::make_unique<optim::DenseOptimizer>(*std::move(optimizer));
    Put(parameters, parameters_);
  }

  void Step(const std::vector<float>& gradients, uint32_t num_steps = 1) {
    Put(gradients, gradients_);
    optimizer_->Step(parameters_.Get<float>(size_),
                     gradients_.Get<float>(size_), num_steps);
  }
  std::vector<float> Parameters() {
    std::vector<float> values(size_);
    if (size_ == 0) return values;
    device_->CopyOutLater(parameters_.Get<float>(size_), size_ * sizeof(float),
                          values.data());
    device_->Finish();
    return values;
  }
  optim::DenseOptimizer& optimizer() { return *optimizer_; }

 private:
  void Put(const std::vector<float>& values, DeviceBuffer& to) {
    if (size_ == 0) return;
    device_->CopyIn(values.data(), size_ * sizeof(float), to.Get<float>(size_));
  }

  // First, so that it goes last.
  const std::unique_ptr<Device> device_;
  const size_t size_;
  DeviceBuffer parameters_;
  DeviceBuffer gradients_;
  std::unique_ptr<optim::DenseOptimizer> optimizer_;
};

optim::DenseOptimizer OnHost(const v1::OptimizerConfig& config,
                             const std::vector<optim::ParameterBlock>& blocks) {
  auto optimizer = optim::DenseOptimizer::Create(config, blocks);
  EXPECT_TRUE(optimizer.ok()) << optimizer.status();
  return *std::move(optimizer);
}

// Equal, or close where `optimizer`'s rule takes means.
void ExpectAgree(const optim::DenseOptimizer& optimizer,
                 const std::vector<float>& a, const std::vector<float>& b) {
  if (!optimizer.takes_means()) {
    ASSERT_EQ(a, b);
    return;
  }
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_NEAR(a[i], b[i], kTolerance * (1 + std::fabs(a[i])))
        << "number " << i;
  }
}

class RuleRunnerTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (GetParam() == "emulated") return;
    const Gpus gpus = FindGpus();
    if (gpus.count == 0) GTEST_SKIP() << "no GPU: " << gpus.why_none;
  }
  static std::unique_ptr<Device> NewDevice(unsigned turn = 1) {
    if (GetParam() == "cuda") return *OpenGpu(0);
    return NewEmulatedDevice({.memory_bytes = size_t{64} << 20, .turn = turn});
  }
};

INSTANTIATE_TEST_SUITE_P(Devices, RuleRunnerTest,
                         ::testing::Values("emulated", "cuda"),
                         [](const auto& info) { return info.param; });

TEST_P(RuleRunnerTest, EveryRuleMakesTheStepsOfTheCpu) {
  const size_t size = SizeOf(kBlocks);
  size_t num_exact = 0;
  for (const v1::OptimizerConfig& config : Configs()) {
    SCOPED_TRACE(testing::Message()
                 << "seed " << kSeed << ", " << config.ShortDebugString());
    RandomSequence random(kSeed);
    std::vector<float> expected = optim::RandomWeights(&random, size);
    optim::DenseOptimizer host = OnHost(config, kBlocks);
    OnDevice device(NewDevice(), config, kBlocks, expected);
    for (const uint32_t num_steps : {1, 1, 4, 1, 2, 1}) {
      const std::vector<float> g = optim::RandomGradients(&random, size);
      host.Step(expected.data(), g.data(), num_steps);
      device.Step(g, num_steps);
      ExpectAgree(host, expected, device.Parameters());
      ASSERT_EQ(device.optimizer().steps(), host.steps());
      ASSERT_EQ(device.optimizer().learning_rate(), host.learning_rate());
    }
    if (host.takes_means()) continue;
    ++num_exact;
    EXPECT_EQ(device.optimizer().SaveState(), host.SaveState());
  }
  EXPECT_GT(num_exact, 20u);
}

// More tiles than RuleBeginKernel has threads.
TEST_P(RuleRunnerTest, ABlockOfManyTilesIsOne) {
  const std::vector<optim::ParameterBlock> blocks = {
      {.size =
           2 * RuleBeginKernel<optim::LarsRule>::kThreads * kRuleTileFloats +
           17}};
  for (const v1::OptimizerConfig& config : optim::OneOfEachRule()) {
    SCOPED_TRACE(testing::Message()
                 << "seed " << kSeed << ", " << config.ShortDebugString());
    RandomSequence random(kSeed);
    std::vector<float> expected = optim::RandomWeights(&random, SizeOf(blocks));
    optim::DenseOptimizer host = OnHost(config, blocks);
    OnDevice device(NewDevice(), config, blocks, expected);
    for (int i = 0; i < 2; ++i) {
      const std::vector<float> g =
          optim::RandomGradients(&random, SizeOf(blocks));
      host.Step(expected.data(), g.data());
      device.Step(g);
    }
    ExpectAgree(host, expected, device.Parameters());
  }
}

// Through a checkpoint from one to the other and back.
TEST_P(RuleRunnerTest, StateCrossesBetweenDeviceAndCpu) {
  const std::vector<optim::ParameterBlock> blocks = {
      {.size = 1500}, {.size = 9, .decays = false}, {.size = 33}};
  const size_t size = SizeOf(blocks);
  for (const v1::OptimizerConfig& config : Configs()) {
    SCOPED_TRACE(testing::Message()
                 << "seed " << kSeed << ", " << config.ShortDebugString());
    RandomSequence random(kSeed);
    std::vector<float> straight = optim::RandomWeights(&random, size);
    std::vector<float> crossing = straight;
    optim::DenseOptimizer whole = OnHost(config, blocks);
    std::string state = whole.SaveState();
    for (const bool on_device : {false, true, false, true}) {
      optim::DenseOptimizer host = OnHost(config, blocks);
      OnDevice device(NewDevice(), config, blocks, crossing);
      optim::DenseOptimizer& part = on_device ? device.optimizer() : host;
      const absl::Status restored = part.RestoreState(state);
      ASSERT_TRUE(restored.ok()) << restored;
      EXPECT_EQ(part.SaveState(), state);
      for (int i = 0; i < 3; ++i) {
        const std::vector<float> g = optim::RandomGradients(&random, size);
        whole.Step(straight.data(), g.data());
        if (on_device) {
          device.Step(g);
        } else {
          host.Step(crossing.data(), g.data());
        }
      }
      if (on_device) crossing = device.Parameters();
      ExpectAgree(whole, straight, crossing);
      state = part.SaveState();
    }
    EXPECT_EQ(whole.steps(), 12u);
  }
}

TEST_P(RuleRunnerTest, DamagedStateChangesNothing) {
  v1::OptimizerConfig config;
  config.mutable_momentum();
  OnDevice device(NewDevice(), config, {{.size = 3}}, {1, 2, 3});
  device.Step({1, 1, 1});
  const std::string before = device.optimizer().SaveState();
  std::string damaged = before;
  damaged[damaged.size() / 2] ^= 1;
  EXPECT_EQ(device.optimizer().RestoreState(damaged).code(),
            absl::StatusCode::kDataLoss);
  EXPECT_EQ(device.optimizer().SaveState(), before);
}

TEST_P(RuleRunnerTest, NoParametersAreLegal) {
  for (const v1::OptimizerConfig& config : optim::OneOfEachRule()) {
    optim::DenseOptimizer host = OnHost(config, {});
    OnDevice device(NewDevice(), config, {}, {});
    host.Step(nullptr, nullptr);
    device.Step({});
    EXPECT_EQ(device.optimizer().SaveState(), host.SaveState());
  }
}

// A NaN stays one, and a learning rate of 0 leaves all weights as they are.
TEST_P(RuleRunnerTest, OddNumbersAreAsOnTheCpu) {
  for (v1::OptimizerConfig config : optim::OneOfEachRule()) {
    SCOPED_TRACE(config.ShortDebugString());
    const std::vector<optim::ParameterBlock> blocks = {{.size = 6}};
    const std::vector<float> start = {0, -0.0f, 1, NAN, INFINITY, 1e-42f};
    const std::vector<float> g = {0, 0, -0.0f, 1, 1, 1e-42f};
    for (const float rate : {0.0f, 0.5f}) {
      config.set_learning_rate(rate);
      std::vector<float> expected = start;
      optim::DenseOptimizer host = OnHost(config, blocks);
      OnDevice device(NewDevice(), config, blocks, start);
      for (int i = 0; i < 2; ++i) {
        host.Step(expected.data(), g.data());
        device.Step(g);
      }
      const std::vector<float> got = device.Parameters();
      for (size_t i = 0; i < start.size(); ++i) {
        if (std::isnan(expected[i]) || host.takes_means()) {
          EXPECT_EQ(std::isnan(got[i]), std::isnan(expected[i])) << i;
        } else {
          EXPECT_EQ(got[i], expected[i]) << i;
        }
      }
    }
  }
}

TEST_P(RuleRunnerTest, RepeatsBitForBitWhateverTheOrderOfThreads) {
  const size_t size = SizeOf(kBlocks);
  for (const v1::OptimizerConfig& config : optim::OneOfEachRule()) {
    SCOPED_TRACE(config.ShortDebugString());
    std::vector<std::string> states;
    std::vector<std::vector<float>> parameters;
    for (const unsigned turn : {0, 1, 77}) {
      RandomSequence random(kSeed);
      OnDevice device(NewDevice(turn), config, kBlocks,
                      optim::RandomWeights(&random, size));
      for (int i = 0; i < 3; ++i)
        device.Step(optim::RandomGradients(&random, size));
      states.push_back(device.optimizer().SaveState());
      parameters.push_back(device.Parameters());
    }
    for (size_t i = 1; i < states.size(); ++i) {
      EXPECT_EQ(states[i], states[0]);
      EXPECT_EQ(parameters[i], parameters[0]);
    }
  }
}

}  // namespace
}  // namespace oarlock::nn::cuda
