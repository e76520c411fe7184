#include "checkpoint/checkpoint_export.h"

#include <bit>
#include <map>
#include <memory>
#include <utility>

#include "base/output/output_file.h"
#include "base/status_macros.h"
#include "checkpoint/checkpoint_rows.h"
#include "checkpoint/row_text.h"
#include "sparse_table/rules/row_rules.h"

namespace oarlock::checkpoint {
namespace {

// Text that goes to the file at a time.
constexpr size_t kBufferBytes = 1 << 20;

}  // namespace

absl::StatusOr<uint64_t> ExportRows(const OpenCheckpoint& open,
                                    const std::string& name,
                                    const std::string& path) {
  const v1::CheckpointManifest& manifest = open.loaded.manifest;
  OARLOCK_ASSIGN_OR_RETURN(const size_t place, FindSparseTable(manifest, name));
  OARLOCK_ASSIGN_OR_RETURN(sparse_table::RowRules rules,
                           sparse_table::RowRules::Create(
                               manifest.tables(place),
                               std::bit_width(manifest.num_partitions()) - 1));
  const RowText format(std::move(rules));
  OARLOCK_ASSIGN_OR_RETURN(const std::unique_ptr<OutputFile> file,
                           OutputFile::Create(path));
  uint64_t num_rows = 0;
  std::string text;
  for (uint32_t p = 0; p < manifest.num_partitions(); ++p) {
    OARLOCK_ASSIGN_OR_RETURN(
        const PartitionRows rows,
        PartitionRows::Read(open, place, PartitionIndex(p)));
    const std::map<Key, const std::byte*> sorted(rows.rows().begin(),
                                                 rows.rows().end());
    for (const auto& [key, packed] : sorted) {
      format.Append(packed, &text);
      if (text.size() < kBufferBytes) continue;
      OARLOCK_RETURN_IF_ERROR(file->Write(text));
      text.clear();
    }
    num_rows += sorted.size();
  }
  OARLOCK_RETURN_IF_ERROR(file->Write(text));
  OARLOCK_RETURN_IF_ERROR(file->SyncAndFinish());
  return num_rows;
}

}  // namespace oarlock::checkpoint
