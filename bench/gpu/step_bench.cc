// Steps of training CTR-DNN and DLRM on a GPU: forward and backward, with the
// arrays of a batch already in its memory (computation alone) and with all of
// them copied there and back (a step without servers). With --optimizer the
// parameters are updated, too, and stay in the GPU's memory in both. With
// --kernels instead: the time of each kernel, beside what its bytes or
// multiplications would take at the ceilings that a large copy and a large
// product reach in the same run.
//
// Depends on nn and optim alone, so that it runs where there is only the
// driver, the CUDA toolkit and what bench/gpu/pack.sh puts beside it.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "bench/gpu/kernel_times.h"
#include "nn/cuda/cuda_backend.h"
#include "nn/cuda/gpu.h"
#include "nn/cuda/rule_runner.h"
#include "nn/interaction_layers.h"
#include "nn/layers.h"
#include "nn/network.h"
#include "nn/workspace.h"
#include "optim/dense_optimizer.h"
#include "proto/v1/table.pb.h"

namespace oarlock {
namespace {

constexpr size_t kSlots = 26;
constexpr size_t kDense = 13;
constexpr uint64_t kSeed = 1;

double Now() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

nn::NodeId Hidden(nn::NetworkBuilder& b, const std::string& name, size_t width,
                  nn::NodeId input) {
  nn::LinearOptions options;
  options.num_outputs = width;
  options.activation = nn::Activation::kRelu;
  return b.Add(name, nn::NewLinear(options), {input});
}

struct BenchModel {
  size_t row_dim = 0;
  std::unique_ptr<nn::Network> network;
};

// The quick start's: 26 embeddings of 10 and 13 dense features, three hidden
// layers of 400, softmax.
BenchModel CtrDnn() {
  nn::NetworkBuilder b;
  const nn::NodeId rows = b.Add(
      "rows",
      nn::NewEmbedding({.num_slots = kSlots, .row_dim = 10, .width = 10}), {});
  const nn::NodeId dense = b.Add("dense", nn::NewDenseInput({kDense}), {});
  nn::NodeId x = b.Add("features", nn::NewConcat(), {rows, dense});
  for (const char* name : {"fc1", "fc2", "fc3"}) x = Hidden(b, name, 400, x);
  nn::LinearOptions out;
  out.num_outputs = 2;
  x = b.Add("out", nn::NewLinear(out), {x});
  return {10, *b.Build(b.Add("loss", nn::NewSoftmaxCrossEntropy(), {x}))};
}

// Naumov et al., 2019, of the sizes of its reference for Criteo: embeddings of
// 16, bottom 512-256-64-16, top 512-256-1.
BenchModel Dlrm() {
  nn::NetworkBuilder b;
  const nn::NodeId rows = b.Add(
      "rows",
      nn::NewEmbedding({.num_slots = kSlots, .row_dim = 16, .width = 16}), {});
  nn::NodeId x = b.Add("dense", nn::NewDenseInput({kDense}), {});
  size_t layer = 0;
  for (const size_t width : {512, 256, 64, 16}) {
    x = Hidden(b, "bottom" + std::to_string(++layer), width, x);
  }
  const nn::NodeId vectors = b.Add("vectors", nn::NewConcat(), {x, rows});
  const nn::NodeId dots =
      b.Add("dots", nn::NewPairwiseDots({.width = 16}), {vectors});
  nn::NodeId top = b.Add("features", nn::NewConcat(), {x, dots});
  top = Hidden(b, "top1", 512, top);
  top = Hidden(b, "top2", 256, top);
  nn::LinearOptions out;
  out.num_outputs = 1;
  top = b.Add("out", nn::NewLinear(out), {top});
  return {16, *b.Build(b.Add("loss", nn::NewSigmoidCrossEntropy(), {top}))};
}

// A random batch on the host: two keys of three are distinct, as in Criteo's
// rows at some thousand examples.
struct HostBatch {
  HostBatch(const BenchModel& model, size_t examples) {
    RandomSequence random(kSeed);
    const auto fill = [&](std::vector<float>& to, size_t size, float range) {
      to.resize(size);
      for (float& x : to) {
        x = range * (2 * static_cast<float>(random.Uniform()) - 1);
      }
    };
    num_rows = examples * kSlots * 2 / 3;
    fill(dense, examples * kDense, 1);
    fill(rows, num_rows * model.row_dim, 0.1f);
    fill(parameters, model.network->num_parameters(), 0.05f);
    for (size_t i = 0; i < examples; ++i) {
      labels.push_back(random.Uniform() < 0.25 ? 1 : 0);
    }
    for (size_t i = 0; i < examples * kSlots; ++i) {
      row_of_key.push_back(static_cast<uint32_t>(random.Below(num_rows)));
    }
    row_gradients.resize(rows.size());
    parameter_gradients.resize(parameters.size());
  }

  size_t num_rows;
  std::vector<float> labels, dense, rows, parameters;
  std::vector<uint32_t> row_of_key;
  std::vector<float> row_gradients, parameter_gradients;
};

// Pointers to a batch, in the host's memory or copied to that of `math`.
class Step {
 public:
  struct InBackend {
    bool batch = false;
    bool parameters = false;
  };
  Step(HostBatch& batch, nn::MathBackend* math, InBackend in_backend)
      : math_(math) {
    const bool all = in_backend.batch;
    const bool kept = all || in_backend.parameters;
    input.num_examples = batch.labels.size();
    input.training = true;
    input.gradient_scale = 1.0f / static_cast<float>(batch.labels.size());
    input.labels = Place(batch.labels, all);
    input.dense = Place(batch.dense, all);
    input.parameters = parameters = Place(batch.parameters, kept);
    input.parameters_in_backend = kept;
    nn::SparseInput sparse;
    sparse.rows = Place(batch.rows, all);
    sparse.num_rows = batch.num_rows;
    sparse.row_of_key = absl::MakeConstSpan(Place(batch.row_of_key, all),
                                            batch.row_of_key.size());
    input.sparse.push_back(sparse);
    output.row_gradients.push_back(Place(batch.row_gradients, all));
    output.parameter_gradients = Place(batch.parameter_gradients, kept);
  }

  nn::StepInput input;
  nn::StepOutput output;
  float* parameters;

 private:
  template <typename T>
  T* Place(std::vector<T>& values, bool in_backend) {
    if (!in_backend) return values.data();
    arrays_.emplace_back(math_, values.size() * sizeof(T));
    math_->CopyIn(values.data(), values.size() * sizeof(T),
                  arrays_.back().data());
    return static_cast<T*>(arrays_.back().data());
  }

  nn::MathBackend* const math_;
  std::vector<nn::BackendArray> arrays_;
};

struct Options {
  std::string model = "ctr_dnn";
  std::string numbers = "float32";
  std::string optimizer;  // none
  size_t batch = 4096;
  int gpu = 0;
  bool graphs = true;
  bool kernels = false;
};

nn::cuda::Numbers NumbersOf(const Options& options) {
  return options.numbers == "tf32"       ? nn::cuda::Numbers::kTf32
         : options.numbers == "bfloat16" ? nn::cuda::Numbers::kBfloat16
                                         : nn::cuda::Numbers::kFloat32;
}

std::unique_ptr<nn::cuda::Device> MustOpen(const Options& options) {
  auto device = nn::cuda::OpenGpu(options.gpu);
  if (!device.ok()) {
    std::fprintf(stderr, "step_bench: %s\n",
                 std::string(device.status().message()).c_str());
    std::exit(1);
  }
  return *std::move(device);
}

// Null without --optimizer.
std::unique_ptr<optim::DenseOptimizer> NewOptimizer(const nn::Network& network,
                                                    const Options& options,
                                                    nn::MathBackend* math) {
  v1::OptimizerConfig config;
  config.set_learning_rate(1e-4f);
  if (options.optimizer == "adam") {
    config.mutable_adam();
  } else if (options.optimizer == "sgd") {
    config.mutable_sgd();
  } else if (options.optimizer == "lars") {
    config.mutable_lars();
  } else {
    return nullptr;
  }
  std::vector<optim::ParameterBlock> blocks;
  for (const nn::ParameterSpec& parameter : network.parameters()) {
    optim::ParameterBlock& block = blocks.emplace_back();
    block.size = 1;
    for (const size_t side : parameter.shape) block.size *= side;
    block.decays = parameter.shape.size() > 1;
  }
  auto optimizer = optim::DenseOptimizer::Create(
      config, blocks, nn::cuda::NewRuleRunner(math->compute_device()));
  if (!optimizer.ok()) {
    std::fprintf(stderr, "step_bench: %s\n",
                 std::string(optimizer.status().message()).c_str());
    std::exit(1);
  }
  return std::make_unique<optim::DenseOptimizer>(*std::move(optimizer));
}

// Seconds of a step: the median of many after some that are not counted.
double SecondsOfAStep(const BenchModel& model, const Options& options,
                      bool inputs_on_device) {
  HostBatch batch(model, options.batch);
  auto math = nn::cuda::NewCudaBackend(
      MustOpen(options),
      {NumbersOf(options), inputs_on_device, options.graphs});
  nn::MathBackend* const backend = math.get();
  nn::Workspace workspace(*model.network, std::move(math), options.batch);
  const std::unique_ptr<optim::DenseOptimizer> optimizer =
      NewOptimizer(*model.network, options, backend);
  const bool kept = inputs_on_device || optimizer != nullptr;
  Step step(batch, backend, {.batch = inputs_on_device, .parameters = kept});
  std::vector<double> seconds;
  const double begin = Now();
  while (seconds.size() < 20 || (Now() - begin < 3 && seconds.size() < 2000)) {
    const double start = Now();
    workspace.Step(step.input, &step.output);
    if (optimizer != nullptr) {
      optimizer->Step(step.parameters, step.output.parameter_gradients);
      // Waits for what was queued.
      float last;
      backend->CopyOut(step.parameters, sizeof(last), &last);
    }
    seconds.push_back(Now() - start);
  }
  seconds.erase(seconds.begin(), seconds.begin() + 10);
  std::sort(seconds.begin(), seconds.end());
  return seconds[seconds.size() / 2];
}

int Main(const Options& options) {
  const BenchModel model = options.model == "dlrm" ? Dlrm() : CtrDnn();
  if (options.kernels) {
    gpu_bench::KernelTimes* times = nullptr;
    auto device = gpu_bench::NewTimedDevice(MustOpen(options),
                                            Clock::Monotonic(), &times);
    times->MeasureCeilings(NumbersOf(options));
    HostBatch batch(model, options.batch);
    auto math =
        nn::cuda::NewCudaBackend(std::move(device), {NumbersOf(options), true});
    nn::MathBackend* const backend = math.get();
    nn::Workspace workspace(*model.network, std::move(math), options.batch);
    const std::unique_ptr<optim::DenseOptimizer> optimizer =
        NewOptimizer(*model.network, options, backend);
    Step step(batch, backend, {.batch = true, .parameters = true});
    constexpr int kWarmSteps = 3;
    for (int i = 0; i <= kWarmSteps; ++i) {
      if (i == kWarmSteps) times->Start();
      workspace.Step(step.input, &step.output);
      if (optimizer == nullptr) continue;
      optimizer->Step(step.parameters, step.output.parameter_gradients);
    }
    times->Print();
    return 0;
  }
  const double compute = SecondsOfAStep(model, options, true);
  const double whole = SecondsOfAStep(model, options, false);
  std::printf(
      "oarlock %-8s batch %6zu %-9s %s%s%s compute %8.3f ms %12.0f examples/s"
      "   with copies %8.3f ms %12.0f examples/s\n",
      options.model.c_str(), options.batch, options.numbers.c_str(),
      options.graphs ? "graphs" : "calls", options.optimizer.empty() ? "" : " ",
      options.optimizer.c_str(), compute * 1e3,
      static_cast<double>(options.batch) / compute, whole * 1e3,
      static_cast<double>(options.batch) / whole);
  return 0;
}

}  // namespace
}  // namespace oarlock

int main(int argc, char** argv) {
  oarlock::Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const char* const value = i + 1 < argc ? argv[i + 1] : "";
    if (word == "--kernels") {
      options.kernels = true;
      continue;
    }
    if (word == "--no_graphs") {
      options.graphs = false;
      continue;
    }
    if (word == "--model") {
      options.model = value;
    } else if (word == "--numbers") {
      options.numbers = value;
    } else if (word == "--optimizer" &&
               (value == std::string("adam") || value == std::string("sgd") ||
                value == std::string("lars"))) {
      options.optimizer = value;
    } else if (word == "--batch") {
      options.batch = std::strtoul(value, nullptr, 10);
    } else if (word == "--gpu") {
      options.gpu = std::atoi(value);
    } else {
      std::fprintf(stderr,
                   "step_bench: no flag %s %s; legal are --model "
                   "ctr_dnn|dlrm, --numbers float32|tf32|bfloat16, "
                   "--optimizer adam|sgd|lars, --batch N, --gpu N, --no_graphs "
                   "and --kernels\n",
                   word.c_str(), value);
      return 2;
    }
    ++i;
  }
  return oarlock::Main(options);
}
