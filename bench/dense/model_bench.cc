// Times whole steps of a model's executor (forward and backward, rows already
// there) on a random batch: beside //bench/dense:dense_ceiling it shows what
// everything but the matrix products costs.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <barrier>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "base/random.h"
#include "models/model.h"

namespace oarlock {
namespace {

// A batch whose keys are Zipf-like: half of them are a few rows.
struct Data {
  Data(const models::Model& model, size_t batch, size_t num_rows,
       uint64_t seed) {
    const models::ModelSpec& spec = model.spec();
    RandomSequence random(seed);
    const auto fill = [&](std::vector<float>& v, size_t size, float scale) {
      v.resize(size);
      for (float& x : v) {
        x = scale * (2 * static_cast<float>(random.Uniform()) - 1);
      }
    };
    const size_t row_dim = spec.sparse_inputs[0].row_dim;
    fill(rows, num_rows * row_dim, 0.1f);
    fill(dense, batch * spec.num_dense, 1);
    fill(parameters, spec.num_parameters, 0.08f);
    labels.resize(batch);
    for (float& label : labels) label = random.Below(4) == 0 ? 1 : 0;
    row_of_key.resize(batch * spec.num_slots);
    for (uint32_t& row : row_of_key) {
      row = static_cast<uint32_t>(
          std::pow(static_cast<double>(num_rows), random.Uniform()) - 1);
    }
    row_gradients.resize(rows.size());
    parameter_gradients.resize(spec.num_parameters);
    input.num_examples = batch;
    input.labels = labels.data();
    input.dense = dense.data();
    nn::SparseInput& sparse = input.sparse.emplace_back();
    sparse.rows = rows.data();
    sparse.num_rows = num_rows;
    sparse.row_of_key = row_of_key;
    input.parameters = parameters.data();
    input.gradient_scale = 1.0f / static_cast<float>(batch);
    output.row_gradients = {row_gradients.data()};
    output.parameter_gradients = parameter_gradients.data();
  }
  std::vector<float> rows, dense, labels, parameters;
  std::vector<float> row_gradients, parameter_gradients;
  std::vector<uint32_t> row_of_key;
  nn::StepInput input;
  nn::StepOutput output;
};

std::vector<double> Measure(const models::Model& model, int batch, int num_rows,
                            int threads, int steps, int repetitions) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> seconds;
  bool started = false;
  Clock::time_point start;
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
    pool.emplace_back([&, t] {
      Data data(model, batch, num_rows, t + 1);
      const std::unique_ptr<models::ModelExecutor> executor =
          model.NewExecutor(batch);
      executor->Step(data.input, &data.output);
      all.arrive_and_wait();
      for (int r = 0; r < repetitions; ++r) {
        for (int s = 0; s < steps; ++s) {
          executor->Step(data.input, &data.output);
        }
        all.arrive_and_wait();
      }
    });
  }
  for (std::thread& thread : pool) thread.join();
  return seconds;
}

}  // namespace
}  // namespace oarlock

int main(int argc, char** argv) {
  std::string name = "ctr_dnn", math = "onednn";
  int batch = 512, threads = 2, repetitions = 9, steps = 0, num_rows = 6500;
  CLI::App app("Steps of a model, without data, network and optimizer.");
  app.add_option("--model", name, "The model")->capture_default_str();
  app.add_option("--math", math, "Who computes: onednn, onednn_bfloat16")
      ->capture_default_str();
  app.add_option("--batch", batch, "Examples of a batch, of each thread")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--threads", threads, "Threads, each with an executor")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_option("--rows", num_rows, "Distinct keys of a batch")
      ->check(CLI::Range(1, 1 << 24))
      ->capture_default_str();
  app.add_option("--repetitions", repetitions, "Timed repetitions")
      ->check(CLI::Range(7, 1000))
      ->capture_default_str();
  app.add_option("--steps", steps,
                 "Steps of a repetition; 0: about 16,000 "
                 "examples a thread");
  CLI11_PARSE(app, argc, argv);
  if (steps <= 0) steps = std::max(1, 16384 / batch);

  oarlock::models::ModelOptions options;
  options.math_backend = math;
  const absl::StatusOr<std::unique_ptr<oarlock::models::Model>> model =
      oarlock::models::NewModel(name, options);
  if (!model.ok()) {
    std::fprintf(stderr, "%s\n", model.status().ToString().c_str());
    return 1;
  }
  std::vector<double> seconds =
      oarlock::Measure(**model, batch, num_rows, threads, steps, repetitions);
  std::sort(seconds.begin(), seconds.end());
  const double examples = static_cast<double>(batch) * threads * steps;
  std::printf(
      "%s step  %s  batch %d  %d threads  %.0f examples/s median of %zu "
      "(%.0f to %.0f)\n",
      name.c_str(), math.c_str(), batch, threads,
      examples / seconds[seconds.size() / 2], seconds.size(),
      examples / seconds.back(), examples / seconds.front());
  return 0;
}
