// What the conformance suite does not see of the CUDA backend, on an emulated
// device: memory that runs out, gradients of rows that many keys share, results
// that do not depend on the order of threads. Whole steps of training, also on
// the GPU where there is one, with graphs and without.

#include "nn/cuda/cuda_backend.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/random.h"
#include "nn/cuda/forwarding_device.h"
#include "nn/cuda/gpu.h"
#include "nn/layers.h"
#include "nn/network.h"
#include "nn/reference/reference_backend.h"
#include "nn/workspace.h"
#include "tests/nn/cuda/emulated_device.h"
#include "tests/nn/step_fixture.h"

namespace oarlock::nn::cuda {
namespace {

constexpr uint64_t kSeed = 20261123;
constexpr size_t kMemory = size_t{256} << 20;

std::unique_ptr<MathBackend> NewEmulated(unsigned turn = 1,
                                         Numbers numbers = Numbers::kFloat32) {
  return NewCudaBackend(
      NewEmulatedDevice({.memory_bytes = kMemory, .turn = turn}),
      {.numbers = numbers});
}

TEST(CudaBackendTest, WithoutMemoryLeftSaysWhatWasAskedForAndWhatIsFree) {
  // A program of its own: what CUDA has begun does not survive a fork.
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto run = [] {
    auto math = NewCudaBackend(NewEmulatedDevice({.memory_bytes = 1000}), {});
    math->Allocate(600);
    math->Allocate(500);
  };
  EXPECT_EXIT(run(), ::testing::ExitedWithCode(1),
              "oarlock: .*not enough memory: 500 bytes were asked for, 400 of "
              "1000 are free");
}

// The kernel that computes what cuBLAS has no algorithm for.
TEST(CudaBackendTest, ThePlainProductIsTheDevicesProduct) {
  constexpr size_t kM = 7, kN = 5, kK = 11, kStride = 12;
  RandomSequence random(kSeed);
  const std::unique_ptr<Device> device =
      NewEmulatedDevice({.memory_bytes = kMemory});
  const auto values = [&](size_t bytes) {
    std::vector<uint8_t> host(bytes);
    // Small numbers of either width: bfloat16 is the upper half of a float.
    for (size_t i = 0; i < bytes; ++i) {
      host[i] = i % 2 == 0 ? static_cast<uint8_t>(random.Below(256))
                           : static_cast<uint8_t>(0x3e + random.Below(2));
    }
    void* const memory = device->Allocate(bytes);
    device->CopyIn(host.data(), bytes, memory);
    return memory;
  };
  for (const Numbers numbers :
       {Numbers::kFloat32, Numbers::kTf32, Numbers::kBfloat16}) {
    for (int transposed = 0; transposed < 4; ++transposed) {
      for (const bool bias : {false, true}) {
        Product product;
        product.numbers = numbers;
        product.m = kM;
        product.n = kN;
        product.k = kK;
        product.a = {values(kStride * kStride * 4), kStride,
                     (transposed & 1) != 0};
        product.b = {values(kStride * kStride * 4), kStride,
                     (transposed & 2) != 0};
        void* const addends = values(kM * 4);
        if (bias) product.bias = static_cast<const float*>(addends);
        if (!bias) product.write = Write::kAdd;
        std::vector<float> results[2];
        for (std::vector<float>& result : results) {
          result.assign(kN * kStride, 1);
          auto* const c =
              static_cast<float*>(device->Allocate(result.size() * 4));
          device->CopyIn(result.data(), result.size() * 4, c);
          product.c = c;
          product.c_stride = kStride;
          if (&result == results) {
            device->Multiply(product);
          } else {
            device->Run(ForEach<PlainProductBody>{{kM * kN, product}});
          }
          device->CopyOutLater(c, result.size() * 4, result.data());
          device->Finish();
          device->Free(c);
        }
        EXPECT_EQ(results[0], results[1]);
        for (const void* memory : {product.a.data, product.b.data,
                                   static_cast<const void*>(addends)}) {
          device->Free(const_cast<void*>(memory));
        }
      }
    }
  }
}

struct BagCase {
  size_t num_keys;
  size_t num_rows;
  size_t width;
  // Share of the keys that are row 0, as of a slot with a default.
  double hot;
};

// The merged gradients that the backend finds, and the sums in double.
struct Merged {
  std::vector<float> got;
  std::vector<double> expected;
};

Merged Merge(MathBackend* math, const BagCase& c) {
  RandomSequence random(kSeed);
  std::vector<uint32_t> row_of_key(c.num_keys);
  for (uint32_t& row : row_of_key) {
    row = random.Uniform() < c.hot
              ? 0
              : static_cast<uint32_t>(random.Below(c.num_rows));
  }
  std::vector<float> dout(c.num_keys * c.width);
  for (float& x : dout) x = 2 * static_cast<float>(random.Uniform()) - 1;
  Merged merged;
  merged.expected.resize(c.num_rows * c.width);
  for (size_t key = 0; key < c.num_keys; ++key) {
    for (size_t i = 0; i < c.width; ++i) {
      merged.expected[row_of_key[key] * c.width + i] += dout[key * c.width + i];
    }
  }
  const auto copy_in = [&](const void* host, size_t bytes) {
    BackendArray array(math, bytes);
    math->CopyIn(host, bytes, array.data());
    return array;
  };
  merged.got.resize(merged.expected.size());
  const BackendArray keys = copy_in(row_of_key.data(), c.num_keys * 4);
  const BackendArray gradients = copy_in(dout.data(), dout.size() * 4);
  const BackendArray rows = copy_in(merged.got.data(), merged.got.size() * 4);
  RowBags bags;
  bags.num_examples = c.num_keys;
  bags.num_slots = 1;
  bags.row_dim = bags.width = c.width;
  bags.num_keys = c.num_keys;
  bags.num_rows = c.num_rows;
  bags.row_of_key = static_cast<const uint32_t*>(keys.data());
  math->SumBagsBackward(bags, gradients.floats(), rows.floats());
  math->CopyOut(rows.data(), merged.got.size() * 4, merged.got.data());
  return merged;
}

// Around the borders of tiles (32 keys), of a thread's (8) and of a block's
// share (1024), and rows of one bit to some digits.
std::vector<BagCase> BagCases() {
  std::vector<BagCase> cases;
  for (const size_t keys :
       {1, 7, 8, 9, 31, 32, 33, 64, 65, 1023, 1024, 1025, 5000}) {
    for (const size_t rows : {1, 2, 17, 300, 70000}) {
      for (const double hot : {0.0, 0.6}) {
        cases.push_back({keys, rows, 3, hot});
      }
    }
    cases.push_back({keys, 300, 1, 0.3});
  }
  return cases;
}

TEST(CudaBackendTest, GradientsOfSharedRowsAreMerged) {
  for (const BagCase& c : BagCases()) {
    auto math = NewEmulated();
    const Merged merged = Merge(math.get(), c);
    for (size_t i = 0; i < merged.expected.size(); ++i) {
      ASSERT_NEAR(merged.got[i], merged.expected[i],
                  1e-6 * (10 + static_cast<double>(c.num_keys)))
          << c.num_keys << " keys, " << c.num_rows << " rows, number " << i
          << ", seed " << kSeed;
    }
  }
}

TEST(CudaBackendTest, MergedGradientsDoNotDependOnTheOrderOfThreads) {
  for (const BagCase& c : BagCases()) {
    const std::vector<float> first = Merge(NewEmulated(0).get(), c).got;
    for (const unsigned turn : {1, 5, 1234}) {
      const std::vector<float> again = Merge(NewEmulated(turn).get(), c).got;
      ASSERT_EQ(std::memcmp(first.data(), again.data(), first.size() * 4), 0)
          << c.num_keys << " keys, " << c.num_rows << " rows";
    }
  }
}

// A CTR network with two lookups into the same rows, as DeepFM has.
std::unique_ptr<Network> NewCtrNetwork() {
  NetworkBuilder b;
  const NodeId first = b.Add(
      "first", NewEmbedding({.num_slots = 5, .row_dim = 5, .width = 1}), {});
  const NodeId vectors =
      b.Add("vectors",
            NewEmbedding(
                {.num_slots = 5, .row_dim = 5, .column_begin = 1, .width = 4}),
            {});
  const NodeId dense = b.Add("dense", NewDenseInput({3}), {});
  const NodeId features = b.Add("features", NewConcat(), {vectors, dense});
  LinearOptions hidden;
  hidden.num_outputs = 17;
  hidden.activation = Activation::kRelu;
  const NodeId fc1 = b.Add("fc1", NewLinear(hidden), {features});
  const NodeId dropped = b.Add("dropout", NewDropout({.rate = 0.2f}), {fc1});
  LinearOptions one;
  one.num_outputs = 1;
  const NodeId deep = b.Add("deep", NewLinear(one), {dropped});
  const NodeId wide = b.Add("wide", NewSumColumns(), {first});
  const NodeId second = b.Add("second", NewFmSecondOrder(), {vectors});
  const NodeId logit = b.Add("logit", NewAdd(), {deep, wide, second});
  auto network = b.Build(b.Add("loss", NewSigmoidCrossEntropy(), {logit}));
  EXPECT_TRUE(network.ok()) << network.status();
  return *std::move(network);
}

struct Trained {
  std::vector<double> losses;
  std::vector<float> parameters;
  std::vector<float> rows;
};

// Some steps of gradient descent on one batch.
Trained Train(std::unique_ptr<MathBackend> math, bool several_keys) {
  const std::unique_ptr<Network> network = NewCtrNetwork();
  StepShape shape;
  shape.num_examples = 37;
  shape.num_dense = 3;
  shape.num_slots = 5;
  shape.row_dims = {5};
  shape.num_rows = 23;
  shape.num_parameters = network->num_parameters();
  shape.several_keys = several_keys;
  RandomStep step(shape, kSeed);
  Workspace workspace(*network, std::move(math), 40);
  Trained trained;
  for (int i = 0; i < 30; ++i) {
    step.Poison();
    step.input.gradient_scale = 1.0f / 37;
    workspace.Step(step.input, &step.output);
    trained.losses.push_back(step.output.loss_sum);
    const auto descend = [](const std::vector<float>& gradients,
                            std::vector<float>& values) {
      for (size_t j = 0; j < values.size(); ++j) {
        values[j] -= 0.1f * gradients[j];
      }
    };
    descend(step.parameter_gradients, step.parameters);
    descend(step.row_gradients[0], step.rows[0]);
  }
  trained.parameters = step.parameters;
  trained.rows = step.rows[0];
  return trained;
}

class CountingDevice final : public ForwardingDevice {
 public:
  CountingDevice(std::unique_ptr<Device> device, int* num_graph_launches)
      : ForwardingDevice(std::move(device)),
        num_graph_launches_(*num_graph_launches) {}
  void LaunchGraph(const Graph& graph) override {
    ++num_graph_launches_;
    ForwardingDevice::LaunchGraph(graph);
  }

 private:
  int& num_graph_launches_;
};

class TrainingTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (GetParam() == "emulated") return;
    const Gpus gpus = FindGpus();
    if (gpus.count == 0) GTEST_SKIP() << "no GPU: " << gpus.why_none;
  }
  static std::unique_ptr<Device> NewDevice() {
    if (GetParam() == "cuda") return *OpenGpu(0);
    return NewEmulatedDevice({.memory_bytes = kMemory});
  }
  // Adds to *num_graph_launches as long as the backend lives.
  static std::unique_ptr<MathBackend> NewBackend(int* num_graph_launches,
                                                 const CudaOptions& options) {
    return NewCudaBackend(
        std::make_unique<CountingDevice>(NewDevice(), num_graph_launches),
        options);
  }
};

INSTANTIATE_TEST_SUITE_P(Devices, TrainingTest,
                         ::testing::Values("emulated", "cuda"),
                         [](const auto& info) { return info.param; });

void ExpectSameBits(const Trained& a, const Trained& b) {
  EXPECT_EQ(a.losses, b.losses);
  EXPECT_EQ(a.parameters, b.parameters);
  EXPECT_EQ(a.rows, b.rows);
}

TEST_P(TrainingTest, IsThatOfTheReference) {
  for (const bool several_keys : {false, true}) {
    const Trained expected = Train(NewReferenceBackend(), several_keys);
    const Trained got = Train(NewCudaBackend(NewDevice(), {}), several_keys);
    ASSERT_LT(expected.losses.back(), 0.9 * expected.losses[0]);
    for (size_t i = 0; i < expected.losses.size(); ++i) {
      ASSERT_NEAR(got.losses[i], expected.losses[i], 1e-4 * expected.losses[i])
          << "step " << i;
    }
    ExpectClose(expected.parameters, got.parameters, 1e-4f, "parameters");
    ExpectClose(expected.rows, got.rows, 1e-4f, "rows");
  }
}

TEST_P(TrainingTest, GraphsChangeNothing) {
  for (const Numbers numbers :
       {Numbers::kFloat32, Numbers::kTf32, Numbers::kBfloat16}) {
    for (const bool several_keys : {false, true}) {
      int without = 0, with = 0;
      const Trained calls =
          Train(NewBackend(&without, {.numbers = numbers, .graphs = false}),
                several_keys);
      const Trained graphs =
          Train(NewBackend(&with, {.numbers = numbers}), several_keys);
      ExpectSameBits(calls, graphs);
      EXPECT_EQ(without, 0);
      EXPECT_GT(with, 0);
    }
  }
}

// Each makes and ends devices, cuDNN's start and end among that, while the
// other captures and replays.
TEST_P(TrainingTest, TwoThreadsTrainAndCaptureAtTheSameTime) {
  constexpr int kRounds = 5;
  ConvolutionPass pass;
  pass.images = 16;
  pass.shape = {{28, 30}, 64, 96, {{3, 3}, {2, 2}, {1, 1}}};
  int num_alone = 0;
  const Trained expected = Train(NewBackend(&num_alone, {}), true);
  const auto work = [&](int* num_graph_launches, std::vector<Trained>* got) {
    for (int round = 0; round < kRounds; ++round) {
      auto math = NewBackend(num_graph_launches, {});
      // Looks for cuDNN.
      math->compute_device()->ConvolutionWorkspace(pass);
      got->push_back(Train(std::move(math), true));
    }
  };
  int num_graph_launches[2] = {};
  std::vector<Trained> got[2];
  std::thread other(work, &num_graph_launches[1], &got[1]);
  work(&num_graph_launches[0], &got[0]);
  other.join();
  for (int thread = 0; thread < 2; ++thread) {
    EXPECT_EQ(num_graph_launches[thread], kRounds * num_alone);
    for (const Trained& trained : got[thread]) {
      ExpectSameBits(expected, trained);
    }
  }
  EXPECT_GT(num_alone, 0);
}

TEST(CudaBackendTest, MoreLossesThanWaitForFinishAreAllAdded) {
  const auto math = NewEmulated();
  const float host[] = {0};
  BackendArray logit(math.get(), 4), label(math.get(), 4), p(math.get(), 4);
  math->CopyIn(host, 4, logit.data());
  math->CopyIn(host, 4, label.data());
  double losses[40] = {};
  for (double& loss : losses) {
    math->SigmoidCrossEntropy(1, logit.floats(), label.floats(), p.floats(),
                              &loss);
  }
  math->Finish();
  for (const double loss : losses) EXPECT_NEAR(loss, std::log(2.0), 1e-7);
}

TEST(CudaBackendTest, RepeatsBitForBitWhateverTheOrderOfThreads) {
  for (const Numbers numbers :
       {Numbers::kFloat32, Numbers::kTf32, Numbers::kBfloat16}) {
    const Trained first = Train(NewEmulated(1, numbers), true);
    const Trained again = Train(NewEmulated(77, numbers), true);
    ExpectSameBits(first, again);
  }
}

}  // namespace
}  // namespace oarlock::nn::cuda
