// The sparse table in one process, one thread, beside a raw gather of rows of
// the same size with prefetch and no index: what memory alone allows. Batches
// of 13,312 uniform keys (512 examples of 26 fields), rows of 16 floats with
// adagrad.
//
//   bazel run //bench/sparse_table:sparse_table_bench
//
// OARLOCK_BENCH_ROWS: rows of the table, by default 2^22.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/check.h"
#include "base/key_group.h"
#include "base/mix.h"
#include "base/random.h"
#include "sparse_table/arena.h"
#include "sparse_table/sparse_table.h"

namespace oarlock {
namespace {

constexpr size_t kDim = 16;
constexpr size_t kBatchKeys = 13312;
constexpr size_t kRowBytes = 2 * kDim * sizeof(float);
constexpr size_t kPrefetchDistance = 32;
constexpr int kPartitionBits = 8;
constexpr int kBatches = 64;

uint64_t NumRows() {
  const char* rows = std::getenv("OARLOCK_BENCH_ROWS");
  return rows != nullptr ? std::strtoull(rows, nullptr, 10) : 1 << 22;
}

// Key number i of the table: no pattern that the hash could profit from.
Key KeyAt(uint64_t i) { return Key{Mix(Mix(i))}; }

struct Batch {
  std::vector<Key> keys;
  std::vector<KeyGroup> groups;
};

Batch MakeBatch(std::vector<Key> keys) {
  std::sort(keys.begin(), keys.end(), [](Key a, Key b) {
    return PartitionOfMix(Mix(a), kPartitionBits) <
           PartitionOfMix(Mix(b), kPartitionBits);
  });
  Batch batch;
  batch.keys = std::move(keys);
  for (const Key key : batch.keys) {
    const PartitionIndex partition = PartitionOfMix(Mix(key), kPartitionBits);
    if (batch.groups.empty() || batch.groups.back().partition != partition) {
      batch.groups.push_back({partition, 0});
    }
    ++batch.groups.back().num_keys;
  }
  return batch;
}

std::vector<Batch> RandomBatches(uint64_t num_rows) {
  RandomSequence random(7);
  std::vector<Batch> batches;
  for (int b = 0; b < kBatches; ++b) {
    std::vector<Key> keys;
    for (size_t i = 0; i < kBatchKeys; ++i) {
      keys.push_back(KeyAt(random.Below(num_rows)));
    }
    batches.push_back(MakeBatch(std::move(keys)));
  }
  return batches;
}

std::unique_ptr<SparseTable> EmptyTable() {
  v1::TableConfig config;
  config.set_id(1);
  config.set_name("bench");
  config.mutable_optimizer()->set_learning_rate(0.01f);
  config.mutable_optimizer()->mutable_adagrad();
  config.mutable_sparse()->set_dim(kDim);
  config.mutable_sparse()->mutable_initializer()->set_uniform_range(0.01f);
  absl::StatusOr<std::unique_ptr<SparseTable>> table =
      SparseTable::Create(config, kPartitionBits);
  OARLOCK_CHECK(table.ok());
  return *std::move(table);
}

// Pushes `gradients` under a new name each time.
void Push(SparseTable& table, const Batch& batch, const float* gradients) {
  static uint64_t sequence = 0;
  const PushStamp stamp = {WorkerIndex(0), Generation(1), Sequence(++sequence)};
  SparsePush push;
  push.groups = batch.groups;
  push.keys = batch.keys.data();
  push.gradients = gradients;
  push.stamps = {&stamp, 1};
  OARLOCK_CHECK(table.Push(push).ok());
}

// A table filled once for all benchmarks.
SparseTable& FullTable() {
  static SparseTable* const table = [] {
    std::unique_ptr<SparseTable> filled = EmptyTable();
    const std::vector<float> gradients(kBatchKeys * kDim, 0.1f);
    for (uint64_t first = 0; first < NumRows(); first += kBatchKeys) {
      std::vector<Key> keys;
      for (size_t i = 0; i < kBatchKeys; ++i) keys.push_back(KeyAt(first + i));
      Push(*filled, MakeBatch(std::move(keys)), gradients.data());
    }
    return filled.release();
  }();
  return *table;
}

void SetRate(benchmark::State& state) {
  state.SetItemsProcessed(state.iterations() * kBatchKeys);
}

// Rows of the limit: an array on huge pages, no index, no header.
class RawRows {
 public:
  RawRows()
      : arena_(*Arena::Create(NumRows() * kRowBytes + Arena::kChunkBytes)) {
    std::memset(arena_->base(), 1, NumRows() * kRowBytes);
    RandomSequence random(7);
    for (size_t i = 0; i < kBatches * kBatchKeys; ++i) {
      ids_.push_back(static_cast<uint32_t>(random.Below(NumRows())));
    }
  }
  float* At(size_t i) {
    return reinterpret_cast<float*>(arena_->base() + ids_[i] * kRowBytes);
  }
  void Prefetch(size_t i, size_t num_bytes) {
    const std::byte* row =
        reinterpret_cast<std::byte*>(At((i + kPrefetchDistance) % ids_.size()));
    for (size_t b = 0; b < num_bytes; b += 64) __builtin_prefetch(row + b);
  }

 private:
  std::unique_ptr<Arena> arena_;
  std::vector<uint32_t> ids_;
};

RawRows& Rows() {
  static RawRows* const rows = new RawRows();
  return *rows;
}

void BM_RawGather(benchmark::State& state) {
  RawRows& rows = Rows();
  std::vector<float> values(kBatchKeys * kDim);
  size_t batch = 0;
  for (auto _ : state) {
    const size_t first = batch++ % kBatches * kBatchKeys;
    for (size_t i = 0; i < kBatchKeys; ++i) {
      rows.Prefetch(first + i, kDim * sizeof(float));
      std::memcpy(&values[i * kDim], rows.At(first + i), kDim * sizeof(float));
    }
    benchmark::ClobberMemory();
  }
  SetRate(state);
}
BENCHMARK(BM_RawGather);

void BM_Pull(benchmark::State& state) {
  const SparseTable& table = FullTable();
  const std::vector<Batch> batches = RandomBatches(NumRows());
  std::vector<float> values(kBatchKeys * kDim);
  size_t batch = 0;
  for (auto _ : state) {
    const Batch& next = batches[batch++ % kBatches];
    table.Pull(next.groups, next.keys.data(), values.data(), nullptr);
    benchmark::ClobberMemory();
  }
  SetRate(state);
}
BENCHMARK(BM_Pull);

void BM_PullOfMissingKeys(benchmark::State& state) {
  const std::unique_ptr<SparseTable> table = EmptyTable();
  const std::vector<Batch> batches = RandomBatches(NumRows());
  std::vector<float> values(kBatchKeys * kDim);
  size_t batch = 0;
  for (auto _ : state) {
    const Batch& next = batches[batch++ % kBatches];
    table->Pull(next.groups, next.keys.data(), values.data(), nullptr);
    benchmark::ClobberMemory();
  }
  SetRate(state);
}
BENCHMARK(BM_PullOfMissingKeys);

void BM_RawAdagrad(benchmark::State& state) {
  RawRows& rows = Rows();
  const std::vector<float> gradients(kBatchKeys * kDim, 0.1f);
  size_t batch = 0;
  for (auto _ : state) {
    const size_t first = batch++ % kBatches * kBatchKeys;
    for (size_t i = 0; i < kBatchKeys; ++i) {
      rows.Prefetch(first + i, kRowBytes);
      float* const w = rows.At(first + i);
      const float* const g = &gradients[i * kDim];
      for (size_t d = 0; d < kDim; ++d) {
        const float sum = w[kDim + d] + g[d] * g[d];
        w[kDim + d] = sum;
        w[d] -= 0.01f * g[d] / (std::sqrt(sum) + 1e-10f);
      }
    }
    benchmark::ClobberMemory();
  }
  SetRate(state);
}
BENCHMARK(BM_RawAdagrad);

void BM_Push(benchmark::State& state) {
  SparseTable& table = FullTable();
  const std::vector<Batch> batches = RandomBatches(NumRows());
  const std::vector<float> gradients(kBatchKeys * kDim, 0.1f);
  size_t batch = 0;
  for (auto _ : state) {
    Push(table, batches[batch++ % kBatches], gradients.data());
  }
  SetRate(state);
}
BENCHMARK(BM_Push);

// Every key is new. Reports the longest call.
void BM_Insert(benchmark::State& state) {
  const uint64_t num_batches = NumRows() / kBatchKeys;
  const std::vector<float> gradients(kBatchKeys * kDim, 0.1f);
  std::vector<Batch> batches;
  for (uint64_t b = 0; b < num_batches; ++b) {
    std::vector<Key> keys;
    for (size_t i = 0; i < kBatchKeys; ++i) {
      keys.push_back(KeyAt(b * kBatchKeys + i));
    }
    batches.push_back(MakeBatch(std::move(keys)));
  }
  double longest_ms = 0;
  for (auto _ : state) {
    const std::unique_ptr<SparseTable> table = EmptyTable();
    for (const Batch& batch : batches) {
      const absl::Time start = absl::Now();
      Push(*table, batch, gradients.data());
      longest_ms =
          std::max(longest_ms, absl::ToDoubleMilliseconds(absl::Now() - start));
    }
  }
  state.SetItemsProcessed(state.iterations() * num_batches * kBatchKeys);
  state.counters["longest_call_ms"] = longest_ms;
}
BENCHMARK(BM_Insert)->Iterations(2)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace oarlock

BENCHMARK_MAIN();
