// How fast could training be if it were its matrix products alone: those of
// forward and backward of CTR-DNN's layers (273-400-400-400-2, the gradient by
// the first layer's input included: it is the embeddings' gradient). Each
// thread computes its own batches with its own weights.
//
// float32: plain dnnl_sgemm. bfloat16: oneDNN's matmul primitives of bfloat16
// operands with float32 results. Rounding the operands is left out, and so is
// bringing the weights into the layout that oneDNN likes best, though a step of
// training has to do both each time.

#include <omp.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <oneapi/dnnl/dnnl.hpp>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

namespace {

constexpr std::array<dnnl_dim_t, 5> kSizes = {273, 400, 400, 400, 2};
constexpr size_t kLayers = kSizes.size() - 1;

void Multiply(char transpose_a, char transpose_b, dnnl_dim_t m, dnnl_dim_t n,
              dnnl_dim_t k, const float* a, dnnl_dim_t lda, const float* b,
              dnnl_dim_t ldb, float* c) {
  if (dnnl_sgemm(transpose_a, transpose_b, m, n, k, 1, a, lda, b, ldb, 0, c,
                 n) != dnnl_success) {
    std::abort();
  }
}

// The arrays of one thread.
class Products {
 public:
  virtual ~Products() = default;
  // The products of one step.
  virtual void Run() = 0;
};

class Float32Products final : public Products {
 public:
  explicit Float32Products(dnnl_dim_t batch) : batch_(batch) {
    for (size_t l = 0; l < kSizes.size(); ++l) {
      x_[l].assign(batch * kSizes[l], 0.01f);
      dx_[l].assign(batch * kSizes[l], 0.01f);
    }
    for (size_t l = 0; l < kLayers; ++l) {
      w_[l].assign(kSizes[l] * kSizes[l + 1], 0.01f);
      dw_[l].assign(kSizes[l] * kSizes[l + 1], 0.01f);
    }
  }
  void Run() override {
    for (size_t l = 0; l < kLayers; ++l) {
      const dnnl_dim_t in = kSizes[l], out = kSizes[l + 1];
      Multiply('N', 'N', batch_, out, in, x_[l].data(), in, w_[l].data(), out,
               x_[l + 1].data());
    }
    for (size_t l = kLayers; l-- > 0;) {
      const dnnl_dim_t in = kSizes[l], out = kSizes[l + 1];
      Multiply('T', 'N', in, out, batch_, x_[l].data(), in, dx_[l + 1].data(),
               out, dw_[l].data());
      Multiply('N', 'T', batch_, in, out, dx_[l + 1].data(), out, w_[l].data(),
               out, dx_[l].data());
    }
  }

 private:
  const dnnl_dim_t batch_;
  std::array<std::vector<float>, kSizes.size()> x_, dx_;
  std::array<std::vector<float>, kLayers> w_, dw_;
};

// One product of bfloat16 matrices, with arrays of its own.
class Bfloat16Product {
 public:
  // c [m, n] = a [m, k] b [k, n]; b may be packed.
  Bfloat16Product(const dnnl::engine& engine, dnnl_dim_t m, dnnl_dim_t n,
                  dnnl_dim_t k, bool a_transposed, bool packed_b) {
    using dnnl::memory;
    const auto bf16 = memory::data_type::bf16;
    const auto rows = memory::format_tag::ab;
    const memory::desc a({m, k}, bf16,
                         a_transposed ? memory::format_tag::ba : rows);
    const memory::desc b({k, n}, bf16,
                         packed_b ? memory::format_tag::any : rows);
    const memory::desc c({m, n}, memory::data_type::f32, rows);
    const dnnl::matmul::primitive_desc desc(dnnl::matmul::desc(a, b, c),
                                            engine);
    matmul_ = dnnl::matmul(desc);
    args_ = {{DNNL_ARG_SRC, Filled(desc.src_desc(), engine)},
             {DNNL_ARG_WEIGHTS, Filled(desc.weights_desc(), engine)},
             {DNNL_ARG_DST, Filled(desc.dst_desc(), engine)}};
  }
  void Run(const dnnl::stream& stream) const { matmul_.execute(stream, args_); }

 private:
  // Small ordinary numbers in either type.
  static dnnl::memory Filled(const dnnl::memory::desc& desc,
                             const dnnl::engine& engine) {
    constexpr uint16_t kBfloat16OfAHundredth = 0x3c24;
    dnnl::memory memory(desc, engine);
    std::fill_n(static_cast<uint16_t*>(memory.get_data_handle()),
                desc.get_size() / sizeof(uint16_t), kBfloat16OfAHundredth);
    return memory;
  }

  dnnl::matmul matmul_;
  std::unordered_map<int, dnnl::memory> args_;
};

class Bfloat16Products final : public Products {
 public:
  explicit Bfloat16Products(dnnl_dim_t batch) {
    for (size_t l = 0; l < kLayers; ++l) {
      const dnnl_dim_t in = kSizes[l], out = kSizes[l + 1];
      products_.emplace_back(engine_, batch, out, in, false, true);
      products_.emplace_back(engine_, in, out, batch, true, false);
      products_.emplace_back(engine_, batch, in, out, false, true);
    }
  }
  void Run() override {
    for (const Bfloat16Product& product : products_) product.Run(stream_);
  }

 private:
  const dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  const dnnl::stream stream_{engine_};
  std::vector<Bfloat16Product> products_;
};

std::unique_ptr<Products> NewProducts(const std::string& type, int batch) {
  if (type == "bfloat16") return std::make_unique<Bfloat16Products>(batch);
  return std::make_unique<Float32Products>(batch);
}

double FlopsPerExample() {
  double flops = 0;
  for (size_t l = 0; l < kLayers; ++l) {
    flops += 3 * 2.0 * static_cast<double>(kSizes[l] * kSizes[l + 1]);
  }
  return flops;
}

// Seconds of each repetition of `steps` steps in each of `threads` threads.
std::vector<double> Measure(const std::string& type, int batch, int threads,
                            int steps, int repetitions) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> seconds;
  bool started = false;
  Clock::time_point start;
  // Runs once each time that all threads have arrived: first when all are
  // warm, then after each repetition.
  std::barrier all(threads, [&]() noexcept {
    const Clock::time_point now = Clock::now();
    if (started) {
      seconds.push_back(std::chrono::duration<double>(now - start).count());
    }
    started = true;
    start = now;
  });
  std::vector<std::thread> pool;
  for (int t = 0; t < threads; ++t) {
    pool.emplace_back([&] {
      omp_set_num_threads(1);
      const std::unique_ptr<Products> products = NewProducts(type, batch);
      products->Run();
      all.arrive_and_wait();
      for (int r = 0; r < repetitions; ++r) {
        for (int s = 0; s < steps; ++s) products->Run();
        all.arrive_and_wait();
      }
    });
  }
  for (std::thread& thread : pool) thread.join();
  return seconds;
}

}  // namespace

int main(int argc, char** argv) {
  std::string type = "float32";
  int batch = 512, threads = 2, repetitions = 9, steps = 0;
  CLI::App app("The dense-math ceiling of CTR-DNN: matrix products alone.");
  app.add_option("--type", type, "Numbers that are multiplied")
      ->check(CLI::IsMember({"float32", "bfloat16"}))
      ->capture_default_str();
  app.add_option("--batch", batch, "Examples of a batch, of each thread")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--threads", threads, "Threads, each with its own batches")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_option("--repetitions", repetitions, "Timed repetitions")
      ->check(CLI::Range(7, 1000))
      ->capture_default_str();
  app.add_option("--steps", steps,
                 "Steps of a repetition; 0: about 16,000 "
                 "examples a thread");
  CLI11_PARSE(app, argc, argv);
  if (steps <= 0) steps = std::max(1, 16384 / batch);

  std::vector<double> seconds =
      Measure(type, batch, threads, steps, repetitions);
  std::sort(seconds.begin(), seconds.end());
  const double examples = static_cast<double>(batch) * threads * steps;
  const double median = examples / seconds[seconds.size() / 2];
  std::printf(
      "dense ceiling  %s  batch %d  %d threads  %.0f examples/s median of %zu "
      "(%.0f to %.0f)  %.1f GFLOP/s\n",
      type.c_str(), batch, threads, median, seconds.size(),
      examples / seconds.back(), examples / seconds.front(),
      median * FlopsPerExample() * 1e-9);
  return 0;
}
