#include "client/finite_push.h"

#include "absl/strings/str_format.h"
#include "base/finite.h"
#include "base/status_macros.h"

namespace oarlock::client {
namespace {

absl::Status CheckArray(const v1::TableConfig& table, const char* what,
                        const float* values, size_t n, const KeyBatch* keys,
                        size_t values_per_key) {
  if (values == nullptr) return absl::OkStatus();
  const size_t found = FirstNotFinite(values, n);
  if (found == n) return absl::OkStatus();
  const std::string place =
      keys != nullptr
          ? absl::StrFormat("key %d", static_cast<uint64_t>(
                                          keys->keys()[found / values_per_key]))
          : absl::StrFormat("parameter %d", found);
  return absl::InvalidArgumentError(absl::StrFormat(
      "training has diverged: the %s of %s of table '%s' is %g; lower "
      "--learning_rate or set --clip_norm, look for huge values in the data, "
      "or "
      "allow it with --allow_nonfinite",
      what, place, table.name(), values[found]));
}

}  // namespace

absl::Status CheckFinite(
    const PushRequest& push,
    absl::FunctionRef<const v1::TableConfig&(TableId)> table_of) {
  for (const SparseGradients& sparse : push.sparse) {
    const v1::TableConfig& table = table_of(sparse.table);
    if (table.allow_nonfinite() || sparse.known_finite) continue;
    const size_t num_keys = sparse.keys->keys().size();
    const size_t dim = table.sparse().dim();
    OARLOCK_RETURN_IF_ERROR(CheckArray(table, "gradient", sparse.gradients,
                                       num_keys * dim, sparse.keys, dim));
    OARLOCK_RETURN_IF_ERROR(
        CheckArray(table, "show", sparse.shows, num_keys, sparse.keys, 1));
    OARLOCK_RETURN_IF_ERROR(
        CheckArray(table, "click", sparse.clicks, num_keys, sparse.keys, 1));
  }
  for (const DenseGradients& dense : push.dense) {
    const v1::TableConfig& table = table_of(dense.table);
    if (table.allow_nonfinite() || dense.known_finite) continue;
    OARLOCK_RETURN_IF_ERROR(CheckArray(table, "gradient", dense.gradients,
                                       table.dense().size(), nullptr, 1));
  }
  return absl::OkStatus();
}

}  // namespace oarlock::client
