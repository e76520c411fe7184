// The limit of the table in one process: the same rows on huge pages, found by
// number, prefetched.

#include "bench/common/raw_rows.h"

#include <array>
#include <string>
#include <vector>

#include "bench/common/repetitions.h"
#include "bench/common/workload.h"

namespace oarlock_bench {
namespace {

// Several times what caches hold.
constexpr size_t kBatches = 300;
constexpr int kMaxThreads = 2;

struct Traffic {
  std::vector<std::vector<uint32_t>> all;
  // A push names a row once.
  std::vector<std::vector<uint32_t>> distinct;
};

const Traffic& TrafficOf(Distribution distribution, int thread) {
  static std::array<std::array<Traffic, kMaxThreads>, 2> traffic;
  Traffic& own = traffic[distribution == Distribution::kZipf][thread];
  if (own.all.empty()) {
    own.all = MakeBatches(distribution, kBatches, kTableRows, thread);
    for (const auto& batch : own.all) own.distinct.push_back(Distinct(batch));
  }
  return own;
}

const RawRows& Rows() {
  static const RawRows* const rows = new RawRows(kTableRows);
  return *rows;
}

Figures Gather(Distribution distribution, int num_threads) {
  const RawRows& rows = Rows();
  static std::array<float*, kMaxThreads> out = {};
  for (int t = 0; t < num_threads; ++t) {
    TrafficOf(distribution, t);
    if (out[t] == nullptr) {
      out[t] =
          static_cast<float*>(AllocateHuge(kBatchKeys * kDim * sizeof(float)));
    }
  }
  const double seconds = RunThreads(num_threads, [&](int t) {
    for (const auto& batch : TrafficOf(distribution, t).all) {
      rows.Gather(batch.data(), batch.size(), out[t]);
    }
  });
  return {{"rows_per_second",
           num_threads * static_cast<double>(kBatches * kBatchKeys) / seconds}};
}

Figures Adagrad(Distribution distribution, int num_threads) {
  const RawRows& rows = Rows();
  static const std::vector<float> gradients = SomeGradients();
  double updated = 0;
  for (int t = 0; t < num_threads; ++t) {
    for (const auto& batch : TrafficOf(distribution, t).distinct) {
      updated += static_cast<double>(batch.size());
    }
  }
  // Two threads may meet in a row: harmless here, and what a limit may do.
  const double seconds = RunThreads(num_threads, [&](int t) {
    for (const auto& batch : TrafficOf(distribution, t).distinct) {
      rows.Adagrad(batch.data(), batch.size(), gradients.data());
    }
  });
  return {{"rows_per_second", updated / seconds}};
}

}  // namespace
}  // namespace oarlock_bench

int main(int argc, char** argv) {
  using namespace oarlock_bench;  // NOLINT: main is a list of measurements
  Repetitions repetitions;
  for (const Distribution distribution :
       {Distribution::kUniform, Distribution::kZipf}) {
    for (int threads = 1; threads <= kMaxThreads; ++threads) {
      const std::string suffix =
          std::string(distribution == Distribution::kZipf ? " zipf "
                                                          : " uniform ") +
          std::to_string(threads);
      repetitions.Add("gather" + suffix,
                      [=] { return Gather(distribution, threads); });
      repetitions.Add("adagrad" + suffix,
                      [=] { return Adagrad(distribution, threads); });
    }
  }
  return repetitions.Run(argc, argv);
}
