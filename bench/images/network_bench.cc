// Times whole steps of training a network on a random batch of images, in one
// thread: forward, backward and Adam. Beside it
// //bench/images:convolution_ceiling shows what everything but the
// convolutions costs.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/random.h"
#include "base/types.h"
#include "models/image_networks.h"
#include "nn/backends/backends.h"
#include "nn/network.h"
#include "nn/step.h"
#include "nn/workspace.h"
#include "optim/initializer.h"
#include "optim/rules.h"

namespace oarlock {
namespace {

std::vector<float> StartOf(const std::vector<nn::ParameterSpec>& specs,
                           size_t size) {
  std::vector<float> values(size);
  for (const nn::ParameterSpec& spec : specs) {
    v1::Initializer config;
    switch (spec.init.kind) {
      case nn::ParameterInit::Kind::kConstant:
        config.set_constant(spec.init.value);
        break;
      case nn::ParameterInit::Kind::kUniform:
        config.set_uniform_range(spec.init.value);
        break;
      case nn::ParameterInit::Kind::kNormal:
        config.set_normal_stddev(spec.init.value);
        break;
    }
    size_t count = 1;
    for (size_t dim : spec.shape) count *= dim;
    const auto start = optim::InitialValues::Create(config, 1, TableId{1});
    start->FillRange(spec.offset, values.data() + spec.offset, count);
  }
  return values;
}

// A network, a random batch and an optimizer.
class Training {
 public:
  Training(std::unique_ptr<nn::Network> network,
           std::unique_ptr<nn::MathBackend> math, size_t batch,
           size_t num_classes)
      : network_(std::move(network)),
        workspace_(*network_, std::move(math), batch),
        rule_(Adam()) {
    RandomSequence random(1);
    images_.resize(batch * network_->num_image_bytes());
    for (uint8_t& byte : images_)
      byte = static_cast<uint8_t>(random.Below(256));
    labels_.resize(batch);
    for (float& label : labels_) {
      label = static_cast<float>(random.Below(num_classes));
    }
    parameters_ = StartOf(network_->parameters(), network_->num_parameters());
    statistics_ = StartOf(network_->statistics(), network_->num_statistics());
    gradients_.resize(parameters_.size());
    state_.resize(rule_.StateSize(parameters_.size()));
    rule_.InitState(state_.data(), parameters_.size());
    input_.num_examples = batch;
    input_.training = true;
    input_.labels = labels_.data();
    input_.images = images_.data();
    input_.parameters = parameters_.data();
    input_.statistics = statistics_.data();
    input_.gradient_scale = 1.0f / static_cast<float>(batch);
    output_.parameter_gradients = gradients_.data();
  }
  void Step() {
    workspace_.Forward(input_, &output_);
    workspace_.Backward(&output_);
    rule_.Apply(++step_, parameters_.data(), state_.data(), gradients_.data(),
                parameters_.size());
  }
  void Predict() {
    input_.training = false;
    workspace_.Forward(input_, &output_);
    input_.training = true;
  }

 private:
  static optim::UpdateRule Adam() {
    v1::OptimizerConfig config;
    config.mutable_adam();
    config.set_learning_rate(1e-3f);
    return *optim::UpdateRule::Create(config);
  }

  const std::unique_ptr<nn::Network> network_;
  nn::Workspace workspace_;
  const optim::UpdateRule rule_;
  std::vector<uint8_t> images_;
  std::vector<float> labels_, parameters_, statistics_, gradients_, state_;
  nn::StepInput input_;
  nn::StepOutput output_;
  uint64_t step_ = 0;
};

struct Choice {
  std::unique_ptr<nn::Network> network;
  size_t num_classes;
};

Choice Choose(const std::string& name) {
  if (name == "mnist") return {models::NewMnistNetwork(), 10};
  if (name == "cifar10") return {models::NewCifar10Network(), 10};
  models::ResNetOptions options;
  if (name == "resnet18_32") {
    options.height = options.width = 32;
    options.num_classes = 10;
  }
  if (name == "resnet50_224") options.depth = 50;
  return {*models::NewResNet(options), options.num_classes};
}

}  // namespace
}  // namespace oarlock

int main(int argc, char** argv) {
  std::string name = "cifar10", math = "onednn";
  size_t batch = 32, repetitions = 9, steps = 0;
  int threads = 1;
  bool predict = false;
  CLI::App app("Steps of training a network on images.");
  app.add_option("--network", name, "The network")
      ->check(CLI::IsMember(
          {"mnist", "cifar10", "resnet18_32", "resnet18_224", "resnet50_224"}))
      ->capture_default_str();
  app.add_option("--math", math, "Who computes: onednn, onednn_bfloat16")
      ->capture_default_str();
  app.add_option("--batch", batch, "Images of a batch")
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str();
  app.add_option("--threads", threads, "Threads that compute")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_flag("--predict", predict, "Forward alone, as evaluation does");
  app.add_option("--repetitions", repetitions, "Timed repetitions")
      ->check(CLI::Range(3, 1000))
      ->capture_default_str();
  app.add_option("--steps", steps,
                 "Steps of a repetition; 0: as many as take .3 s");
  CLI11_PARSE(app, argc, argv);

  auto backend = oarlock::nn::NewMathBackend(math, threads);
  if (!backend.ok()) {
    std::fprintf(stderr, "%s\n", backend.status().ToString().c_str());
    return 1;
  }
  oarlock::Choice choice = oarlock::Choose(name);
  oarlock::Training training(std::move(choice.network), *std::move(backend),
                             batch, choice.num_classes);
  using Clock = std::chrono::steady_clock;
  const auto run = [&](size_t count) {
    const Clock::time_point start = Clock::now();
    for (size_t i = 0; i < count; ++i) {
      predict ? training.Predict() : training.Step();
    }
    return std::chrono::duration<double>(Clock::now() - start).count();
  };
  run(2);
  if (steps == 0) steps = std::max<size_t>(1, 0.3 / run(1));
  std::vector<double> seconds;
  for (size_t i = 0; i < repetitions; ++i) seconds.push_back(run(steps));
  std::sort(seconds.begin(), seconds.end());
  const double images = static_cast<double>(batch * steps);
  std::printf(
      "%s %s  %s  %d threads  batch %zu  %.0f images/s median of %zu (%.0f to "
      "%.0f)\n",
      name.c_str(), predict ? "prediction" : "step", math.c_str(), threads,
      batch, images / seconds[seconds.size() / 2], seconds.size(),
      images / seconds.back(), images / seconds.front());
  return 0;
}
