#include "checkpoint/checkpoint_diff.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "checkpoint/checkpoint_rows.h"

namespace oarlock::checkpoint {
namespace {

float FloatAt(const std::byte* bytes, size_t index) {
  float x;
  std::memcpy(&x, bytes + index * sizeof(float), sizeof(x));
  return x;
}

const std::byte* Bytes(const std::string& text) {
  return reinterpret_cast<const std::byte*>(text.data());
}

// Index of the first float that differs in its bits; `num_floats` when none
// does.
size_t FirstDifference(const std::byte* a, const std::byte* b,
                       size_t num_floats) {
  size_t i = 0;
  while (i < num_floats &&
         std::memcmp(a + i * sizeof(float), b + i * sizeof(float),
                     sizeof(float)) == 0) {
    ++i;
  }
  return i;
}

// Compares two checkpoints table by table.
class Differ {
 public:
  Differ(const OpenCheckpoint& a, const OpenCheckpoint& b,
         size_t max_differences)
      : a_(a), b_(b), max_differences_(max_differences) {}

  absl::StatusOr<std::vector<std::string>> Run() {
    const auto a_places = Places(a_), b_places = Places(b_);
    for (const auto& [id, place] : a_places) {
      const auto other = b_places.find(id);
      if (other == b_places.end()) {
        Say(absl::StrCat("table ", id, " is only in the first"));
        continue;
      }
      OARLOCK_RETURN_IF_ERROR(CompareTable(place, other->second));
      if (IsFull()) break;
    }
    for (const auto& [id, place] : b_places) {
      if (!a_places.contains(id)) {
        Say(absl::StrCat("table ", id, " is only in the second"));
      }
    }
    return std::move(differences_);
  }

 private:
  static std::map<uint32_t, size_t> Places(const OpenCheckpoint& open) {
    std::map<uint32_t, size_t> places;
    for (int i = 0; i < open.loaded.manifest.tables_size(); ++i) {
      places[open.loaded.manifest.tables(i).id()] = i;
    }
    return places;
  }

  bool IsFull() const { return differences_.size() >= max_differences_; }
  void Say(std::string difference) {
    if (!IsFull()) differences_.push_back(std::move(difference));
  }
  void SayFloats(absl::string_view what, float a, float b) {
    Say(absl::StrFormat("%s: %.9g in the first, %.9g in the second", what, a,
                        b));
  }

  absl::Status CompareTable(size_t a_place, size_t b_place);
  absl::Status CompareSparse(size_t a_place, size_t b_place);
  absl::Status CompareDense(size_t a_place, size_t b_place);
  void CompareRow(absl::string_view table, Key key, const std::byte* a,
                  const std::byte* b);

  const OpenCheckpoint& a_;
  const OpenCheckpoint& b_;
  const size_t max_differences_;
  std::vector<std::string> differences_;
  // Of the table that is compared.
  size_t packed_bytes_ = 0;
  size_t dim_ = 0;
  bool has_statistics_ = false;
};

absl::Status Differ::CompareTable(size_t a_place, size_t b_place) {
  v1::TableConfig a = a_.loaded.manifest.tables(a_place);
  v1::TableConfig b = b_.loaded.manifest.tables(b_place);
  // Where rows lie changes no value.
  for (v1::TableConfig* config : {&a, &b}) {
    if (config->has_sparse()) {
      config->mutable_sparse()->clear_memory_budget_bytes();
    }
  }
  if (a.SerializeAsString() != b.SerializeAsString()) {
    Say(absl::StrCat("table ", a.id(), " (", a.name(),
                     ") has another configuration"));
    return absl::OkStatus();
  }
  return a.has_dense() ? CompareDense(a_place, b_place)
                       : CompareSparse(a_place, b_place);
}

void Differ::CompareRow(absl::string_view table, Key key, const std::byte* a,
                        const std::byte* b) {
  const std::string row =
      absl::StrCat("table ", table, " key ", static_cast<uint64_t>(key));
  const bool a_extended = sparse_table::PackedRows::HeaderOf(a).extended();
  if (a_extended != sparse_table::PackedRows::HeaderOf(b).extended()) {
    Say(absl::StrCat(row, " has its extended part only in the ",
                     a_extended ? "first" : "second"));
    return;
  }
  const size_t num_floats =
      (packed_bytes_ - sparse_table::PackedRows::kHeaderBytes) / sizeof(float);
  a += sparse_table::PackedRows::kHeaderBytes;
  b += sparse_table::PackedRows::kHeaderBytes;
  const size_t i = FirstDifference(a, b, num_floats);
  if (i == num_floats) return;
  const size_t first_value = has_statistics_ ? 2 : 0;
  std::string what;
  if (i < first_value) {
    what = i == 0 ? " show" : " click";
  } else if (i < first_value + dim_) {
    what = absl::StrCat(" embedding[", i - first_value, "]");
  } else {
    what = absl::StrCat(" optimizer state[", i - first_value - dim_, "]");
  }
  SayFloats(absl::StrCat(row, what), FloatAt(a, i), FloatAt(b, i));
}

absl::Status Differ::CompareSparse(size_t a_place, size_t b_place) {
  const v1::CheckpointManifest& a = a_.loaded.manifest;
  const v1::CheckpointManifest& b = b_.loaded.manifest;
  const v1::TableConfig& config = a.tables(a_place);
  OARLOCK_ASSIGN_OR_RETURN(const sparse_table::PackedRows format,
                           PackedRowsOf(a, a_place));
  packed_bytes_ = format.row_bytes();
  dim_ = config.sparse().dim();
  has_statistics_ = config.sparse().accessor() == v1::CTR;
  // A partition is the high bits of a key's mix: where one side has more of
  // them, a run of them is one of the other side's.
  const uint32_t num_runs = std::min(a.num_partitions(), b.num_partitions());
  const auto read =
      [&](const OpenCheckpoint& open, size_t place,
          uint32_t run) -> absl::StatusOr<std::vector<PartitionRows>> {
    const uint32_t length = open.loaded.manifest.num_partitions() / num_runs;
    std::vector<PartitionRows> partitions;
    for (uint32_t i = 0; i < length; ++i) {
      OARLOCK_ASSIGN_OR_RETURN(
          PartitionRows rows,
          PartitionRows::Read(open, place, PartitionIndex(run * length + i)));
      partitions.push_back(std::move(rows));
    }
    return partitions;
  };
  const auto all_rows = [](const std::vector<PartitionRows>& partitions) {
    std::map<Key, const std::byte*> rows;
    for (const PartitionRows& partition : partitions) {
      rows.insert(partition.rows().begin(), partition.rows().end());
    }
    return rows;
  };
  const auto digest = [](const std::vector<PartitionRows>& partitions) {
    uint64_t sum = 0;
    for (const PartitionRows& p : partitions) sum += p.digest();
    return sum;
  };
  for (uint32_t run = 0; run < num_runs && !IsFull(); ++run) {
    OARLOCK_ASSIGN_OR_RETURN(const auto a_read, read(a_, a_place, run));
    OARLOCK_ASSIGN_OR_RETURN(const auto b_read, read(b_, b_place, run));
    const auto num_rows = [](const std::vector<PartitionRows>& partitions) {
      size_t n = 0;
      for (const PartitionRows& p : partitions) n += p.rows().size();
      return n;
    };
    if (num_rows(a_read) == num_rows(b_read) &&
        digest(a_read) == digest(b_read)) {
      continue;
    }
    const auto a_rows = all_rows(a_read), b_rows = all_rows(b_read);
    for (const auto& [key, row] : a_rows) {
      const auto other = b_rows.find(key);
      if (other != b_rows.end()) {
        CompareRow(config.name(), key, row, other->second);
      } else {
        Say(absl::StrCat("table ", config.name(), " key ",
                         static_cast<uint64_t>(key), " is only in the first"));
      }
    }
    for (const auto& [key, row] : b_rows) {
      if (a_rows.contains(key)) continue;
      Say(absl::StrCat("table ", config.name(), " key ",
                       static_cast<uint64_t>(key), " is only in the second"));
    }
  }
  return absl::OkStatus();
}

absl::Status Differ::CompareDense(size_t a_place, size_t b_place) {
  const v1::TableConfig& config = a_.loaded.manifest.tables(a_place);
  for (uint32_t i = 0; i < a_.server_of[a_place].size() && !IsFull(); ++i) {
    OARLOCK_ASSIGN_OR_RETURN(const DenseBlock a,
                             ReadDenseBlock(a_, a_place, BlockIndex(i)));
    OARLOCK_ASSIGN_OR_RETURN(const DenseBlock b,
                             ReadDenseBlock(b_, b_place, BlockIndex(i)));
    const std::string block =
        absl::StrCat("table ", config.name(), " block ", i);
    if (a.state.steps() != b.state.steps()) {
      Say(absl::StrCat(block, " has counted ", a.state.steps(),
                       " steps in the first, ", b.state.steps(),
                       " in the second"));
    }
    if (a.floats.size() != b.floats.size()) {
      Say(absl::StrCat(block, " has ", a.floats.size() / sizeof(float),
                       " floats in the first, ",
                       b.floats.size() / sizeof(float), " in the second"));
      continue;
    }
    const size_t n = a.floats.size() / sizeof(float);
    const size_t f = FirstDifference(Bytes(a.floats), Bytes(b.floats), n);
    if (f == n) continue;
    const uint64_t begin = uint64_t{i} * config.dense().block_size();
    const uint64_t values = std::min<uint64_t>(config.dense().block_size(),
                                               config.dense().size() - begin);
    SayFloats(f < values
                  ? absl::StrCat("table ", config.name(), " value ", begin + f)
                  : absl::StrCat(block, " optimizer state[", f - values, "]"),
              FloatAt(Bytes(a.floats), f), FloatAt(Bytes(b.floats), f));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<std::string>> DiffCheckpoints(
    const OpenCheckpoint& a, const OpenCheckpoint& b, size_t max_differences) {
  return Differ(a, b, max_differences).Run();
}

}  // namespace oarlock::checkpoint
