#include "nn/onednn/bfloat16_products.h"

#include <array>
#include <memory>
#include <oneapi/dnnl/dnnl.hpp>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "nn/cpu/cpu_kernels.h"
#include "nn/cpu/math_threads.h"

namespace oarlock::nn {
namespace {

using dnnl::memory;

// The most kinds of products that a backend keeps. A network has three for each
// linear layer and batch size; the batch size changes with a file's last batch.
constexpr size_t kMaxKinds = 1024;

// The sizes, strides and flags on which the primitive depends.
using Kind = std::array<size_t, 7>;

Kind KindOf(const Bfloat16Product& p) {
  size_t flags = p.a.transposed ? 1 : 0;
  flags = flags * 2 + (p.b.transposed ? 1 : 0);
  flags = flags * 2 + (p.bias != nullptr ? 1 : 0);
  flags = flags * 2 + (p.write == Write::kAdd ? 1 : 0);
  return {p.m, p.n, p.k, p.a.stride, p.b.stride, p.c_stride, flags};
}

struct Primitive {
  dnnl::matmul matmul;
  memory a, b, bias, c, scratchpad;
  size_t scratchpad_bytes = 0;
};

memory::desc Describe(size_t rows, size_t cols, size_t stride, bool transposed,
                      memory::data_type type) {
  const auto dim = [](size_t size) { return static_cast<memory::dim>(size); };
  const memory::dims strides =
      transposed ? memory::dims{1, dim(stride)} : memory::dims{dim(stride), 1};
  return memory::desc({dim(rows), dim(cols)}, type, strides);
}

Primitive NewPrimitive(const dnnl::engine& engine, const Bfloat16Product& p) {
  const auto f32 = memory::data_type::f32;
  const auto bf16 = memory::data_type::bf16;
  const auto a = Describe(p.m, p.k, p.a.stride, p.a.transposed, bf16);
  const auto b = Describe(p.k, p.n, p.b.stride, p.b.transposed, bf16);
  const auto c = Describe(p.m, p.n, p.c_stride, false, f32);
  const auto bias = Describe(1, p.n, p.n, false, f32);
  dnnl::post_ops after;
  if (p.write == Write::kAdd) after.append_sum(1);
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  attributes.set_post_ops(after);
  const auto desc = p.bias != nullptr ? dnnl::matmul::desc(a, b, bias, c)
                                      : dnnl::matmul::desc(a, b, c);
  const dnnl::matmul::primitive_desc chosen(desc, attributes, engine);
  Primitive result;
  result.matmul = dnnl::matmul(chosen);
  result.a = memory(a, engine, nullptr);
  result.b = memory(b, engine, nullptr);
  result.bias = memory(bias, engine, nullptr);
  result.c = memory(c, engine, nullptr);
  result.scratchpad = memory(chosen.scratchpad_desc(), engine, nullptr);
  result.scratchpad_bytes = chosen.scratchpad_desc().get_size();
  return result;
}

}  // namespace

struct Bfloat16Products::State {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  absl::flat_hash_map<Kind, Primitive> primitives;
  // As large as the largest scratchpad of all primitives. Its contents between
  // runs do not matter.
  memory scratchpad;
  size_t scratchpad_bytes = 0;

  Primitive& Find(const Bfloat16Product& product) {
    const Kind kind = KindOf(product);
    const auto found = primitives.find(kind);
    if (found != primitives.end()) return found->second;
    if (primitives.size() == kMaxKinds) primitives.clear();
    Primitive& primitive =
        primitives.emplace(kind, NewPrimitive(engine, product)).first->second;
    if (primitive.scratchpad_bytes > scratchpad_bytes) {
      scratchpad_bytes = primitive.scratchpad_bytes;
      scratchpad = memory(primitive.scratchpad.get_desc(), engine);
    }
    return primitive;
  }
};

Bfloat16Products::Bfloat16Products(int threads)
    : threads_(threads), state_(std::make_unique<State>()) {}
Bfloat16Products::~Bfloat16Products() = default;

void Bfloat16Products::Run(const Bfloat16Product& product) {
  UseMathThreads(threads_);
  Primitive& primitive = state_->Find(product);
  std::array<dnnl_exec_arg_t, 5> args;
  size_t num_args = 0;
  const auto pass = [&](int role, const memory& to, const void* data) {
    // Uses the C functions, since the C++ functions allocate memory.
    OARLOCK_CHECK(dnnl_memory_set_data_handle(
                      to.get(), const_cast<void*>(data)) == dnnl_success);
    args[num_args++] = {role, to.get()};
  };
  pass(DNNL_ARG_SRC, primitive.a, product.a.data);
  pass(DNNL_ARG_WEIGHTS, primitive.b, product.b.data);
  pass(DNNL_ARG_DST, primitive.c, product.c);
  if (product.bias != nullptr) {
    pass(DNNL_ARG_BIAS, primitive.bias, product.bias);
  }
  if (primitive.scratchpad_bytes > 0) {
    pass(DNNL_ARG_SCRATCHPAD, primitive.scratchpad,
         state_->scratchpad.get_data_handle());
  }
  OARLOCK_CHECK(dnnl_primitive_execute(
                    primitive.matmul.get(), state_->stream.get(),
                    static_cast<int>(num_args), args.data()) == dnnl_success);
  if (product.activation == Activation::kNone) return;
  // oneDNN's own makes 0 of NaN.
  ParallelFor(threads_, product.m, [&](size_t begin, size_t end) {
    for (size_t row = begin; row < end; ++row) {
      cpu_kernels::ReluInPlace(product.n, product.c + row * product.c_stride);
    }
  });
}

bool CpuMultipliesBfloat16() {
  const auto isa = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  const auto wanted = static_cast<unsigned>(dnnl::cpu_isa::avx512_core_bf16);
  return (isa & wanted) == wanted;
}

std::string OnednnVersion() {
  const dnnl_version_t* const version = dnnl_version();
  return absl::StrCat(version->major, ".", version->minor, ".", version->patch);
}

}  // namespace oarlock::nn
