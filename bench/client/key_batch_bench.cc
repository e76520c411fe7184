// What a worker does to a batch's 13,312 keys before they travel, and to its
// gradients: the distinct keys grouped by partition, the gradients of equal
// keys summed. One thread.

#include <memory>
#include <string>
#include <vector>

#include "base/process/malloc.h"
#include "base/types.h"
#include "bench/common/repetitions.h"
#include "bench/common/workload.h"
#include "client/key_batch.h"
#include "nn/backends/backends.h"
#include "nn/math_backend.h"

namespace oarlock_bench {
namespace {

constexpr size_t kBatches = 150;
constexpr int kPartitionBits = 8;
constexpr double kMicroseconds = 1e6;

using Batches = std::vector<std::vector<oarlock::Key>>;

const Batches& BatchesOf(Distribution distribution) {
  static Batches batches[2];
  Batches& own = batches[distribution == Distribution::kZipf];
  if (own.empty()) {
    for (const auto& rows :
         MakeBatches(distribution, kBatches, kTableRows, 11)) {
      own.emplace_back();
      for (const uint64_t key : KeysOf(rows)) {
        own.back().push_back(oarlock::Key{key});
      }
    }
  }
  return own;
}

Figures Deduplicate(Distribution distribution) {
  const Batches& batches = BatchesOf(distribution);
  static oarlock::client::KeyBatch keys;
  double distinct = 0;
  const double start = Now();
  for (const auto& batch : batches) {
    keys.Build(batch, kPartitionBits);
    distinct += static_cast<double>(keys.keys().size());
  }
  const double seconds = Now() - start;
  return {{"us_per_batch", seconds * kMicroseconds / kBatches},
          {"distinct_keys", distinct / kBatches}};
}

// As the embedding layer's backward pass does it.
Figures Merge(Distribution distribution) {
  const Batches& batches = BatchesOf(distribution);
  static const std::unique_ptr<oarlock::nn::MathBackend> backend =
      *oarlock::nn::NewMathBackend("onednn");
  static const std::vector<float> gradients = SomeGradients();
  static std::vector<float> merged(kBatchKeys * kDim);
  std::vector<oarlock::client::KeyBatch> keys(kBatches);
  for (size_t b = 0; b < kBatches; ++b) {
    keys[b].Build(batches[b], kPartitionBits);
  }
  oarlock::nn::RowBags bags;
  bags.num_examples = kBatchKeys;
  bags.num_slots = 1;
  bags.row_dim = bags.width = kDim;
  const double start = Now();
  for (const oarlock::client::KeyBatch& batch : keys) {
    bags.row_of_key = batch.row_of_key().data();
    backend->Fill(batch.keys().size() * kDim, 0, merged.data());
    backend->SumBagsBackward(bags, gradients.data(), merged.data());
  }
  return {{"us_per_batch", (Now() - start) * kMicroseconds / kBatches}};
}

}  // namespace
}  // namespace oarlock_bench

int main(int argc, char** argv) {
  using namespace oarlock_bench;  // NOLINT: main is a list of measurements
  oarlock::KeepFreedMemory();
  Repetitions repetitions;
  repetitions.Add("deduplicate zipf",
                  [] { return Deduplicate(Distribution::kZipf); });
  repetitions.Add("deduplicate uniform",
                  [] { return Deduplicate(Distribution::kUniform); });
  repetitions.Add("merge zipf", [] { return Merge(Distribution::kZipf); });
  return repetitions.Run(argc, argv);
}
