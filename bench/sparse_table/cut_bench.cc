// Cuts of a table of 10M rows in one process, nothing written to disk: how long
// a freeze takes, how fast rows are handed to a sink that only copies them, all
// or 1 % of them, how fast they are brought into an empty table, and what
// pushes lose meanwhile.
//
//   cut_bench [--rows 10000000] [NAME...]

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/check.h"
#include "base/process/malloc.h"
#include "base/push_stamp.h"
#include "base/types.h"
#include "bench/common/repetitions.h"
#include "bench/common/workload.h"
#include "bench/sparse_table/bench_table.h"
#include "client/key_batch.h"
#include "sparse_table/cut/cut_sink.h"
#include "sparse_table/sparse_table.h"

namespace oarlock_bench {
namespace {

using oarlock::Key;
using oarlock::PartitionIndex;
using oarlock::client::KeyBatch;
using oarlock::sparse_table::CutSink;
using oarlock::sparse_table::SavedPartition;
using oarlock::sparse_table::SaveKind;
using oarlock::sparse_table::SparseTable;

constexpr uint32_t kPartitions = 1 << kPartitionBits;
constexpr int kThreads = 2;
constexpr size_t kBatches = 40;

uint64_t num_rows = kTableRows;  // NOLINT: set once by main

KeyBatch Grouped(const std::vector<uint32_t>& rows) {
  std::vector<Key> keys;
  for (const uint64_t key : KeysOf(rows)) keys.push_back(Key{key});
  KeyBatch batch;
  batch.Build(keys, kPartitionBits);
  return batch;
}

void Push(const KeyBatch& batch, SparseTable& table) {
  static const std::vector<float> gradients = SomeGradients();
  static std::atomic<uint64_t> last_sequence{0};
  const oarlock::PushStamp stamp = {oarlock::WorkerIndex(0),
                                    oarlock::Generation(1),
                                    oarlock::Sequence(++last_sequence)};
  oarlock::sparse_table::SparsePush push;
  push.groups = batch.groups();
  push.keys = batch.keys().data();
  push.gradients = gradients.data();
  push.stamps = {&stamp, 1};
  OARLOCK_CHECK(table.Push(push).ok());
}

SparseTable& Filled() {
  static SparseTable* const filled = [] {
    SparseTable* const table = EmptyTable().release();
    for (uint64_t first = 0; first < num_rows; first += kBatchKeys) {
      std::vector<uint32_t> rows;
      for (uint64_t r = first; r < std::min(num_rows, first + kBatchKeys);
           ++r) {
        rows.push_back(static_cast<uint32_t>(r));
      }
      Push(Grouped(rows), *table);
    }
    OARLOCK_CHECK(table->Stats().rows == num_rows);
    return table;
  }();
  return *filled;
}

const std::vector<KeyBatch>& UniformBatches(int stream) {
  static std::array<std::vector<KeyBatch>, 2> of_stream;
  std::vector<KeyBatch>& batches = of_stream[stream];
  if (batches.empty()) {
    for (const auto& batch :
         MakeBatches(Distribution::kUniform, kBatches, num_rows, stream)) {
      batches.push_back(Grouped(batch));
    }
  }
  return batches;
}

// Rows that a second of this thread's time updates, with caches as pushes of
// other rows leave them.
double PushedPerSecond(SparseTable& table) {
  for (const KeyBatch& batch : UniformBatches(0)) Push(batch, table);
  double updated = 0;
  const double start = ThreadCpu();
  for (const KeyBatch& batch : UniformBatches(1)) {
    Push(batch, table);
    updated += static_cast<double>(batch.keys().size());
  }
  return updated / (ThreadCpu() - start);
}

// Copies records into a buffer of its own, as a writer of blocks would.
class CopyingSink final : public CutSink {
 public:
  absl::Status Rows(absl::Span<const std::byte> packed, size_t) override {
    std::memcpy(buffer_.data(), packed.data(), packed.size());
    bytes += static_cast<double>(packed.size());
    const double now = Now();
    if (last_ > 0) between.push_back(now - last_);
    last_ = now;
    return absl::OkStatus();
  }
  absl::Status Erased(absl::Span<const Key>) override {
    return absl::OkStatus();
  }

  double bytes = 0;
  // Seconds between two records: beside other things what the lock is held for.
  std::vector<double> between;

 private:
  double last_ = 0;
  std::vector<std::byte> buffer_ = std::vector<std::byte>(kRecordBytes);
};

// Calls work(partition) for all of them, in `num_threads` threads.
template <typename Work>
double ForEachPartition(int num_threads, Work work) {
  std::atomic<uint32_t> next{0};
  return RunThreads(num_threads, [&](int thread) {
    for (uint32_t p; (p = next++) < kPartitions;) {
      work(thread, PartitionIndex(p));
    }
  });
}

Figures SaveAll(SparseTable& table, int num_threads) {
  std::vector<CopyingSink> sinks(num_threads);
  const double cpu_start = ProcessCpu();
  const double seconds =
      ForEachPartition(num_threads, [&](int thread, PartitionIndex partition) {
        OARLOCK_CHECK(
            table.cuts().SavePartition(partition, sinks[thread]).ok());
      });
  const double cpu_seconds = ProcessCpu() - cpu_start;
  double bytes = 0;
  std::vector<double> between;
  for (const CopyingSink& sink : sinks) {
    bytes += sink.bytes;
    between.insert(between.end(), sink.between.begin(), sink.between.end());
  }
  return {{"gigabytes_per_second", bytes / seconds * 1e-9},
          {"seconds", seconds},
          {"cpu_seconds", cpu_seconds},
          {"between_records_us", Median(between) * 1e6}};
}

Figures Freeze(SaveKind kind) {
  SparseTable& table = Filled();
  const double start = Now();
  table.cuts().Freeze(kind);
  const double seconds = Now() - start;
  table.cuts().Thaw(false);
  return {{"ms", seconds * 1e3}};
}

Figures SaveFull(int num_threads) {
  SparseTable& table = Filled();
  table.cuts().Freeze(SaveKind::kFull);
  const Figures figures = SaveAll(table, num_threads);
  table.cuts().Thaw(true);
  return figures;
}

// What 1 % of the rows, drawn at random, cost.
Figures SaveChanges(int num_threads) {
  SparseTable& table = Filled();
  SaveFull(kThreads);
  uint64_t num_changed = 0;
  for (const KeyBatch& batch : UniformBatches(0)) {
    if (num_changed >= num_rows / 100) break;
    Push(batch, table);
    num_changed += batch.keys().size();
  }
  table.cuts().Freeze(SaveKind::kChanges);
  const Figures figures = SaveAll(table, num_threads);
  table.cuts().Thaw(true);
  return figures;
}

// Pushes before any cut; after one, first of rows that nearly all change for
// the first time since, then of the same rows again; and, all of them for the
// first time, while a cut waits to be saved.
Figures Pushes() {
  SparseTable& table = Filled();
  const double untracked = PushedPerSecond(table);
  SaveFull(kThreads);
  const double first_changes = PushedPerSecond(table);
  const double later_changes = PushedPerSecond(table);
  table.cuts().Freeze(SaveKind::kFull);
  const double frozen = PushedPerSecond(table);
  table.cuts().Thaw(false);
  return {{"rows_per_second", untracked},
          {"first_changes", first_changes / untracked},
          {"later_changes", later_changes / untracked},
          {"frozen", frozen / untracked}};
}

class KeepingSink final : public CutSink {
 public:
  absl::Status Rows(absl::Span<const std::byte> packed, size_t) override {
    records.emplace_back(packed.begin(), packed.end());
    return absl::OkStatus();
  }
  absl::Status Erased(absl::Span<const Key>) override {
    return absl::OkStatus();
  }
  std::vector<std::vector<std::byte>> records;
};

Figures Restore(int num_threads) {
  SparseTable& table = Filled();
  table.cuts().Freeze(SaveKind::kFull);
  std::vector<KeepingSink> sinks(kPartitions);
  std::vector<SavedPartition> saved(kPartitions);
  ForEachPartition(kThreads, [&](int, PartitionIndex index) {
    absl::StatusOr<SavedPartition> one =
        table.cuts().SavePartition(index, sinks[index.value()]);
    OARLOCK_CHECK(one.ok());
    saved[index.value()] = *std::move(one);
  });
  table.cuts().Thaw(true);
  const std::unique_ptr<SparseTable> restored = EmptyTable();
  const double seconds =
      ForEachPartition(num_threads, [&](int, PartitionIndex index) {
        for (const auto& record : sinks[index.value()].records) {
          OARLOCK_CHECK(restored->restore().Rows(index, record).ok());
        }
        OARLOCK_CHECK(
            restored->restore().Finish(index, saved[index.value()].state).ok());
      });
  const double bytes = static_cast<double>(num_rows * table.cuts().row_bytes());
  return {{"gigabytes_per_second", bytes / seconds * 1e-9},
          {"seconds", seconds}};
}

}  // namespace
}  // namespace oarlock_bench

int main(int argc, char** argv) {
  using namespace oarlock_bench;  // NOLINT: main is a list of measurements
  oarlock::KeepFreedMemory();
  num_rows =
      std::stoull(FlagValue(argc, argv, "rows", std::to_string(kTableRows)));
  Repetitions repetitions;
  repetitions.Add("freeze", [] { return Freeze(SaveKind::kFull); });
  for (int threads = 1; threads <= kThreads; ++threads) {
    const std::string suffix = " " + std::to_string(threads);
    repetitions.Add("save" + suffix, [=] { return SaveFull(threads); });
    repetitions.Add("save 1 %" + suffix, [=] { return SaveChanges(threads); });
    repetitions.Add("restore" + suffix, [=] { return Restore(threads); });
  }
  repetitions.Add("pushes", Pushes);
  return repetitions.Run(argc, argv);
}
