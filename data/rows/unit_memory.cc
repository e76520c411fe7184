#include "data/rows/unit_memory.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace oarlock::data {
namespace {

// Rows are read so many at a time, so that the limit is seen in between.
constexpr uint64_t kRows = 65536;
// Of a unit, far enough below what offsets can say.
constexpr uint64_t kMaxKeys = uint64_t{1} << 31;

template <typename T>
uint64_t BytesOf(const std::vector<T>& values) {
  return values.capacity() * sizeof(T);
}

uint64_t BytesOf(const Batch& batch) {
  return BytesOf(batch.labels) + BytesOf(batch.dense) + BytesOf(batch.keys) +
         BytesOf(batch.offsets) + BytesOf(batch.weights);
}

uint64_t BytesOf(const std::vector<FileRows::BadRow>& bad) {
  uint64_t bytes = bad.capacity() * sizeof(FileRows::BadRow);
  for (const FileRows::BadRow& row : bad) bytes += row.reason.capacity();
  return bytes;
}

}  // namespace

void UnitMemory::KeepOnly(const std::vector<uint32_t>& units) {
  for (auto unit = units_.begin(); unit != units_.end();) {
    if (std::find(units.begin(), units.end(), unit->first) != units.end()) {
      ++unit;
      continue;
    }
    bytes_ -= unit->second->bytes;
    unit = units_.erase(unit);
  }
}

absl::StatusOr<std::shared_ptr<const LoadedUnit>> UnitMemory::Load(
    uint32_t unit, FileRows* rows, uint64_t* num_decoded_rows) {
  if (const auto found = units_.find(unit); found != units_.end()) {
    return found->second;
  }
  const DataRange& range = rows->options().units[unit];
  const DataSchema schema = rows->options().features.schema();
  const uint64_t num_rows = range.end - range.begin;
  // Of a row whose slots have one key each.
  const uint64_t row_bytes =
      sizeof(float) * (1 + static_cast<uint64_t>(schema.num_dense)) +
      sizeof(Key) * static_cast<uint64_t>(schema.num_slots);
  const auto check = [&](uint64_t bytes) {
    if (bytes_ + bytes <= bytes_max_) return absl::OkStatus();
    return absl::ResourceExhaustedError(absl::StrCat(
        "rows ", range.begin, " to ", range.end, " of '",
        rows->options().files[range.source].path(), "' take ", bytes >> 20,
        " MiB or more in memory, beside ", bytes_.load() >> 20,
        " MiB that are there; ", bytes_max_ >> 20, " are allowed; ", advice_));
  };
  OARLOCK_RETURN_IF_ERROR(check(num_rows * row_bytes));
  auto loaded = std::make_shared<LoadedUnit>();
  Batch& batch = loaded->rows;
  batch.labels.reserve(num_rows);
  batch.dense.reserve(num_rows * static_cast<uint64_t>(schema.num_dense));
  batch.keys.reserve(num_rows * static_cast<uint64_t>(schema.num_slots));
  for (uint64_t begin = range.begin; begin < range.end;) {
    const uint64_t end = std::min(range.end, begin + kRows);
    OARLOCK_RETURN_IF_ERROR(
        rows->Load(range.source, begin, end, &batch, &loaded->bad));
    loaded->bytes = BytesOf(batch) + BytesOf(loaded->bad);
    OARLOCK_RETURN_IF_ERROR(check(loaded->bytes));
    if (batch.keys.size() > kMaxKeys) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "rows ", range.begin, " to ", range.end, " of '",
          rows->options().files[range.source].path(), "' have more than ",
          kMaxKeys, " ids; write smaller row groups"));
    }
    begin = end;
  }
  *num_decoded_rows += batch.num_decoded_rows;
  bytes_ += loaded->bytes;
  units_[unit] = loaded;
  return loaded;
}

}  // namespace oarlock::data
