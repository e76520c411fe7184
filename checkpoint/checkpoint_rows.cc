#include "checkpoint/checkpoint_rows.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/mix.h"
#include "base/status_macros.h"
#include "sparse_table/rules/row_rules.h"

namespace oarlock::checkpoint {
namespace {

absl::Status Damaged(absl::string_view where, absl::string_view what) {
  return absl::DataLossError(
      absl::StrCat(where, " ", what, "; use another checkpoint"));
}

int PartitionBits(const v1::CheckpointManifest& manifest) {
  return std::bit_width(manifest.num_partitions()) - 1;
}

// Server that has a unit, and its folder for messages.
struct Place {
  const storage::CheckpointReader* reader;
  std::string folder;
  storage::RecordName state;
};

Place PlaceOf(const OpenCheckpoint& open, size_t place, uint32_t unit) {
  const v1::CheckpointManifest& manifest = open.loaded.manifest;
  const uint32_t server = open.server_of[place][unit];
  return {
      .reader = open.servers[server].get(),
      .folder = absl::StrCat(open.loaded.folder, "/", ServerFolderName(server)),
      .state = {.cut = manifest.cut(),
                .table = TableId(manifest.tables(place).id()),
                .unit = unit,
                .kind = storage::RecordKind::kState,
                .number = 0}};
}

template <typename State>
absl::StatusOr<State> ReadState(const Place& place) {
  OARLOCK_ASSIGN_OR_RETURN(const std::string bytes,
                           place.reader->Read(place.state));
  State state;
  if (state.ParseFromString(bytes)) return state;
  return Damaged(place.folder,
                 absl::StrCat("has a record ", storage::ToString(place.state),
                              " of ", bytes.size(), " bytes that is no state"));
}

// Cuts of rows: a base, then deltas, none beyond the checkpoint's.
bool CutsAreLegal(const v1::SparsePartitionState& state, uint64_t cut) {
  uint64_t last = state.base_cut();
  if (last == 0) return false;
  for (const uint64_t delta : state.delta_cuts()) {
    if (delta <= last) return false;
    last = delta;
  }
  return last <= cut;
}

}  // namespace

absl::StatusOr<sparse_table::PackedRows> PackedRowsOf(
    const v1::CheckpointManifest& manifest, size_t place) {
  const absl::StatusOr<sparse_table::RowRules> rules =
      sparse_table::RowRules::Create(manifest.tables(place),
                                     PartitionBits(manifest));
  if (rules.ok()) return sparse_table::PackedRows(rules->layout());
  return Damaged("the manifest", absl::StrCat("has an illegal table ",
                                              manifest.tables(place).id(), ": ",
                                              rules.status().message()));
}

absl::StatusOr<size_t> FindSparseTable(const v1::CheckpointManifest& manifest,
                                       const std::string& name) {
  std::optional<size_t> place;
  std::string names;
  for (int i = 0; i < manifest.tables_size(); ++i) {
    const v1::TableConfig& table = manifest.tables(i);
    if (!table.has_sparse()) continue;
    absl::StrAppend(&names, names.empty() ? "" : ", ", table.name());
    if (!name.empty() && table.name() != name) continue;
    if (place.has_value()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "several tables could be meant; name one with --table: ", names,
          ", ..."));
    }
    place = i;
  }
  if (place.has_value()) return *place;
  return absl::InvalidArgumentError(absl::StrCat(
      "there is no sparse table '", name,
      "' in the checkpoint; there is: ", names.empty() ? "none" : names));
}

absl::StatusOr<v1::SparsePartitionState> ReadPartitionState(
    const OpenCheckpoint& open, size_t place, PartitionIndex partition) {
  return ReadState<v1::SparsePartitionState>(
      PlaceOf(open, place, partition.value()));
}

absl::Status PartitionRows::Erase(absl::string_view keys) {
  if (keys.size() % sizeof(Key) != 0) {
    return Damaged(
        "a record of erased keys",
        absl::StrCat("has ", keys.size(), " bytes; legal are multiples of 8"));
  }
  for (size_t i = 0; i < keys.size(); i += sizeof(Key)) {
    Key key;
    std::memcpy(&key, keys.data() + i, sizeof(key));
    rows_.erase(key);
  }
  return absl::OkStatus();
}

absl::Status PartitionRows::Put(const sparse_table::PackedRows& format,
                                absl::string_view rows) {
  if (rows.size() % format.row_bytes() != 0) {
    return Damaged(
        "a record of rows",
        absl::StrCat("has ", rows.size(), " bytes; legal are multiples of ",
                     format.row_bytes()));
  }
  records_.push_back(std::make_unique<std::string>(rows));
  const auto* packed =
      reinterpret_cast<const std::byte*>(records_.back()->data());
  for (size_t i = 0; i < rows.size(); i += format.row_bytes()) {
    rows_[sparse_table::PackedRows::KeyOf(packed + i)] = packed + i;
  }
  return absl::OkStatus();
}

absl::Status PartitionRows::Load(const storage::CheckpointReader& reader,
                                 const sparse_table::PackedRows& format,
                                 const storage::RecordName& state) {
  const auto erase = [&](const storage::RecordName&, absl::string_view bytes) {
    return Erase(bytes);
  };
  const auto put = [&](const storage::RecordName&, absl::string_view bytes) {
    return Put(format, bytes);
  };
  rows_.reserve(std::min<uint64_t>(state_.rows(), 1 << 20));
  OARLOCK_RETURN_IF_ERROR(reader.Visit(state_.base_cut(), state.table,
                                       state.unit, storage::RecordKind::kRows,
                                       put));
  for (const uint64_t cut : state_.delta_cuts()) {
    OARLOCK_RETURN_IF_ERROR(reader.Visit(cut, state.table, state.unit,
                                         storage::RecordKind::kErased, erase));
    OARLOCK_RETURN_IF_ERROR(reader.Visit(cut, state.table, state.unit,
                                         storage::RecordKind::kRows, put));
  }
  return absl::OkStatus();
}

absl::StatusOr<PartitionRows> PartitionRows::Read(const OpenCheckpoint& open,
                                                  size_t table_place,
                                                  PartitionIndex partition) {
  const v1::CheckpointManifest& manifest = open.loaded.manifest;
  OARLOCK_ASSIGN_OR_RETURN(const sparse_table::PackedRows format,
                           PackedRowsOf(manifest, table_place));
  const Place place = PlaceOf(open, table_place, partition.value());
  PartitionRows rows;
  OARLOCK_ASSIGN_OR_RETURN(rows.state_,
                           ReadState<v1::SparsePartitionState>(place));
  const std::string where =
      absl::StrCat(place.folder, ": ", storage::ToString(place.state));
  if (!CutsAreLegal(rows.state_, manifest.cut())) {
    return Damaged(where, "names cuts that do not ascend up to its own");
  }
  const absl::Status loaded = rows.Load(*place.reader, format, place.state);
  if (!loaded.ok()) return Annotate(loaded, where);
  for (const auto& [key, packed] : rows.rows_) {
    if (PartitionOfMix(Mix(key), PartitionBits(manifest)) != partition) {
      return Damaged(where, absl::StrCat("has a row of another partition, key ",
                                         static_cast<uint64_t>(key)));
    }
    rows.digest_ += format.Digest(packed);
  }
  if (rows.rows_.size() != rows.state_.rows()) {
    return Damaged(
        where, absl::StrCat("has ", rows.rows_.size(), " rows; its state says ",
                            rows.state_.rows()));
  }
  // 0: whoever wrote the changes alone did not know it.
  if (rows.state_.digest() != 0 && rows.state_.digest() != rows.digest_) {
    return Damaged(
        where,
        absl::StrCat("has rows with the digest ", absl::Hex(rows.digest_),
                     "; its state says ", absl::Hex(rows.state_.digest())));
  }
  return rows;
}

absl::StatusOr<DenseBlock> ReadDenseBlock(const OpenCheckpoint& open,
                                          size_t table_place,
                                          BlockIndex index) {
  const Place place = PlaceOf(open, table_place, index.value());
  DenseBlock block;
  OARLOCK_ASSIGN_OR_RETURN(block.state, ReadState<v1::DenseBlockState>(place));
  storage::RecordName name = place.state;
  name.cut = block.state.base_cut();
  name.kind = storage::RecordKind::kRows;
  const std::string where =
      absl::StrCat(place.folder, ": ", storage::ToString(place.state));
  absl::StatusOr<std::string> floats = place.reader->Read(name);
  if (absl::IsNotFound(floats.status())) {
    return Damaged(
        where, absl::StrCat("has no floats (", storage::ToString(name), ")"));
  }
  OARLOCK_RETURN_IF_ERROR(floats.status());
  block.floats = *std::move(floats);
  const v1::DenseTableConfig& dense =
      open.loaded.manifest.tables(table_place).dense();
  const uint64_t begin = uint64_t{index.value()} * dense.block_size();
  const uint64_t values =
      std::min<uint64_t>(dense.block_size(), dense.size() - begin);
  if (block.floats.size() % sizeof(float) != 0 ||
      block.floats.size() / sizeof(float) < values) {
    return Damaged(where, absl::StrCat("has ", block.floats.size(),
                                       " bytes of floats; it has ", values,
                                       " values and their state"));
  }
  return block;
}

absl::Status VerifyTables(const OpenCheckpoint& open) {
  const v1::CheckpointManifest& manifest = open.loaded.manifest;
  // Of each table, by server: rows and digest.
  struct Sum {
    uint64_t rows = 0;
    uint64_t digest = 0;
  };
  for (int t = 0; t < manifest.tables_size(); ++t) {
    std::vector<Sum> sums(open.servers.size());
    for (uint32_t unit = 0; unit < open.server_of[t].size(); ++unit) {
      Sum& sum = sums[open.server_of[t][unit]];
      if (manifest.tables(t).has_dense()) {
        OARLOCK_RETURN_IF_ERROR(
            ReadDenseBlock(open, t, BlockIndex(unit)).status());
        continue;
      }
      OARLOCK_ASSIGN_OR_RETURN(
          const PartitionRows rows,
          PartitionRows::Read(open, t, PartitionIndex(unit)));
      sum.rows += rows.rows().size();
      sum.digest += rows.digest();
    }
    if (manifest.tables(t).has_dense()) continue;
    for (const v1::ServerPart& server : manifest.servers()) {
      for (const v1::TablePart& part : server.tables()) {
        if (part.table() != manifest.tables(t).id()) continue;
        const Sum& sum = sums[server.server_index()];
        if (part.rows() == sum.rows &&
            (part.digest() == 0 || part.digest() == sum.digest)) {
          continue;
        }
        return Damaged(
            absl::StrCat(open.loaded.folder, "/", server.directory()),
            absl::StrCat("has ", sum.rows, " rows of table ", part.table(),
                         " with the digest ", absl::Hex(sum.digest),
                         "; the manifest says ", part.rows(), " and ",
                         absl::Hex(part.digest())));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace oarlock::checkpoint
