#include "checkpoint/checkpoint_import.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/types.h"
#include "checkpoint/checkpoint_rows.h"
#include "sparse_table/cut/cut_sink.h"
#include "sparse_table/rows/row_layout.h"
#include "sparse_table/rules/row_rules.h"
#include "storage/checkpoint_record.h"

namespace oarlock::checkpoint {
namespace {

// A row's origin: number of its file, then of its line, from 1.
constexpr int kLineBits = 40;

// The newest that any server had.
uint64_t VersionOf(const v1::CheckpointManifest& manifest, uint32_t table) {
  uint64_t version = 0;
  for (const v1::ServerPart& server : manifest.servers()) {
    for (const v1::TablePart& part : server.tables()) {
      if (part.table() == table) {
        version = std::max<uint64_t>(version, part.version());
      }
    }
  }
  return version;
}

}  // namespace

// The records of one table on one server.
class CheckpointImport::PartWriter {
 public:
  PartWriter(uint64_t cut, uint32_t table, storage::RecordWriter* writer,
             v1::TablePart* part)
      : writer_(writer), part_(part) {
    name_.cut = cut;
    name_.table = TableId(table);
  }

  void BeginUnit(uint32_t unit) {
    name_.unit = unit;
    name_.kind = storage::RecordKind::kRows;
    name_.number = 0;
    num_rows_ = 0;
    digest_ = 0;
  }
  // With its stamp.
  absl::Status AddRow(const sparse_table::PackedRows& format,
                      const std::byte* packed) {
    ++num_rows_;
    digest_ += format.Digest(packed);
    bytes_.append(reinterpret_cast<const char*>(packed), format.row_bytes());
    return bytes_.size() < sparse_table::CutSink::kRecordBytes
               ? absl::OkStatus()
               : Flush();
  }
  absl::Status EndPartition(v1::SparsePartitionState state) {
    if (!bytes_.empty()) OARLOCK_RETURN_IF_ERROR(Flush());
    state.set_rows(num_rows_);
    state.set_created_rows(std::max<uint64_t>(state.created_rows(), num_rows_));
    state.set_digest(digest_);
    state.clear_delta_cuts();
    return EndUnit(std::move(state), num_rows_);
  }
  absl::Status AddBlock(DenseBlock block) {
    bytes_ = std::move(block.floats);
    OARLOCK_RETURN_IF_ERROR(Flush());
    return EndUnit(std::move(block.state), 1);
  }

 private:
  absl::Status Flush() {
    OARLOCK_RETURN_IF_ERROR(writer_->Add(name_, bytes_));
    ++name_.number;
    return absl::OkStatus();
  }
  template <typename State>
  absl::Status EndUnit(State state, uint64_t num_rows) {
    state.set_base_cut(name_.cut);
    // Of pushes of workers that this checkpoint does not know.
    state.clear_windows();
    part_->set_rows(part_->rows() + num_rows);
    part_->set_digest(part_->digest() + state.digest());
    name_.kind = storage::RecordKind::kState;
    name_.number = 0;
    bytes_ = state.SerializeAsString();
    return writer_->Add(name_, bytes_);
  }

  storage::RecordWriter* const writer_;
  v1::TablePart* const part_;
  storage::RecordName name_;
  std::string bytes_;
  uint64_t num_rows_ = 0;
  uint64_t digest_ = 0;
};

absl::StatusOr<std::unique_ptr<CheckpointImport>> CheckpointImport::Begin(
    const OpenCheckpoint* like, const CheckpointImportOptions& options,
    storage::FileSystem* files) {
  const v1::CheckpointManifest& manifest = like->loaded.manifest;
  OARLOCK_ASSIGN_OR_RETURN(const size_t place,
                           FindSparseTable(manifest, options.table));
  if (options.num_servers < 1 ||
      options.num_servers > manifest.num_partitions()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a checkpoint for ", options.num_servers,
        " servers is asked for; legal is 1 to its number of partitions, ",
        manifest.num_partitions()));
  }
  OARLOCK_ASSIGN_OR_RETURN(sparse_table::RowRules rules,
                           sparse_table::RowRules::Create(
                               manifest.tables(place),
                               std::bit_width(manifest.num_partitions()) - 1));
  OARLOCK_ASSIGN_OR_RETURN(
      storage::CheckpointDir dir,
      storage::CheckpointDir::Create(files, options.directory));
  const absl::Status current = dir.ReadCurrent().status();
  if (!absl::IsNotFound(current)) {
    OARLOCK_RETURN_IF_ERROR(current);
    return absl::FailedPreconditionError(absl::StrCat(
        options.directory, " has a checkpoint; name a folder that has none"));
  }
  auto import = absl::WrapUnique(new CheckpointImport(
      like, options, place, RowText(std::move(rules)), std::move(dir), files));
  OARLOCK_RETURN_IF_ERROR(import->Start());
  return import;
}

CheckpointImport::CheckpointImport(const OpenCheckpoint* like,
                                   const CheckpointImportOptions& options,
                                   size_t place, RowText text,
                                   storage::CheckpointDir dir,
                                   storage::FileSystem* files)
    : like_(*like),
      options_(options),
      place_(place),
      text_(std::move(text)),
      map_(cluster::PartitionMap::Even(like->loaded.manifest.num_partitions(),
                                       options.num_servers)),
      dir_(std::move(dir)),
      files_(files),
      packed_(text_.format().row_bytes()) {}

absl::Status CheckpointImport::Start() {
  OARLOCK_ASSIGN_OR_RETURN(
      scratch_, storage::ScratchDir::Create(
                    absl::StrCat(options_.directory, "/store/import"), files_));
  RowSorterOptions sorter;
  sorter.files = files_;
  sorter.folder = scratch_->data_path();
  sorter.row_bytes = packed_.size();
  sorter.memory_bytes = options_.memory_bytes;
  sorter_ = std::make_unique<RowSorter>(sorter);
  OARLOCK_ASSIGN_OR_RETURN(const uint64_t largest, dir_.LargestCut());
  cut_ = largest + 1;
  OARLOCK_ASSIGN_OR_RETURN(folder_, dir_.Begin(cut_));
  return absl::OkStatus();
}

CheckpointImport::~CheckpointImport() {
  // What cannot be removed is no checkpoint: CURRENT does not name it.
  if (!committed_ && cut_ != 0) dir_.Abandon(cut_).IgnoreError();
}

void CheckpointImport::BeginFile(const std::string& name) {
  file_names_.push_back(name);
  num_lines_ = 0;
}

std::string CheckpointImport::PlaceOf(uint64_t origin) const {
  return absl::StrCat(file_names_[origin >> kLineBits], ":",
                      origin & ((uint64_t{1} << kLineBits) - 1));
}

absl::Status CheckpointImport::AddLine(absl::string_view line) {
  const uint64_t origin =
      (uint64_t{file_names_.size() - 1} << kLineBits) | ++num_lines_;
  const absl::Status parsed = text_.Parse(line, packed_.data());
  if (!parsed.ok()) {
    return absl::DataLossError(
        absl::StrCat(PlaceOf(origin), ": ", parsed.message()));
  }
  return sorter_->Add(
      map_.PartitionOf(sparse_table::PackedRows::KeyOf(packed_.data())), origin,
      packed_.data());
}

absl::Status CheckpointImport::WriteImported(uint32_t partition,
                                             PartWriter* writer) {
  OARLOCK_ASSIGN_OR_RETURN(
      v1::SparsePartitionState state,
      ReadPartitionState(like_, place_, PartitionIndex(partition)));
  // Rows count their pushes from 1.
  state.set_version(std::max<uint64_t>(state.version(), 1));
  sparse_table::RowHeader stamp;
  stamp.Stamp(state.version(), state.latest_touch());
  const uint64_t stamp_bits = stamp.packed & ~sparse_table::RowHeader::kRecent;
  bool is_first = true;
  Key last{};
  uint64_t last_origin = 0;
  while (has_next_ && next_.partition.value() == partition) {
    const Key key = sparse_table::PackedRows::KeyOf(next_.packed);
    if (!is_first && key == last) {
      return absl::DataLossError(absl::StrCat(
          PlaceOf(next_.origin), ": key ", static_cast<uint64_t>(key),
          " was in ", PlaceOf(last_origin), "; legal is one row for each"));
    }
    is_first = false;
    last = key;
    last_origin = next_.origin;
    std::memcpy(packed_.data(), next_.packed, packed_.size());
    const uint64_t packed =
        sparse_table::PackedRows::HeaderOf(next_.packed).packed | stamp_bits;
    std::memcpy(packed_.data(), &packed, sizeof(packed));
    OARLOCK_RETURN_IF_ERROR(writer->AddRow(text_.format(), packed_.data()));
    ++num_rows_;
    OARLOCK_ASSIGN_OR_RETURN(has_next_, sorter_->Next(&next_));
  }
  return writer->EndPartition(std::move(state));
}

absl::StatusOr<v1::ServerPart> CheckpointImport::WriteServer(uint32_t server) {
  const v1::CheckpointManifest& manifest = like_.loaded.manifest;
  const absl::Time start = options_.clocks.monotonic->Now();
  v1::ServerPart part;
  part.set_server_index(server);
  part.set_directory(ServerFolderName(server));
  storage::CheckpointStoreOptions store_options;
  store_options.directory =
      absl::StrCat(options_.directory, "/store/", part.directory());
  store_options.files = files_;
  OARLOCK_ASSIGN_OR_RETURN(
      const std::unique_ptr<storage::CheckpointStore> store,
      storage::CheckpointStore::Create(store_options));
  const std::unique_ptr<storage::CutWriter> cut = store->BeginCut(cut_);
  std::unique_ptr<storage::RecordWriter> records = cut->NewRecordWriter();
  for (int t = 0; t < manifest.tables_size(); ++t) {
    const v1::TableConfig& config = manifest.tables(t);
    v1::TablePart* const table = part.add_tables();
    table->set_table(config.id());
    table->set_full(true);
    table->set_version(VersionOf(manifest, config.id()));
    PartWriter writer(cut_, config.id(), records.get(), table);
    const uint32_t num_units = NumUnits(config, manifest.num_partitions());
    for (uint32_t unit = 0; unit < num_units; ++unit) {
      const PartitionIndex partition =
          config.has_sparse()
              ? PartitionIndex(unit)
              : map_.PartitionOfBlock(BlockIndex(unit), num_units);
      if (map_.Owner(partition).value() != server) continue;
      writer.BeginUnit(unit);
      if (config.has_dense()) {
        OARLOCK_ASSIGN_OR_RETURN(DenseBlock block,
                                 ReadDenseBlock(like_, t, BlockIndex(unit)));
        OARLOCK_RETURN_IF_ERROR(writer.AddBlock(std::move(block)));
      } else if (static_cast<size_t>(t) == place_) {
        OARLOCK_RETURN_IF_ERROR(WriteImported(unit, &writer));
      } else {
        OARLOCK_ASSIGN_OR_RETURN(const sparse_table::PackedRows format,
                                 PackedRowsOf(manifest, t));
        OARLOCK_ASSIGN_OR_RETURN(const PartitionRows rows,
                                 PartitionRows::Read(like_, t, partition));
        for (const auto& [key, packed] : rows.rows()) {
          OARLOCK_RETURN_IF_ERROR(writer.AddRow(format, packed));
        }
        OARLOCK_RETURN_IF_ERROR(writer.EndPartition(rows.state()));
      }
    }
  }
  OARLOCK_RETURN_IF_ERROR(records->Finish());
  records = nullptr;
  OARLOCK_RETURN_IF_ERROR(cut->Finish());
  part.set_written_bytes(cut->written_bytes());
  OARLOCK_ASSIGN_OR_RETURN(
      const std::vector<storage::StoredFile> stored,
      store->Publish(absl::StrCat(folder_, "/", part.directory())));
  SetFiles(stored, &part);
  part.set_write_seconds(
      absl::ToDoubleSeconds(options_.clocks.monotonic->Now() - start));
  return part;
}

absl::StatusOr<uint64_t> CheckpointImport::Finish() {
  OARLOCK_ASSIGN_OR_RETURN(has_next_, sorter_->Next(&next_));
  v1::CheckpointManifest manifest = like_.loaded.manifest;
  manifest.clear_servers();
  // Adjacent partitions are one server's, so the rows come server by server.
  for (uint32_t server = 0; server < options_.num_servers; ++server) {
    OARLOCK_ASSIGN_OR_RETURN(*manifest.add_servers(), WriteServer(server));
  }
  manifest.set_cut(cut_);
  manifest.set_previous_cut(0);
  manifest.set_created_unix_ms(absl::ToUnixMillis(options_.clocks.wall->Now()));
  manifest.clear_works();
  manifest.clear_phases();
  manifest.clear_rounds();
  OARLOCK_RETURN_IF_ERROR(dir_.Commit(cut_, FormatManifest(manifest)));
  committed_ = true;
  return num_rows_;
}

}  // namespace oarlock::checkpoint
