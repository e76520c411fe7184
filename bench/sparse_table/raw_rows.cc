// The limits of the table in one process: the same rows on huge pages, found by
// number, prefetched; and the first touch of new memory.

#include "bench/common/raw_rows.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstddef>
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

// What making rows costs at least where memory is new: one thread touches as
// much of it for the first time, on huge pages.
Figures FirstTouch() {
  constexpr size_t kRowBytes = 2 * kDim * sizeof(float);
  constexpr size_t kBytes = kTableRows * kRowBytes;
  constexpr size_t kPage = 4096;
  constexpr size_t kBatchBytes = kBatchKeys * kRowBytes;
  std::byte* const memory = static_cast<std::byte*>(AllocateHuge(kBytes));
  double longest = 0;
  const double begin = Now();
  for (size_t first = 0; first < kBytes; first += kBatchBytes) {
    const double start = Now();
    const size_t end = std::min(kBytes, first + kBatchBytes);
    for (size_t i = first; i < end; i += kPage) memory[i] = std::byte{1};
    longest = std::max(longest, Now() - start);
  }
  const double seconds = Now() - begin;
  munmap(memory, kBytes);
  return {{"rows_per_second", static_cast<double>(kTableRows) / seconds},
          {"longest_batch_ms", longest * 1e3}};
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
  repetitions.Add("first touch", FirstTouch);
  return repetitions.Run(argc, argv);
}
