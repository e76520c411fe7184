// How fast could training be if it were its convolutions alone, one thread:
// forward, backward by the weights, and by the input except for the first one,
// as oneDNN's primitives in the formats that oneDNN likes best, reordering left
// out. bfloat16: operands bfloat16, results float32, rounding left out.

#include <omp.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <oneapi/dnnl/dnnl.hpp>
#include <string>
#include <unordered_map>
#include <vector>

namespace {

using dnnl::memory;
using Format = memory::format_tag;
using Type = memory::data_type;

struct Shape {
  memory::dim image, in, out, kernel, stride, padding;
};

std::vector<Shape> ResNet(bool small, bool bottleneck,
                          const std::vector<int>& blocks) {
  std::vector<Shape> shapes;
  memory::dim image = small ? 32 : 56, in = 64;
  shapes.push_back(small ? Shape{32, 3, 64, 3, 1, 1}
                         : Shape{224, 3, 64, 7, 2, 3});
  for (size_t stage = 0; stage < blocks.size(); ++stage) {
    const memory::dim middle = 64 << stage;
    const memory::dim out = bottleneck ? 4 * middle : middle;
    for (int block = 0; block < blocks[stage]; ++block) {
      const memory::dim stride = stage > 0 && block == 0 ? 2 : 1;
      const memory::dim half = (image + stride - 1) / stride;
      if (stride != 1 || in != out) {
        shapes.push_back({image, in, out, 1, stride, 0});
      }
      if (bottleneck) {
        shapes.push_back({image, in, middle, 1, 1, 0});
        shapes.push_back({image, middle, middle, 3, stride, 1});
        shapes.push_back({half, middle, out, 1, 1, 0});
      } else {
        shapes.push_back({image, in, middle, 3, stride, 1});
        shapes.push_back({half, middle, out, 3, 1, 1});
      }
      in = out;
      image = half;
    }
  }
  return shapes;
}

std::vector<Shape> ShapesOf(const std::string& network) {
  if (network == "mnist") {
    return {{28, 1, 32, 5, 1, 0}, {12, 32, 64, 5, 1, 0}};
  }
  if (network == "cifar10") {
    return {{32, 3, 32, 3, 1, 0}, {15, 32, 64, 3, 1, 0}, {6, 64, 64, 3, 1, 0}};
  }
  if (network == "resnet50_224") return ResNet(false, true, {3, 4, 6, 3});
  return ResNet(network == "resnet18_32", false, {2, 2, 2, 2});
}

// A primitive with arrays of its own.
struct Run {
  dnnl::primitive primitive;
  std::unordered_map<int, memory> args;
};

class Convolutions {
 public:
  Convolutions(const std::vector<Shape>& shapes, memory::dim batch, Type type)
      : batch_(batch), type_(type) {
    for (const Shape& shape : shapes) Add(shape, &shape == &shapes[0]);
  }
  void RunAll() {
    for (const Run& run : runs_) run.primitive.execute(stream_, run.args);
    stream_.wait();
  }
  double flops() const { return flops_; }

 private:
  memory Filled(const memory::desc& desc) {
    memory result(desc, engine_);
    auto* const bytes = static_cast<uint8_t*>(result.get_data_handle());
    // Small ordinary numbers in either type.
    const size_t size = desc.get_size();
    for (size_t i = 0; i < size; ++i) bytes[i] = i % 2 == 0 ? 0x24 : 0x3c;
    return result;
  }

  void Add(const Shape& s, bool first) {
    constexpr auto kHow = dnnl::algorithm::convolution_direct;
    const memory::dim out = (s.image + 2 * s.padding - s.kernel) / s.stride + 1;
    const memory::dims weights = {s.out, s.in, s.kernel, s.kernel};
    const auto desc = [](const memory::dims& dims, Type type) {
      return memory::desc(dims, type, Format::any);
    };
    const memory::dims in_dims = {batch_, s.in, s.image, s.image};
    const memory::dims out_dims = {batch_, s.out, out, out};
    const memory::dims strides = {s.stride, s.stride};
    const memory::dims padding = {s.padding, s.padding};
    const dnnl::convolution_forward::primitive_desc forward(
        {dnnl::prop_kind::forward_training, kHow, desc(in_dims, type_),
         desc(weights, type_), desc(out_dims, Type::f32), strides, padding,
         padding},
        engine_);
    runs_.push_back({dnnl::convolution_forward(forward),
                     {{DNNL_ARG_SRC, Filled(forward.src_desc())},
                      {DNNL_ARG_WEIGHTS, Filled(forward.weights_desc())},
                      {DNNL_ARG_DST, Filled(forward.dst_desc())}}});
    const dnnl::convolution_backward_weights::primitive_desc by_weights(
        {kHow, desc(in_dims, type_), desc(weights, Type::f32),
         desc(out_dims, type_), strides, padding, padding},
        engine_, forward);
    runs_.push_back(
        {dnnl::convolution_backward_weights(by_weights),
         {{DNNL_ARG_SRC, Filled(by_weights.src_desc())},
          {DNNL_ARG_DIFF_DST, Filled(by_weights.diff_dst_desc())},
          {DNNL_ARG_DIFF_WEIGHTS, Filled(by_weights.diff_weights_desc())}}});
    const double flops = 2.0 * static_cast<double>(out * out * s.kernel *
                                                   s.kernel * s.in * s.out);
    flops_ += (first ? 2 : 3) * flops;
    if (first) return;
    const dnnl::convolution_backward_data::primitive_desc by_input(
        {kHow, desc(in_dims, Type::f32), desc(weights, type_),
         desc(out_dims, type_), strides, padding, padding},
        engine_, forward);
    runs_.push_back({dnnl::convolution_backward_data(by_input),
                     {{DNNL_ARG_DIFF_DST, Filled(by_input.diff_dst_desc())},
                      {DNNL_ARG_WEIGHTS, Filled(by_input.weights_desc())},
                      {DNNL_ARG_DIFF_SRC, Filled(by_input.diff_src_desc())}}});
  }

  const dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  const memory::dim batch_;
  const Type type_;
  std::vector<Run> runs_;
  double flops_ = 0;  // of an image
};

}  // namespace

int main(int argc, char** argv) {
  std::string network = "cifar10", type = "float32";
  size_t batch = 32, repetitions = 9;
  CLI::App app("The ceiling of networks on images: convolutions alone.");
  app.add_option("--network", network, "Whose convolutions")
      ->check(CLI::IsMember(
          {"mnist", "cifar10", "resnet18_32", "resnet18_224", "resnet50_224"}))
      ->capture_default_str();
  app.add_option("--type", type, "Numbers that are multiplied")
      ->check(CLI::IsMember({"float32", "bfloat16"}))
      ->capture_default_str();
  app.add_option("--batch", batch, "Images of a batch")
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str();
  app.add_option("--repetitions", repetitions, "Timed repetitions")
      ->check(CLI::Range(3, 1000))
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);

  omp_set_num_threads(1);
  Convolutions convolutions(ShapesOf(network), static_cast<memory::dim>(batch),
                            type == "float32" ? Type::f32 : Type::bf16);
  using Clock = std::chrono::steady_clock;
  const auto run = [&](size_t count) {
    const Clock::time_point start = Clock::now();
    for (size_t i = 0; i < count; ++i) convolutions.RunAll();
    return std::chrono::duration<double>(Clock::now() - start).count();
  };
  run(2);
  const size_t steps = std::max<size_t>(1, 0.3 / run(1));
  std::vector<double> seconds;
  for (size_t i = 0; i < repetitions; ++i) seconds.push_back(run(steps));
  std::sort(seconds.begin(), seconds.end());
  const double images = static_cast<double>(batch * steps);
  const double median = images / seconds[seconds.size() / 2];
  std::printf(
      "%s convolution ceiling  %s  batch %zu  %.0f images/s median of %zu "
      "(%.0f to %.0f)  %.1f GFLOP/s\n",
      network.c_str(), type.c_str(), batch, median, seconds.size(),
      images / seconds.back(), images / seconds.front(),
      median * convolutions.flops() * 1e-9);
  return 0;
}
