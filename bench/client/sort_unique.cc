// The stock alternative to what a worker does to a batch: std::sort and
// std::unique. Deduplicating gives the distinct keys and nothing else (no
// grouping, no way back to the occurrences), merging sums over sorted pairs of
// key and position.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "bench/common/repetitions.h"
#include "bench/common/workload.h"

namespace oarlock_bench {
namespace {

constexpr size_t kBatches = 75;
constexpr double kMicroseconds = 1e6;

using Batches = std::vector<std::vector<uint64_t>>;

const Batches& BatchesOf(Distribution distribution) {
  static Batches batches[2];
  Batches& own = batches[distribution == Distribution::kZipf];
  if (own.empty()) {
    for (const auto& rows :
         MakeBatches(distribution, kBatches, kTableRows, 11)) {
      own.push_back(KeysOf(rows));
    }
  }
  return own;
}

Figures Deduplicate(Distribution distribution) {
  const Batches& batches = BatchesOf(distribution);
  static std::vector<uint64_t> keys;
  double distinct = 0;
  const double start = Now();
  for (const auto& batch : batches) {
    keys = batch;
    std::sort(keys.begin(), keys.end());
    keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
    distinct += static_cast<double>(keys.size());
  }
  const double seconds = Now() - start;
  return {{"us_per_batch", seconds * kMicroseconds / kBatches},
          {"distinct_keys", distinct / kBatches}};
}

Figures Merge(Distribution distribution) {
  const Batches& batches = BatchesOf(distribution);
  static const std::vector<float> gradients = SomeGradients();
  static std::vector<std::pair<uint64_t, uint32_t>> order(kBatchKeys);
  static std::vector<float> merged(kBatchKeys * kDim);
  const double start = Now();
  for (const auto& batch : batches) {
    for (uint32_t i = 0; i < kBatchKeys; ++i) order[i] = {batch[i], i};
    std::sort(order.begin(), order.end());
    float* to = merged.data() - kDim;
    for (size_t i = 0; i < kBatchKeys; ++i) {
      const float* const from = &gradients[order[i].second * kDim];
      if (i == 0 || order[i].first != order[i - 1].first) {
        to += kDim;
        std::copy_n(from, kDim, to);
      } else {
        for (size_t d = 0; d < kDim; ++d) to[d] += from[d];
      }
    }
  }
  return {{"us_per_batch", (Now() - start) * kMicroseconds / kBatches}};
}

}  // namespace
}  // namespace oarlock_bench

int main(int argc, char** argv) {
  using namespace oarlock_bench;  // NOLINT: main is a list of measurements
  Repetitions repetitions;
  repetitions.Add("deduplicate zipf",
                  [] { return Deduplicate(Distribution::kZipf); });
  repetitions.Add("deduplicate uniform",
                  [] { return Deduplicate(Distribution::kUniform); });
  repetitions.Add("merge zipf", [] { return Merge(Distribution::kZipf); });
  return repetitions.Run(argc, argv);
}
