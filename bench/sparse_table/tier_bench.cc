// A table ten times its memory budget: pulls and pushes of whole batches, rows
// and bytes that go to disk and back for each row that is touched, against the
// same table in memory, and against tiers whose unit is not the row but the
// chunk of 64 KiB.
//
//   tier_bench [--directory /tmp/oarlock_tier_bench] [NAME...]
//
// Bytes are what the process asks the system for (/proc/self/io: rchar, wchar),
// background work of RocksDB included, whether or not the page cache has them.

#include <rocksdb/db.h>
#include <rocksdb/options.h>
#include <rocksdb/table.h>
#include <rocksdb/write_batch.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/check.h"
#include "base/process/malloc.h"
#include "base/push_stamp.h"
#include "base/types.h"
#include "bench/common/repetitions.h"
#include "bench/common/workload.h"
#include "client/key_batch.h"
#include "proto/v1/table.pb.h"
#include "sparse_table/sparse_table.h"

namespace oarlock_bench {
namespace {

using oarlock::Key;
using oarlock::client::KeyBatch;
using oarlock::sparse_table::SparseTable;

constexpr int kPartitionBits = 7;
constexpr uint64_t kRows = 2'000'000;
constexpr uint64_t kMemoryShare = 10;
constexpr size_t kRowBytes = 144;
constexpr size_t kBatches = 20;

std::string directory;  // NOLINT: set once by main

// Bytes that the process has read and written.
struct Traffic {
  double read = 0;
  double written = 0;
};
Traffic TrafficNow() {
  std::ifstream file("/proc/self/io");
  Traffic traffic;
  for (std::string name; file >> name;) {
    double value = 0;
    file >> value;
    if (name == "rchar:") traffic.read = value;
    if (name == "wchar:") traffic.written = value;
  }
  return traffic;
}

// Runs work(), which touches so many rows.
template <typename Work>
Figures Measure(double num_rows, Work work) {
  const Traffic before = TrafficNow();
  const double start = Now();
  work();
  const double seconds = Now() - start;
  const Traffic after = TrafficNow();
  return {
      {"rows_per_second", num_rows / seconds},
      {"bytes_read_per_row", (after.read - before.read) / num_rows},
      {"bytes_written_per_row", (after.written - before.written) / num_rows}};
}

// The distinct rows of each batch. Every repetition has its own, since the rows
// of one would fit into the memory of the next.
std::vector<std::vector<uint32_t>> Batches(Distribution distribution,
                                           size_t num_batches,
                                           uint64_t repetition) {
  std::vector<std::vector<uint32_t>> distinct;
  for (const auto& batch :
       MakeBatches(distribution, num_batches, kRows, 100 + repetition)) {
    distinct.push_back(Distinct(batch));
  }
  return distinct;
}

const float* Gradients() {
  static const std::vector<float> gradients = SomeGradients();
  return gradients.data();
}

// The product, with a budget or without.
class ProductTable {
 public:
  explicit ProductTable(bool with_budget) {
    oarlock::v1::TableConfig config;
    config.set_id(1);
    config.set_name("bench");
    config.mutable_optimizer()->set_learning_rate(kLearningRate);
    config.mutable_optimizer()->mutable_adagrad();
    config.mutable_sparse()->set_dim(kDim);
    config.mutable_sparse()->mutable_initializer()->set_uniform_range(0.01f);
    oarlock::sparse_table::SparseTableOptions options;
    if (with_budget) {
      config.mutable_sparse()->set_memory_budget_bytes(kRows * kRowBytes /
                                                       kMemoryShare);
      options.tier_directory = directory + "/product";
      options.partition_memory_rows = (kRows >> kPartitionBits) / kMemoryShare;
    }
    absl::StatusOr<std::unique_ptr<SparseTable>> table =
        SparseTable::Create(config, kPartitionBits, options);
    OARLOCK_CHECK(table.ok());
    table_ = *std::move(table);
    for (uint64_t first = 0; first < kRows; first += kBatchKeys) {
      std::vector<uint32_t> rows;
      for (uint64_t r = first; r < std::min(kRows, first + kBatchKeys); ++r) {
        rows.push_back(static_cast<uint32_t>(r));
      }
      Push(Grouped(rows));
    }
    OARLOCK_CHECK(table_->Stats().rows == kRows);
  }

  Figures Train(Distribution distribution) {
    const std::vector<std::vector<uint32_t>> batches =
        Batches(distribution, kBatches, repetition_++);
    std::vector<KeyBatch> grouped;
    double num_rows = 0;
    for (const std::vector<uint32_t>& batch : batches) {
      grouped.push_back(Grouped(batch));
      num_rows += static_cast<double>(batch.size());
    }
    std::vector<float> values(kBatchKeys * kDim);
    const uint64_t promoted_before = table_->Stats().promoted_rows;
    Figures figures = Measure(num_rows, [&] {
      for (const KeyBatch& batch : grouped) {
        OARLOCK_CHECK(table_
                          ->Pull(batch.groups(), batch.keys().data(),
                                 values.data(), nullptr)
                          .ok());
        Push(batch);
      }
    });
    const uint64_t promoted = table_->Stats().promoted_rows - promoted_before;
    figures.emplace_back("rows_promoted_per_row",
                         static_cast<double>(promoted) / num_rows);
    return figures;
  }

  // Keys that have never been pushed.
  Figures PullUnknown() {
    std::vector<KeyBatch> grouped;
    for (uint64_t first = kRows; first < kRows + kBatches * kBatchKeys;
         first += kBatchKeys) {
      std::vector<uint32_t> rows;
      for (uint64_t r = first; r < first + kBatchKeys; ++r) {
        rows.push_back(static_cast<uint32_t>(r));
      }
      grouped.push_back(Grouped(rows));
    }
    std::vector<float> values(kBatchKeys * kDim);
    return Measure(kBatches * kBatchKeys, [&] {
      for (const KeyBatch& batch : grouped) {
        OARLOCK_CHECK(table_
                          ->Pull(batch.groups(), batch.keys().data(),
                                 values.data(), nullptr)
                          .ok());
      }
    });
  }

 private:
  static KeyBatch Grouped(const std::vector<uint32_t>& rows) {
    std::vector<Key> keys;
    for (const uint64_t key : KeysOf(rows)) keys.push_back(Key{key});
    KeyBatch batch;
    batch.Build(keys, kPartitionBits);
    return batch;
  }

  void Push(const KeyBatch& batch) {
    const oarlock::PushStamp stamp = {oarlock::WorkerIndex(0),
                                      oarlock::Generation(1),
                                      oarlock::Sequence(++last_sequence_)};
    oarlock::sparse_table::SparsePush push;
    push.groups = batch.groups();
    push.keys = batch.keys().data();
    push.gradients = Gradients();
    push.stamps = {&stamp, 1};
    OARLOCK_CHECK(table_->Push(push).ok());
  }

  std::unique_ptr<SparseTable> table_;
  uint64_t last_sequence_ = 0;
  uint64_t repetition_ = 0;
};

std::string ChunkDirectory(Distribution distribution) {
  return directory + (distribution == Distribution::kZipf ? "/chunks_zipf"
                                                          : "/chunks_uniform");
}

// The alternative: rows stay in chunks in the order of their creation, whole
// chunks move. No index, no locks, no other work of a table.
class ChunkTable {
 public:
  static constexpr size_t kChunkBytes = 64 << 10;
  static constexpr size_t kRowsPerChunk = kChunkBytes / kRowBytes;
  static constexpr size_t kChunks = (kRows + kRowsPerChunk - 1) / kRowsPerChunk;
  static constexpr size_t kFrames = kChunks / kMemoryShare;
  static constexpr size_t kReadAtOnce = 32;
  // A few will do: they move large parts of the table.
  static constexpr size_t kBatches = 3;

  // Rows are created as traffic of `distribution` first names them.
  explicit ChunkTable(Distribution distribution)
      : cell_of_row_(kRows, kNone),
        frame_of_chunk_(kChunks, kNone),
        frames_(kFrames),
        memory_(kFrames * kChunkBytes) {
    uint32_t num_cells = 0;
    for (const auto& batch : MakeBatches(distribution, 100, kRows, 7)) {
      for (const uint32_t row : batch) {
        if (cell_of_row_[row] == kNone) cell_of_row_[row] = num_cells++;
      }
    }
    for (uint32_t& cell : cell_of_row_) {
      if (cell == kNone) cell = num_cells++;
    }
    rocksdb::Options options;
    options.create_if_missing = true;
    options.compression = rocksdb::kNoCompression;
    options.write_buffer_size = 32 << 20;
    options.max_background_jobs = 2;
    // Values of their own files: merging moves names alone.
    options.enable_blob_files = true;
    options.enable_blob_garbage_collection = true;
    const std::string path = ChunkDirectory(distribution);
    std::filesystem::remove_all(path);
    std::filesystem::create_directories(path);
    rocksdb::DB* db = nullptr;
    OARLOCK_CHECK(rocksdb::DB::Open(options, path, &db).ok());
    db_.reset(db);
    write_.disableWAL = true;
    for (uint32_t chunk = 0; chunk < kChunks; ++chunk) {
      OARLOCK_CHECK(db_->Put(write_, Name(chunk),
                             rocksdb::Slice(memory_.data(), kChunkBytes))
                        .ok());
    }
  }

  Figures Train(Distribution distribution) {
    const std::vector<std::vector<uint32_t>> batches =
        Batches(distribution, kBatches, repetition_++);
    double num_rows = 0;
    for (const auto& batch : batches) {
      num_rows += static_cast<double>(batch.size());
    }
    return Measure(num_rows, [&] {
      for (const std::vector<uint32_t>& batch : batches) {
        Touch(batch, /*push=*/false);
        Touch(batch, /*push=*/true);
      }
    });
  }

 private:
  static constexpr uint32_t kNone = 0xffffffff;
  struct Frame {
    uint32_t chunk = kNone;
    bool recent = false;
    bool dirty = false;
  };

  static std::string Name(uint32_t chunk) {
    return {static_cast<char>(chunk >> 24), static_cast<char>(chunk >> 16),
            static_cast<char>(chunk >> 8), static_cast<char>(chunk)};
  }

  // Chunk by chunk, so that each is brought once.
  void Touch(const std::vector<uint32_t>& rows, bool push) {
    std::vector<uint32_t> cells;
    for (const uint32_t row : rows) cells.push_back(cell_of_row_[row]);
    std::sort(cells.begin(), cells.end());
    std::vector<float> values(kDim);
    for (size_t first = 0; first < cells.size();) {
      // The next chunks that are not here.
      std::vector<uint32_t> missing;
      size_t end = first;
      for (; end < cells.size() && missing.size() < kReadAtOnce; ++end) {
        const uint32_t chunk = cells[end] / kRowsPerChunk;
        if (end > first && cells[end - 1] / kRowsPerChunk == chunk) continue;
        if (frame_of_chunk_[chunk] == kNone) {
          missing.push_back(chunk);
        } else {
          frames_[frame_of_chunk_[chunk]].recent = true;
        }
      }
      Bring(missing);
      for (; first < end; ++first) {
        const uint32_t chunk = cells[first] / kRowsPerChunk;
        if (frame_of_chunk_[chunk] == kNone) Bring({chunk});
        const uint32_t frame = frame_of_chunk_[chunk];
        float* const row = reinterpret_cast<float*>(
            memory_.data() + frame * kChunkBytes +
            cells[first] % kRowsPerChunk * kRowBytes + 16);
        if (push) {
          const float* const gradient = Gradients();
          for (size_t d = 0; d < kDim; ++d) row[d] -= gradient[d];
          frames_[frame].dirty = true;
        } else {
          std::memcpy(values.data(), row, kDim * sizeof(float));
        }
      }
    }
  }

  void Bring(const std::vector<uint32_t>& chunks) {
    const size_t n = chunks.size();
    std::vector<std::string> names;
    for (const uint32_t chunk : chunks) names.push_back(Name(chunk));
    const std::vector<rocksdb::Slice> slices(names.begin(), names.end());
    std::vector<rocksdb::PinnableSlice> values(n);
    std::vector<rocksdb::Status> statuses(n);
    db_->MultiGet(rocksdb::ReadOptions(), db_->DefaultColumnFamily(), n,
                  slices.data(), values.data(), statuses.data());
    for (size_t i = 0; i < n; ++i) {
      OARLOCK_CHECK(statuses[i].ok());
      const uint32_t frame = FreeFrame();
      std::memcpy(memory_.data() + frame * kChunkBytes, values[i].data(),
                  kChunkBytes);
      frames_[frame] = {chunks[i], true, false};
      frame_of_chunk_[chunks[i]] = frame;
    }
  }

  uint32_t FreeFrame() {
    for (;; hand_ = (hand_ + 1) % kFrames) {
      Frame& frame = frames_[hand_];
      if (std::exchange(frame.recent, false)) continue;
      if (frame.chunk != kNone) {
        if (frame.dirty) {
          const rocksdb::Slice bytes(memory_.data() + hand_ * kChunkBytes,
                                     kChunkBytes);
          OARLOCK_CHECK(db_->Put(write_, Name(frame.chunk), bytes).ok());
        }
        frame_of_chunk_[frame.chunk] = kNone;
      }
      return static_cast<uint32_t>(hand_);
    }
  }

  std::vector<uint32_t> cell_of_row_;
  std::vector<uint32_t> frame_of_chunk_;
  std::vector<Frame> frames_;
  std::vector<char> memory_;
  size_t hand_ = 0;
  uint64_t repetition_ = 0;
  std::unique_ptr<rocksdb::DB> db_;
  rocksdb::WriteOptions write_;
};

// Made when it is first needed.
template <typename Table, typename... Args>
Table& Only(std::unique_ptr<Table>* kept, Args... args) {
  if (*kept == nullptr) *kept = std::make_unique<Table>(args...);
  return **kept;
}

}  // namespace
}  // namespace oarlock_bench

int main(int argc, char** argv) {
  using namespace oarlock_bench;  // NOLINT: main is a list of measurements
  oarlock::KeepFreedMemory();
  directory = FlagValue(argc, argv, "directory", "/tmp/oarlock_tier_bench");
  Repetitions repetitions;
  std::unique_ptr<ProductTable> in_memory, with_budget;
  std::unique_ptr<ChunkTable> chunks[2];
  for (const Distribution distribution :
       {Distribution::kUniform, Distribution::kZipf}) {
    const bool zipf = distribution == Distribution::kZipf;
    const std::string suffix = zipf ? " zipf" : " uniform";
    repetitions.Add("memory" + suffix, [&, distribution] {
      return Only(&in_memory, false).Train(distribution);
    });
    repetitions.Add("rows" + suffix, [&, distribution] {
      return Only(&with_budget, true).Train(distribution);
    });
    repetitions.Add("chunks" + suffix, [&, distribution, zipf] {
      return Only(&chunks[zipf], distribution).Train(distribution);
    });
  }
  repetitions.Add("rows, unknown keys",
                  [&] { return Only(&with_budget, true).PullUnknown(); });
  const int result = repetitions.Run(argc, argv);
  with_budget.reset();
  for (auto& table : chunks) table.reset();
  for (const Distribution distribution :
       {Distribution::kUniform, Distribution::kZipf}) {
    std::filesystem::remove_all(ChunkDirectory(distribution));
  }
  return result;
}
