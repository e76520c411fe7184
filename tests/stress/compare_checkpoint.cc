#include "tests/stress/compare_checkpoint.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/mix.h"
#include "base/status_macros.h"
#include "checkpoint/checkpoint_rows.h"
#include "checkpoint/manifest.h"
#include "sparse_table/rows/packed_rows.h"
#include "storage/file_system.h"
#include "tests/stress/oracle_tables.h"
#include "tests/stress/table_model.h"

namespace oarlock {
namespace {

constexpr int kThreads = 2;
constexpr size_t kMaxDifferences = 10;

// A row and the thread that it belongs to.
struct OwnedRow {
  const SparseModel* model;
  const ModelRow* row;
};

float FloatAt(const std::byte* bytes, size_t index) {
  float x;
  std::memcpy(&x, bytes + index * sizeof(float), sizeof(x));
  return x;
}

class Comparison {
 public:
  Comparison(const checkpoint::OpenCheckpoint& open,
             absl::Span<const OracleThread> oracle_threads)
      : open_(open), oracle_threads_(oracle_threads) {
    result_.min_pushes = ~uint64_t{0};
  }

  absl::StatusOr<ComparedCheckpoint> Run(
      absl::Span<const v1::TableConfig> tables) {
    const v1::CheckpointManifest& manifest = open_.loaded.manifest;
    for (const v1::TableConfig& table : tables) {
      const auto& saved = manifest.tables();
      const auto found = std::find_if(
          saved.begin(), saved.end(),
          [&](const v1::TableConfig& c) { return c.id() == table.id(); });
      if (found == saved.end()) {
        Say(absl::StrCat("table '", table.name(), "' is not there"));
        continue;
      }
      const size_t place = found - saved.begin();
      OARLOCK_RETURN_IF_ERROR(table.has_sparse() ? CompareRows(table, place)
                                                 : CompareBlocks(table, place));
    }
    return std::move(result_);
  }

 private:
  void Say(std::string difference) {
    if (result_.differences.size() < kMaxDifferences) {
      result_.differences.push_back(std::move(difference));
    }
  }

  // The model's rows, by partition.
  std::vector<std::map<Key, OwnedRow>> Wanted(TableId table,
                                              int partition_bits) const {
    std::vector<std::map<Key, OwnedRow>> wanted(size_t{1} << partition_bits);
    for (const OracleThread& thread : oracle_threads_) {
      const SparseModel& model = thread.rows().at(table);
      for (const auto& [key, row] : model.rows()) {
        const uint32_t partition =
            PartitionOfMix(Mix(key), partition_bits).value();
        wanted[partition].emplace(key, OwnedRow{&model, &row});
      }
    }
    return wanted;
  }

  absl::Status CompareRows(const v1::TableConfig& table, size_t place) {
    const TableId id(table.id());
    OARLOCK_ASSIGN_OR_RETURN(
        const sparse_table::PackedRows format,
        checkpoint::PackedRowsOf(open_.loaded.manifest, place));
    const uint32_t num_partitions = open_.loaded.manifest.num_partitions();
    const std::vector<std::map<Key, OwnedRow>> wanted =
        Wanted(id, std::countr_zero(num_partitions));
    for (uint32_t p = 0; p < num_partitions; ++p) {
      const std::string where =
          absl::StrCat("table '", table.name(), "' partition ", p);
      OARLOCK_ASSIGN_OR_RETURN(
          const checkpoint::PartitionRows saved,
          checkpoint::PartitionRows::Read(open_, place, PartitionIndex(p)));
      uint64_t num_pushes = 0;
      for (const OracleThread& thread : oracle_threads_) {
        num_pushes += thread.rows().at(id).num_pushes(PartitionIndex(p));
      }
      result_.min_pushes = std::min(result_.min_pushes, num_pushes);
      if (saved.state().version() != num_pushes) {
        Say(absl::StrCat(where, " has applied ", saved.state().version(),
                         " pushes; ", num_pushes, " were acknowledged"));
      }
      for (const auto& [key, packed] : saved.rows()) {
        if (wanted[p].contains(key)) continue;
        Say(absl::StrCat(where, " has a row that nobody pushed to, key ",
                         static_cast<uint64_t>(key)));
      }
      for (const auto& [key, row] : wanted[p]) {
        const std::string name =
            absl::StrCat(where, " key ", static_cast<uint64_t>(key));
        const auto found = saved.rows().find(key);
        if (found == saved.rows().end()) {
          Say(absl::StrCat(name, " is not there"));
          continue;
        }
        CompareRow(table, format, name, key, found->second, row);
      }
    }
    return absl::OkStatus();
  }

  void CompareRow(const v1::TableConfig& table,
                  const sparse_table::PackedRows& format,
                  const std::string& name, Key key, const std::byte* packed,
                  const OwnedRow& wanted) {
    ++result_.rows;
    result_.extended_rows += wanted.row->extended;
    const sparse_table::RowHeader header =
        sparse_table::PackedRows::HeaderOf(packed);
    if (header.extended() != wanted.row->extended) {
      Say(absl::StrCat(name, header.extended() ? " has" : " lacks",
                       " an extended part"));
    }
    if (IsOrderedByPartition(table) &&
        header.version() != wanted.row->version) {
      Say(absl::StrCat(name, " was changed by push ", header.version(),
                       " of the partition; the last that named it was ",
                       wanted.row->version));
    }
    const std::vector<std::byte> bytes = wanted.model->Pack(key, *wanted.row);
    if (bytes.size() + sparse_table::PackedRows::kKeyOffset !=
        format.row_bytes()) {
      return Say(absl::StrCat(name, " has ", format.row_bytes(),
                              " bytes, the model's row other"));
    }
    CompareFloats(absl::StrCat(name, " (show and click, values, state)"),
                  packed + sparse_table::PackedRows::kHeaderBytes,
                  bytes.data() + sizeof(Key),
                  (bytes.size() - sizeof(Key)) / sizeof(float));
  }

  absl::Status CompareBlocks(const v1::TableConfig& table, size_t place) {
    for (const OracleThread& thread : oracle_threads_) {
      const auto model = thread.dense().find(TableId(table.id()));
      if (model == thread.dense().end()) continue;
      for (uint32_t i = 0; i < model->second.blocks().size(); ++i) {
        const DenseModel::Block& wanted = model->second.blocks()[i];
        OARLOCK_ASSIGN_OR_RETURN(
            const checkpoint::DenseBlock saved,
            checkpoint::ReadDenseBlock(open_, place, BlockIndex(i)));
        const std::string name =
            absl::StrCat("table '", table.name(), "' block ", i);
        ++result_.blocks;
        result_.min_pushes = std::min(result_.min_pushes, wanted.steps);
        if (saved.state.steps() != wanted.steps) {
          Say(absl::StrCat(name, " has counted ", saved.state.steps(),
                           " steps; ", wanted.steps, " were acknowledged"));
        }
        std::vector<float> floats = wanted.values;
        floats.insert(floats.end(), wanted.state.begin(), wanted.state.end());
        if (saved.floats.size() != floats.size() * sizeof(float)) {
          Say(absl::StrCat(name, " has ", saved.floats.size(), " bytes, not ",
                           floats.size() * sizeof(float)));
          continue;
        }
        CompareFloats(absl::StrCat(name, " (values, state)"),
                      reinterpret_cast<const std::byte*>(saved.floats.data()),
                      reinterpret_cast<const std::byte*>(floats.data()),
                      floats.size());
      }
    }
    return absl::OkStatus();
  }

  void CompareFloats(const std::string& name, const std::byte* got,
                     const std::byte* wanted, size_t n) {
    for (size_t i = 0; i < n; ++i) {
      if (std::memcmp(got + i * sizeof(float), wanted + i * sizeof(float),
                      sizeof(float)) == 0) {
        continue;
      }
      return Say(absl::StrFormat("%s float %d is %.9g, the model has %.9g",
                                 name, i, FloatAt(got, i), FloatAt(wanted, i)));
    }
  }

  const checkpoint::OpenCheckpoint& open_;
  const absl::Span<const OracleThread> oracle_threads_;
  ComparedCheckpoint result_;
};

}  // namespace

absl::StatusOr<ComparedCheckpoint> CompareCheckpoint(
    const std::string& directory, absl::Span<const v1::TableConfig> tables,
    absl::Span<const OracleThread> oracle_threads) {
  OARLOCK_ASSIGN_OR_RETURN(
      checkpoint::LoadedCheckpoint loaded,
      checkpoint::LoadCheckpoint(storage::FileSystem::Real(), directory));
  OARLOCK_ASSIGN_OR_RETURN(
      const checkpoint::OpenCheckpoint open,
      checkpoint::VerifyAndOpen(storage::FileSystem::Real(), std::move(loaded),
                                kThreads));
  return Comparison(open, oracle_threads).Run(tables);
}

}  // namespace oarlock
