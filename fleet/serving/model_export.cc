#include "fleet/serving/model_export.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/status_macros.h"
#include "base/types.h"
#include "checkpoint/checkpoint_rows.h"
#include "checkpoint/row_sorter.h"
#include "fleet/role/job_description.h"
#include "fleet/serving/exported_parameters.h"
#include "fleet/serving/model_folder.h"
#include "fleet/serving/model_json.h"
#include "fleet/serving/trained_model.h"
#include "models/statistics_tables.h"
#include "nn/network.h"
#include "worker/config/data_options_of.h"
#include "worker/trainer.h"

namespace oarlock {
namespace {

template <typename T>
absl::string_view BytesOf(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

size_t PlaceOf(const v1::CheckpointManifest& manifest, TableId table) {
  size_t place = 0;
  while (manifest.tables(static_cast<int>(place)).id() != table.value()) {
    ++place;
  }
  return place;
}

class Exporter {
 public:
  Exporter(const checkpoint::OpenCheckpoint& open,
           const ModelExportOptions& options, ModelFolder* folder)
      : open_(open), options_(options), folder_(folder) {}

  // The rows of the manifest's table at `place`, ascending by key.
  absl::Status WriteRows(size_t place, ExportedTable* exported) {
    ExportedTable& table = *exported;
    OARLOCK_ASSIGN_OR_RETURN(const sparse_table::PackedRows format,
                             checkpoint::PackedRowsOf(manifest(), place));
    checkpoint::RowSorterOptions sort;
    sort.files = options_.files;
    sort.folder = absl::StrCat(folder_->temporary(), "/unsorted");
    sort.row_bytes = format.row_bytes();
    sort.memory_bytes = options_.memory_bytes;
    checkpoint::RowSorter sorter(sort);
    for (uint32_t p = 0; p < manifest().num_partitions(); ++p) {
      OARLOCK_ASSIGN_OR_RETURN(
          const checkpoint::PartitionRows rows,
          checkpoint::PartitionRows::Read(open_, place, PartitionIndex(p)));
      for (const auto& [key, packed] : rows.rows()) {
        // All of them in one order, whatever partition they are of.
        OARLOCK_RETURN_IF_ERROR(
            sorter.Add(PartitionIndex(0), /*origin=*/0, packed));
      }
    }
    OARLOCK_ASSIGN_OR_RETURN(const std::unique_ptr<SummedFile> keys,
                             folder_->CreateFile(table.keys_file));
    OARLOCK_ASSIGN_OR_RETURN(const std::unique_ptr<SummedFile> values,
                             folder_->CreateFile(table.values_file));
    const v1::SparseTableConfig& sparse = table.config.sparse();
    const size_t values_offset = sparse_table::PackedRows::kHeaderBytes +
                                 (sparse.accessor() == v1::CTR ? 8 : 0);
    const size_t values_bytes = sparse.dim() * sizeof(float);
    checkpoint::SortedRow row;
    for (;;) {
      OARLOCK_ASSIGN_OR_RETURN(const bool more, sorter.Next(&row));
      if (!more) break;
      OARLOCK_RETURN_IF_ERROR(
          keys->Append(BytesOf(sparse_table::PackedRows::KeyOf(row.packed))));
      OARLOCK_RETURN_IF_ERROR(values->Append(
          {reinterpret_cast<const char*>(row.packed) + values_offset,
           values_bytes}));
      ++table.num_rows;
    }
    OARLOCK_RETURN_IF_ERROR(keys->Close());
    OARLOCK_RETURN_IF_ERROR(values->Close());
    return options_.files->RemoveTree(sort.folder);
  }

  // All values of the dense table, if there is one, then `moments`.
  absl::Status WriteDense(TableId table, absl::Span<const float> moments) {
    OARLOCK_ASSIGN_OR_RETURN(const std::unique_ptr<SummedFile> file,
                             folder_->CreateFile("dense.bin"));
    if (table != TableId(0)) {
      OARLOCK_RETURN_IF_ERROR(
          AppendValues(PlaceOf(manifest(), table), file.get()));
    }
    OARLOCK_RETURN_IF_ERROR(
        file->Append({reinterpret_cast<const char*>(moments.data()),
                      moments.size() * sizeof(float)}));
    return file->Close();
  }

 private:
  const v1::CheckpointManifest& manifest() const {
    return open_.loaded.manifest;
  }

  // Those of the manifest's dense table at `place`.
  absl::Status AppendValues(size_t place, SummedFile* file) {
    const v1::DenseTableConfig& dense =
        manifest().tables(static_cast<int>(place)).dense();
    uint64_t left = dense.size();
    for (uint32_t b = 0; left > 0; ++b) {
      OARLOCK_ASSIGN_OR_RETURN(
          const checkpoint::DenseBlock block,
          checkpoint::ReadDenseBlock(open_, place, BlockIndex(b)));
      const uint64_t floats = std::min<uint64_t>(left, dense.block_size());
      // Values stand before the optimizer's state.
      OARLOCK_RETURN_IF_ERROR(file->Append(
          absl::string_view(block.floats).substr(0, floats * sizeof(float))));
      left -= floats;
    }
    return absl::OkStatus();
  }

  const checkpoint::OpenCheckpoint& open_;
  const ModelExportOptions& options_;
  ModelFolder* const folder_;
};

}  // namespace

absl::StatusOr<ModelExportReport> ExportModel(
    const checkpoint::OpenCheckpoint& open, const ModelExportOptions& options) {
  const v1::CheckpointManifest& manifest = open.loaded.manifest;
  v1::JobConfig job = options.job;
  OARLOCK_RETURN_IF_ERROR(TakeDescription(manifest.description(), &job));
  OARLOCK_RETURN_IF_ERROR(
      CheckIsDescribed(manifest.description(), job, open.loaded.folder));
  OARLOCK_ASSIGN_OR_RETURN(const std::unique_ptr<models::Model> model,
                           worker::ModelOf(job));
  OARLOCK_ASSIGN_OR_RETURN(
      const ModelTables found,
      FindModelTables(model->spec(),
                      {manifest.tables().begin(), manifest.tables().end()},
                      open.loaded.folder));
  ExportedModel exported;
  exported.model = model.get();
  exported.data = worker::DataOptionsOf(job);
  if (exported.data.format == data::DataOptions::Format::kColumns) {
    return absl::FailedPreconditionError(
        "the model was trained on columns (--features), and the "
        "format of exported models has only lines of text");
  }
  exported.job_id = manifest.job_id();
  exported.cut = manifest.cut();
  std::vector<float> statistics;
  std::vector<models::StatisticsTable> learned;
  if (model->network() != nullptr) {
    statistics = model->network()->InitialStatistics();
    learned = models::StatisticsTablesOf(*model->network());
  }
  size_t num_learned = 0;
  for (size_t i = 0; i < found.sparse.size(); ++i) {
    const size_t place = PlaceOf(manifest, found.sparse[i]);
    if (model->spec().sparse_inputs[i].is_statistics()) {
      OARLOCK_RETURN_IF_ERROR(AddStatistics(open, place, learned[num_learned++],
                                            absl::MakeSpan(statistics)));
      continue;
    }
    ExportedTable& rows = exported.tables.emplace_back();
    rows.config = manifest.tables(static_cast<int>(place));
    rows.keys_file = absl::StrCat(rows.config.name(), ".keys.bin");
    rows.values_file = absl::StrCat(rows.config.name(), ".values.bin");
  }
  if (model->network() != nullptr) {
    exported.parameters = ExportedParametersOf(*model->network(), statistics);
  }
  ModelExportReport report;
  report.model = model->spec().name;
  report.num_parameters =
      model->spec().num_parameters + exported.parameters.moments.size();
  // Whether it can be said at all; before the rows, which take time.
  OARLOCK_RETURN_IF_ERROR(ModelJson(exported).status());
  OARLOCK_ASSIGN_OR_RETURN(const std::unique_ptr<ModelFolder> folder,
                           ModelFolder::Create(options.files, options.folder));
  Exporter exporter(open, options, folder.get());
  for (ExportedTable& table : exported.tables) {
    OARLOCK_RETURN_IF_ERROR(exporter.WriteRows(
        PlaceOf(manifest, TableId(table.config.id())), &table));
    report.num_rows += table.num_rows;
  }
  OARLOCK_RETURN_IF_ERROR(
      exporter.WriteDense(found.dense, exported.parameters.moments));
  OARLOCK_ASSIGN_OR_RETURN(const nlohmann::ordered_json json,
                           ModelJson(exported));
  using Handler = nlohmann::ordered_json::error_handler_t;
  OARLOCK_RETURN_IF_ERROR(folder->WriteFile(
      "model.json",
      json.dump(1, ' ', /*ensure_ascii=*/false, Handler::replace) + "\n"));
  OARLOCK_RETURN_IF_ERROR(folder->Publish());
  report.bytes = folder->bytes();
  return report;
}

}  // namespace oarlock
