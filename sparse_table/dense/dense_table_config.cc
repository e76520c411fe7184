#include "sparse_table/dense/dense_table_config.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "sparse_table/dense/dense_table.h"

namespace oarlock::sparse_table {
namespace {

absl::Status CheckShape(const v1::TableConfig& config) {
  if (!config.has_dense()) {
    return absl::InvalidArgumentError(
        absl::StrFormat("table %d '%s' is not dense; set TableConfig.dense",
                        config.id(), config.name()));
  }
  const v1::DenseTableConfig& dense = config.dense();
  if (dense.size() == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        DenseTableName(config), ": size is 0; legal is at least 1"));
  }
  if (dense.block_size() == 0 ||
      dense.block_size() > DenseTable::kMaxBlockFloats) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "%s: block_size is %d; legal is 1 to %d", DenseTableName(config),
        dense.block_size(), DenseTable::kMaxBlockFloats));
  }
  if (!(dense.quorum() >= 0 && dense.quorum() <= 1) ||
      (dense.quorum() > 0 && config.mode() == v1::SYNC)) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%s: quorum is %g; legal is 0 to 1, and 0 in sync mode",
                        DenseTableName(config), dense.quorum()));
  }
  const uint64_t num_blocks = (dense.size() - 1) / dense.block_size() + 1;
  if (num_blocks > DenseTable::kMaxBlocks) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "%s: size %d in blocks of %d makes %d blocks; legal is up to %d; "
        "choose larger blocks",
        DenseTableName(config), dense.size(), dense.block_size(), num_blocks,
        DenseTable::kMaxBlocks));
  }
  return absl::OkStatus();
}

absl::Status CheckCover(const v1::TableConfig& config) {
  const v1::DenseTableConfig& dense = config.dense();
  if (dense.parameters().empty()) return absl::OkStatus();
  uint64_t end = 0;
  for (const v1::DenseParameter& parameter : dense.parameters()) {
    const uint64_t rest = dense.size() - end;
    const uint64_t floats = FloatsOf(parameter, rest);
    if (parameter.offset() != end || floats > rest) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "%s: parameter '%s' begins at %d; legal is %d, where the one before "
          "ends, with at most %d floats",
          DenseTableName(config), parameter.name(), parameter.offset(), end,
          rest));
    }
    end += floats;
  }
  if (end != dense.size()) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "%s: parameters cover %d of %d floats; they must cover all",
        DenseTableName(config), end, dense.size()));
  }
  return absl::OkStatus();
}

}  // namespace

std::string DenseTableName(const v1::TableConfig& config) {
  return absl::StrFormat("dense table %d '%s'", config.id(), config.name());
}

absl::Status CheckDenseTable(const v1::TableConfig& config) {
  OARLOCK_RETURN_IF_ERROR(CheckShape(config));
  return CheckCover(config);
}

uint64_t FloatsOf(const v1::DenseParameter& parameter, uint64_t limit) {
  uint64_t floats = 1;
  for (const uint64_t extent : parameter.shape()) {
    if (extent != 0 && floats > limit / extent) return limit + 1;
    floats *= extent;
  }
  return floats;
}

}  // namespace oarlock::sparse_table
