#include "nn/onednn/onednn_convolutions.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <oneapi/dnnl/dnnl.hpp>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "base/check.h"
#include "nn/cpu/cpu_kernels.h"
#include "nn/cpu/math_threads.h"

namespace oarlock::nn {
namespace {

using dnnl::memory;
using Format = memory::format_tag;
using Type = memory::data_type;

// The most kinds of convolutions that are kept. A network has one for each
// layer and batch size; the batch size changes with the last batch of an epoch.
constexpr size_t kMaxKinds = 512;

// The values on which the primitives depend.
using Kind = std::array<size_t, 12>;

Kind KindOf(const ConvolutionArgs& args) {
  const ConvolutionShape& s = args.shape;
  const Window& w = s.window;
  const size_t flags = (args.bias != nullptr ? 1 : 0) +
                       (args.activation == Activation::kRelu ? 2 : 0);
  return {args.images,    s.image.height,   s.image.width,   s.in_channels,
          s.out_channels, w.kernel.height,  w.kernel.width,  w.stride.height,
          w.stride.width, w.padding.height, w.padding.width, flags};
}

memory::dim Dim(size_t size) { return static_cast<memory::dim>(size); }

memory::dims Dims(Extent extent) {
  return {Dim(extent.height), Dim(extent.width)};
}

// The arrays of a convolution, as oneDNN names them.
struct Arrays {
  memory::desc x, plain_weight, weight, bias, y, dx, dy, dweight;
  memory::dims strides, padding;
};

Arrays Describe(const ConvolutionArgs& args, Type operands) {
  const ConvolutionShape& s = args.shape;
  const Extent out = NumPositions(s.image, s.window);
  const memory::dims x = {Dim(args.images), Dim(s.in_channels),
                          Dim(s.image.height), Dim(s.image.width)};
  const memory::dims y = {Dim(args.images), Dim(s.out_channels),
                          Dim(out.height), Dim(out.width)};
  const memory::dims weight = {Dim(s.out_channels), Dim(s.in_channels),
                               Dim(s.window.kernel.height),
                               Dim(s.window.kernel.width)};
  Arrays a;
  a.x = memory::desc(x, operands, Format::nhwc);
  a.dx = memory::desc(x, Type::f32, Format::nhwc);
  a.y = memory::desc(y, Type::f32, Format::nhwc);
  a.dy = memory::desc(y, operands, Format::nhwc);
  a.plain_weight = memory::desc(weight, Type::f32, Format::hwio);
  a.weight = memory::desc(weight, operands, Format::any);
  a.dweight = memory::desc(weight, Type::f32, Format::any);
  a.bias = memory::desc({Dim(s.out_channels)}, Type::f32, Format::x);
  a.strides = Dims(s.window.stride);
  a.padding = Dims(s.window.padding);
  return a;
}

constexpr size_t kMaxArgs = 5;

// A primitive and its arguments. Each run sets their addresses.
struct Step {
  dnnl::primitive primitive;
  std::array<std::pair<int, memory>, kMaxArgs> args;
  size_t num_args = 0;
  memory::desc scratchpad;

  void Add(int role, const memory::desc& desc, const dnnl::engine& engine) {
    args[num_args++] = {role, memory(desc, engine, nullptr)};
  }
};

struct Primitives {
  std::optional<dnnl::convolution_forward::primitive_desc> forward_desc;
  Step reorder_weight;
  Step forward;
  memory::desc weight;  // in the layout that `forward` requires

  // Made when it is first needed: evaluation does not need it.
  bool has_by_weight = false;
  Step by_weight;
  std::array<Step, 2> put_dweight;  // by Write
  memory::desc dweight;

  // The first layer does not need it.
  bool has_by_input = false;
  Step reorder_weight_by_input;
  Step by_input;
  memory::desc weight_by_input;
};

dnnl::primitive_attr Attributes(const dnnl::post_ops& after = {}) {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  attributes.set_post_ops(after);
  return attributes;
}

// Memory that grows. Growing may lose its contents.
struct Buffer {
  memory bytes;
  size_t num_bytes = 0;

  void* Reserve(size_t wanted, const dnnl::engine& engine) {
    if (wanted > num_bytes) {
      num_bytes = wanted;
      bytes = memory({{Dim(wanted)}, Type::u8, Format::x}, engine);
    }
    return num_bytes == 0 ? nullptr : bytes.get_data_handle();
  }
};

}  // namespace

struct OneDnnConvolutions::State {
  explicit State(Operands operands)
      : rounds(operands == Operands::kBfloat16),
        type(rounds ? Type::bf16 : Type::f32) {}

  const bool rounds;
  const Type type;
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  absl::flat_hash_map<Kind, std::unique_ptr<Primitives>> kinds;
  // Shared by all kinds.
  Buffer weight, dweight, dbias, dx, rounded_dy, scratchpad;

  Primitives& Find(const ConvolutionArgs& args);
  void MakeForward(const ConvolutionArgs& args, Primitives& primitives);
  void MakeByWeight(const ConvolutionArgs& args, Primitives& primitives);
  void MakeByInput(const ConvolutionArgs& args, Primitives& primitives);
  Step Reorder(const memory::desc& from, const memory::desc& to, Write write);

  // `addresses` are in the order in which the step's arguments were added.
  void Run(Step& step, std::initializer_list<const void*> addresses);

  void PutWeightGradients(const ConvolutionArgs& args, const void* x,
                          const void* dy, float* dbias,
                          const ConvolutionGradients& gradients);
  void PutInputGradient(const ConvolutionArgs& args, const void* dy,
                        const ConvolutionGradients& gradients);
};

Step OneDnnConvolutions::State::Reorder(const memory::desc& from,
                                        const memory::desc& to, Write write) {
  dnnl::post_ops after;
  if (write == Write::kAdd) after.append_sum(1);
  const dnnl::reorder::primitive_desc desc(engine, from, engine, to,
                                           Attributes(after));
  Step step;
  step.primitive = dnnl::reorder(desc);
  step.scratchpad = desc.scratchpad_desc();
  step.Add(DNNL_ARG_FROM, from, engine);
  step.Add(DNNL_ARG_TO, to, engine);
  return step;
}

void OneDnnConvolutions::State::MakeForward(const ConvolutionArgs& args,
                                            Primitives& primitives) {
  const Arrays a = Describe(args, type);
  using Forward = dnnl::convolution_forward;
  constexpr auto kUse = dnnl::prop_kind::forward_training;
  constexpr auto kHow = dnnl::algorithm::convolution_direct;
  const Forward::desc wanted =
      args.bias != nullptr ? Forward::desc(kUse, kHow, a.x, a.weight, a.bias,
                                           a.y, a.strides, a.padding, a.padding)
                           : Forward::desc(kUse, kHow, a.x, a.weight, a.y,
                                           a.strides, a.padding, a.padding);
  const Forward::primitive_desc desc(wanted, Attributes({}), engine);
  primitives.forward_desc = desc;
  primitives.weight = desc.weights_desc();
  primitives.reorder_weight =
      Reorder(a.plain_weight, primitives.weight, Write::kOverwrite);
  Step& step = primitives.forward;
  step.primitive = Forward(desc);
  step.scratchpad = desc.scratchpad_desc();
  step.Add(DNNL_ARG_SRC, a.x, engine);
  step.Add(DNNL_ARG_WEIGHTS, primitives.weight, engine);
  step.Add(DNNL_ARG_DST, a.y, engine);
  if (args.bias != nullptr) step.Add(DNNL_ARG_BIAS, a.bias, engine);
}

void OneDnnConvolutions::State::MakeByWeight(const ConvolutionArgs& args,
                                             Primitives& primitives) {
  const Arrays a = Describe(args, type);
  using Backward = dnnl::convolution_backward_weights;
  constexpr auto kHow = dnnl::algorithm::convolution_direct;
  // With an activation, the loop over y computes the gradient of the bias.
  const bool bias =
      args.bias != nullptr && !rounds && args.activation == Activation::kNone;
  const Backward::desc wanted =
      bias ? Backward::desc(kHow, a.x, a.dweight, a.bias, a.dy, a.strides,
                            a.padding, a.padding)
           : Backward::desc(kHow, a.x, a.dweight, a.dy, a.strides, a.padding,
                            a.padding);
  const Backward::primitive_desc desc(wanted, Attributes(), engine,
                                      *primitives.forward_desc);
  primitives.dweight = desc.diff_weights_desc();
  for (const Write write : {Write::kOverwrite, Write::kAdd}) {
    primitives.put_dweight[static_cast<size_t>(write)] =
        Reorder(primitives.dweight, a.plain_weight, write);
  }
  Step& step = primitives.by_weight;
  step.primitive = Backward(desc);
  step.scratchpad = desc.scratchpad_desc();
  step.Add(DNNL_ARG_SRC, a.x, engine);
  step.Add(DNNL_ARG_DIFF_DST, a.dy, engine);
  step.Add(DNNL_ARG_DIFF_WEIGHTS, primitives.dweight, engine);
  if (bias) step.Add(DNNL_ARG_DIFF_BIAS, a.bias, engine);
  primitives.has_by_weight = true;
}

void OneDnnConvolutions::State::MakeByInput(const ConvolutionArgs& args,
                                            Primitives& primitives) {
  const Arrays a = Describe(args, type);
  using Backward = dnnl::convolution_backward_data;
  const Backward::desc wanted(dnnl::algorithm::convolution_direct, a.dx,
                              a.weight, a.dy, a.strides, a.padding, a.padding);
  const Backward::primitive_desc desc(wanted, Attributes(), engine,
                                      *primitives.forward_desc);
  primitives.weight_by_input = desc.weights_desc();
  primitives.reorder_weight_by_input =
      Reorder(a.plain_weight, primitives.weight_by_input, Write::kOverwrite);
  Step& step = primitives.by_input;
  step.primitive = Backward(desc);
  step.scratchpad = desc.scratchpad_desc();
  step.Add(DNNL_ARG_DIFF_DST, a.dy, engine);
  step.Add(DNNL_ARG_WEIGHTS, primitives.weight_by_input, engine);
  step.Add(DNNL_ARG_DIFF_SRC, a.dx, engine);
  primitives.has_by_input = true;
}

Primitives& OneDnnConvolutions::State::Find(const ConvolutionArgs& args) {
  const Kind kind = KindOf(args);
  const auto found = kinds.find(kind);
  if (found != kinds.end()) return *found->second;
  if (kinds.size() == kMaxKinds) kinds.clear();
  auto primitives = std::make_unique<Primitives>();
  MakeForward(args, *primitives);
  return *kinds.emplace(kind, std::move(primitives)).first->second;
}

void OneDnnConvolutions::State::Run(
    Step& step, std::initializer_list<const void*> addresses) {
  std::array<dnnl_exec_arg_t, kMaxArgs + 1> passed;
  OARLOCK_CHECK(addresses.size() == step.num_args);
  size_t i = 0;
  // Uses the C functions, since the C++ functions allocate memory.
  for (const void* address : addresses) {
    const auto& [role, to] = step.args[i];
    OARLOCK_CHECK(dnnl_memory_set_data_handle(
                      to.get(), const_cast<void*>(address)) == dnnl_success);
    passed[i++] = {role, to.get()};
  }
  const size_t bytes = step.scratchpad.get_size();
  if (bytes > 0) {
    scratchpad.Reserve(bytes, engine);
    passed[i++] = {DNNL_ARG_SCRATCHPAD, scratchpad.bytes.get()};
  }
  OARLOCK_CHECK(dnnl_primitive_execute(step.primitive.get(), stream.get(),
                                       static_cast<int>(i),
                                       passed.data()) == dnnl_success);
}

OneDnnConvolutions::OneDnnConvolutions(Operands operands, int threads)
    : threads_(threads), state_(std::make_unique<State>(operands)) {}
OneDnnConvolutions::~OneDnnConvolutions() = default;

// The scratch holds the rounded input.
size_t OneDnnConvolutions::Scratch(size_t max_images,
                                   const ConvolutionShape& shape) const {
  return state_->rounds ? (max_images * shape.input_size() + 1) / 2 : 0;
}

void OneDnnConvolutions::Forward(const ConvolutionArgs& args, float* y) {
  if (args.images == 0) return;
  UseMathThreads(threads_);
  State& s = *state_;
  Primitives& primitives = s.Find(args);
  const void* x = args.x;
  if (s.rounds) {
    auto* const rounded = reinterpret_cast<uint16_t*>(args.scratch);
    const size_t size = args.images * args.shape.input_size();
    cpu_kernels::RoundToBfloat16(1, size, args.x, size, rounded);
    x = rounded;
  }
  void* const weight = s.weight.Reserve(primitives.weight.get_size(), s.engine);
  s.Run(primitives.reorder_weight, {args.weight, weight});
  if (args.bias != nullptr) {
    s.Run(primitives.forward, {x, weight, y, args.bias});
  } else {
    s.Run(primitives.forward, {x, weight, y});
  }
  // oneDNN's own makes 0 of NaN.
  if (args.activation == Activation::kRelu) {
    ParallelFor(threads_, args.images * args.shape.output_size(),
                [&](size_t begin, size_t end) {
                  cpu_kernels::ReluInPlace(end - begin, y + begin);
                });
  }
}

void OneDnnConvolutions::Backward(const ConvolutionArgs& args, const float* y,
                                  const ConvolutionGradients& gradients) {
  const ConvolutionGradients& g = gradients;
  const size_t outputs = args.shape.out_channels;
  const size_t rows = args.images * args.shape.output_size() / outputs;
  if (args.images == 0) {
    if (g.parameter_write == Write::kAdd) return;
    std::fill_n(g.dweight, args.shape.weight_size(), 0);
    if (g.dbias != nullptr) std::fill_n(g.dbias, outputs, 0);
    return;
  }
  UseMathThreads(threads_);
  State& s = *state_;
  const void* x = args.x;
  const void* dy = g.dy;
  float* dbias = g.dbias;  // null once it is computed
  if (s.rounds) {
    x = args.scratch;
    auto* const rounded = static_cast<uint16_t*>(
        s.rounded_dy.Reserve(rows * outputs * sizeof(uint16_t), s.engine));
    if (dbias != nullptr) {
      cpu_kernels::AddBiasBackwardRounded(rows, outputs, y, args.activation,
                                          g.dy, g.parameter_write, dbias,
                                          rounded);
    } else {
      cpu_kernels::RoundToBfloat16(1, rows * outputs, g.dy, rows * outputs,
                                   rounded);
    }
    dy = rounded;
    dbias = nullptr;
  } else if (args.activation != Activation::kNone) {
    cpu_kernels::AddBiasBackward(rows, outputs, y, args.activation, g.dy,
                                 g.parameter_write, dbias);
    dbias = nullptr;
  }
  s.PutWeightGradients(args, x, dy, dbias, g);
  if (g.dx != nullptr) s.PutInputGradient(args, dy, g);
}

void OneDnnConvolutions::State::PutWeightGradients(
    const ConvolutionArgs& args, const void* x, const void* dy, float* dbias_to,
    const ConvolutionGradients& gradients) {
  Primitives& primitives = Find(args);
  if (!primitives.has_by_weight) MakeByWeight(args, primitives);
  void* const blocked = dweight.Reserve(primitives.dweight.get_size(), engine);
  if (dbias_to != nullptr) {
    const size_t outputs = args.shape.out_channels;
    float* const sums =
        static_cast<float*>(dbias.Reserve(outputs * sizeof(float), engine));
    Run(primitives.by_weight, {x, dy, blocked, sums});
    cpu_kernels::CopyColumns(1, outputs, sums, outputs,
                             gradients.parameter_write, dbias_to, outputs);
  } else {
    Run(primitives.by_weight, {x, dy, blocked});
  }
  Run(primitives.put_dweight[static_cast<size_t>(gradients.parameter_write)],
      {blocked, gradients.dweight});
}

void OneDnnConvolutions::State::PutInputGradient(
    const ConvolutionArgs& args, const void* dy,
    const ConvolutionGradients& gradients) {
  Primitives& primitives = Find(args);
  if (!primitives.has_by_input) MakeByInput(args, primitives);
  void* const blocked =
      weight.Reserve(primitives.weight_by_input.get_size(), engine);
  Run(primitives.reorder_weight_by_input, {args.weight, blocked});
  if (gradients.dx_write == Write::kOverwrite) {
    Run(primitives.by_input, {dy, blocked, gradients.dx});
    return;
  }
  // oneDNN cannot add to dx, so the sum is computed here.
  const size_t size = args.images * args.shape.input_size();
  float* const sums =
      static_cast<float*>(dx.Reserve(size * sizeof(float), engine));
  Run(primitives.by_input, {dy, blocked, sums});
  cpu_kernels::CopyColumns(1, size, sums, size, Write::kAdd, gradients.dx,
                           size);
}

}  // namespace oarlock::nn
