// The sparse table in one process: pulls and pushes of whole batches with its
// concurrency control on, inserts into an empty table, memory per key. Keys
// come as a client sends them, grouped by partition; what grouping costs is
// measured in //bench/client.

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/key_group.h"
#include "base/process/malloc.h"
#include "base/push_stamp.h"
#include "base/types.h"
#include "bench/common/repetitions.h"
#include "bench/common/workload.h"
#include "bench/sparse_table/bench_table.h"
#include "client/key_batch.h"
#include "sparse_table/sparse_table.h"

namespace oarlock_bench {
namespace {

using oarlock::Key;
using oarlock::KeyGroup;
using oarlock::client::KeyBatch;
using oarlock::sparse_table::SparseTable;

constexpr size_t kBatches = 300;
constexpr int kMaxThreads = 2;

struct GroupedKeys {
  std::vector<Key> keys;
  std::vector<KeyGroup> groups;
};

// The distinct keys as the product's client groups them.
GroupedKeys GroupDistinct(const std::vector<Key>& keys) {
  KeyBatch batch;
  batch.Build(keys, kPartitionBits);
  return {batch.keys(), batch.groups()};
}

// All keys, those that occur several times too.
GroupedKeys GroupAll(const std::vector<Key>& keys) {
  KeyBatch batch;
  batch.Build(keys, kPartitionBits);
  // Position in the order of distinct keys: ascending partitions.
  std::vector<uint32_t> positions = batch.row_of_key();
  std::vector<uint32_t> partition_of_position;
  for (const KeyGroup& group : batch.groups()) {
    partition_of_position.insert(partition_of_position.end(), group.num_keys,
                                 group.partition.value());
  }
  // Within a partition in the order of the batch: equal keys lie apart, as
  // the limit and the peers meet them.
  std::stable_sort(positions.begin(), positions.end(),
                   [&](uint32_t a, uint32_t b) {
                     return partition_of_position[a] < partition_of_position[b];
                   });
  GroupedKeys all;
  for (const uint32_t position : positions) {
    all.keys.push_back(batch.keys()[position]);
    const oarlock::PartitionIndex partition(partition_of_position[position]);
    if (all.groups.empty() || all.groups.back().partition != partition) {
      all.groups.push_back({partition, 0});
    }
    ++all.groups.back().num_keys;
  }
  return all;
}

std::vector<Key> AsKeys(const std::vector<uint32_t>& rows) {
  std::vector<Key> keys;
  for (const uint64_t key : KeysOf(rows)) keys.push_back(Key{key});
  return keys;
}

struct Traffic {
  std::vector<GroupedKeys> all;
  // A push names a key once.
  std::vector<GroupedKeys> distinct;
};

const Traffic& TrafficOf(Distribution distribution, int thread) {
  static std::array<std::array<Traffic, kMaxThreads>, 2> traffic;
  Traffic& own = traffic[distribution == Distribution::kZipf][thread];
  if (own.all.empty()) {
    for (const auto& batch :
         MakeBatches(distribution, kBatches, kTableRows, thread)) {
      const std::vector<Key> keys = AsKeys(batch);
      own.all.push_back(GroupAll(keys));
      own.distinct.push_back(GroupDistinct(keys));
    }
  }
  return own;
}

// One pusher: a worker that names its pushes.
class Pusher {
 public:
  explicit Pusher(int worker) : worker_(worker) {}
  void Push(const GroupedKeys& batch, const float* gradients,
            SparseTable* table) {
    const oarlock::PushStamp stamp = {oarlock::WorkerIndex(worker_),
                                      oarlock::Generation(1),
                                      oarlock::Sequence(++last_sequence_)};
    oarlock::sparse_table::SparsePush push;
    push.groups = batch.groups;
    push.keys = batch.keys.data();
    push.gradients = gradients;
    push.stamps = {&stamp, 1};
    OARLOCK_CHECK(table->Push(push).ok());
  }

 private:
  const uint32_t worker_;
  uint64_t last_sequence_ = 0;
};

const float* Gradients() {
  static const std::vector<float> gradients = SomeGradients();
  return gradients.data();
}

// Batches of keys that all differ: rows [begin, end).
std::vector<GroupedKeys> AllKeys(uint64_t begin, uint64_t end) {
  std::vector<GroupedKeys> batches;
  for (uint64_t first = begin; first < end; first += kBatchKeys) {
    std::vector<uint32_t> rows;
    for (uint64_t row = first; row < std::min(end, first + kBatchKeys); ++row) {
      rows.push_back(static_cast<uint32_t>(row));
    }
    batches.push_back(GroupDistinct(AsKeys(rows)));
  }
  return batches;
}

struct FilledTable {
  std::unique_ptr<SparseTable> table = EmptyTable();
  std::array<Pusher, kMaxThreads> pushers = {Pusher(0), Pusher(1)};
};

FilledTable& Filled() {
  static FilledTable* const filled = [] {
    auto* const made = new FilledTable();
    for (const GroupedKeys& batch : AllKeys(0, kTableRows)) {
      made->pushers[0].Push(batch, Gradients(), made->table.get());
    }
    OARLOCK_CHECK(made->table->Stats().rows == kTableRows);
    return made;
  }();
  return *filled;
}

Figures Pull(Distribution distribution, int num_threads) {
  const SparseTable& table = *Filled().table;
  static std::array<std::vector<float>, kMaxThreads> values = {
      std::vector<float>(kBatchKeys * kDim),
      std::vector<float>(kBatchKeys * kDim)};
  for (int t = 0; t < num_threads; ++t) TrafficOf(distribution, t);
  const double seconds = RunThreads(num_threads, [&](int t) {
    for (const GroupedKeys& batch : TrafficOf(distribution, t).all) {
      OARLOCK_CHECK(
          table.Pull(batch.groups, batch.keys.data(), values[t].data(), nullptr)
              .ok());
    }
  });
  return {{"rows_per_second",
           num_threads * static_cast<double>(kBatches * kBatchKeys) / seconds}};
}

Figures Adagrad(Distribution distribution, int num_threads) {
  FilledTable& filled = Filled();
  double updated = 0;
  for (int t = 0; t < num_threads; ++t) {
    for (const GroupedKeys& batch : TrafficOf(distribution, t).distinct) {
      updated += static_cast<double>(batch.keys.size());
    }
  }
  const double seconds = RunThreads(num_threads, [&](int t) {
    for (const GroupedKeys& batch : TrafficOf(distribution, t).distinct) {
      filled.pushers[t].Push(batch, Gradients(), filled.table.get());
    }
  });
  return {{"rows_per_second", updated / seconds}};
}

// All keys into one empty table, each thread its share.
Figures Insert(int num_threads) {
  static std::array<std::vector<std::vector<GroupedKeys>>, kMaxThreads + 1>
      shares_of;
  auto& shares = shares_of[num_threads];
  const uint64_t share = kTableRows / num_threads;
  while (shares.size() < static_cast<size_t>(num_threads)) {
    const uint64_t begin = shares.size() * share;
    shares.push_back(AllKeys(begin, begin + share));
  }
  const std::unique_ptr<SparseTable> table = EmptyTable();
  std::vector<double> longest(num_threads), longest_cpu(num_threads);
  const double seconds = RunThreads(num_threads, [&](int t) {
    Pusher pusher(t);
    for (const GroupedKeys& batch : shares[t]) {
      const double start = Now(), cpu = ThreadCpu();
      pusher.Push(batch, Gradients(), table.get());
      longest[t] = std::max(longest[t], Now() - start);
      longest_cpu[t] = std::max(longest_cpu[t], ThreadCpu() - cpu);
    }
  });
  OARLOCK_CHECK(table->Stats().rows == share * num_threads);
  return {{"rows_per_second_per_thread", static_cast<double>(share) / seconds},
          {"longest_call_ms",
           *std::max_element(longest.begin(), longest.end()) * 1e3},
          {"longest_call_cpu_ms",
           *std::max_element(longest_cpu.begin(), longest_cpu.end()) * 1e3}};
}

Figures MemoryPerKey() {
  const oarlock::sparse_table::SparseTableStats stats = Filled().table->Stats();
  return {{"bytes_per_row",
           static_cast<double>(stats.bytes) / static_cast<double>(stats.rows)},
          {"payload_bytes", 2 * kDim * sizeof(float)}};
}

}  // namespace
}  // namespace oarlock_bench

int main(int argc, char** argv) {
  using namespace oarlock_bench;  // NOLINT: main is a list of measurements
  oarlock::KeepFreedMemory();
  Repetitions repetitions;
  for (int threads = 1; threads <= kMaxThreads; ++threads) {
    for (const Distribution distribution :
         {Distribution::kUniform, Distribution::kZipf}) {
      const std::string suffix =
          std::string(distribution == Distribution::kZipf ? " zipf "
                                                          : " uniform ") +
          std::to_string(threads);
      repetitions.Add("pull" + suffix,
                      [=] { return Pull(distribution, threads); });
      repetitions.Add("adagrad" + suffix,
                      [=] { return Adagrad(distribution, threads); });
    }
    repetitions.Add("insert " + std::to_string(threads),
                    [=] { return Insert(threads); });
  }
  repetitions.Add("memory", MemoryPerKey);
  return repetitions.Run(argc, argv);
}
