#include "tests/storage/checkpoint_testing.h"

#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace oarlock::storage {
namespace {

constexpr uint32_t kUnits = 4;

std::string RandomBytes(size_t n, RandomSequence& random) {
  std::string bytes(n, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random.Below(256));
  return bytes;
}

absl::Status WriteTable(CutWriter& cut, TableId table,
                        const RecordModel& records) {
  const std::unique_ptr<RecordWriter> writer = cut.NewRecordWriter();
  std::string bytes;
  for (const auto& [name, value] : records) {
    if (name.table != table) continue;
    bytes = value;
    OARLOCK_RETURN_IF_ERROR(writer->Add(name, bytes));
    EXPECT_TRUE(bytes.empty());
  }
  return writer->Finish();
}

}  // namespace

std::string FreshFolder(const std::string& name) {
  const std::string path = absl::StrCat(testing::TempDir(), "/", name);
  std::filesystem::remove_all(path);
  return path;
}

RecordModel RandomCut(uint64_t cut, size_t num_rows_records, size_t rows_bytes,
                      RandomSequence& random) {
  RecordModel records;
  for (uint32_t table = 1; table <= 2; ++table) {
    for (uint32_t unit = 0; unit < kUnits; ++unit) {
      RecordName name{.cut = cut, .table = TableId(table), .unit = unit};
      for (name.number = 0; name.number < num_rows_records; ++name.number) {
        records[name] = RandomBytes(rows_bytes, random);
      }
      name.number = 0;
      if (random.Below(2) == 0) {
        name.kind = RecordKind::kErased;
        records[name] = RandomBytes(8 * random.Below(20), random);
      }
      name.kind = RecordKind::kState;
      records[name] = RandomBytes(random.Below(100), random);
    }
  }
  return records;
}

absl::Status WriteCut(CheckpointStore& store, uint64_t cut,
                      const RecordModel& records) {
  const std::unique_ptr<CutWriter> writer = store.BeginCut(cut);
  std::array<absl::Status, 2> statuses;
  {
    std::thread second(
        [&] { statuses[1] = WriteTable(*writer, TableId(2), records); });
    statuses[0] = WriteTable(*writer, TableId(1), records);
    second.join();
  }
  for (const absl::Status& status : statuses) OARLOCK_RETURN_IF_ERROR(status);
  return writer->Finish();
}

absl::StatusOr<RecordModel> ReadCuts(const CheckpointReader& reader,
                                     uint64_t first_cut, uint64_t last_cut) {
  RecordModel records;
  const auto keep = [&](const RecordName& name, absl::string_view bytes) {
    records[name] = std::string(bytes);
    return absl::OkStatus();
  };
  for (uint64_t cut = first_cut; cut <= last_cut; ++cut) {
    for (uint32_t table = 0; table < 4; ++table) {
      for (uint32_t unit = 0; unit < 10; ++unit) {
        for (const RecordKind kind :
             {RecordKind::kRows, RecordKind::kErased, RecordKind::kState}) {
          OARLOCK_RETURN_IF_ERROR(
              reader.Visit(cut, TableId(table), unit, kind, keep));
        }
      }
    }
  }
  return records;
}

}  // namespace oarlock::storage
