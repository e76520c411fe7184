#include "sparse_table/rules/row_rules.h"

#include <algorithm>
#include <cmath>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/random.h"
#include "base/status_macros.h"
#include "sparse_table/rows/arena.h"

namespace oarlock::sparse_table {
namespace {

// Initial values of extended parts are not those of embedding parts.
constexpr uint64_t kExtendedPurpose = 0xe87e4ded;

absl::Status CheckExtended(const v1::SparseTableConfig& config) {
  if (config.extended_dim() >= std::max(config.dim(), 1u)) {
    return absl::InvalidArgumentError(
        absl::StrCat("extended_dim is ", config.extended_dim(), " of dim ",
                     config.dim(), "; legal is below dim"));
  }
  const float threshold = config.extended_threshold();
  if (!std::isfinite(threshold) || threshold < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "extended_threshold is ", threshold, "; legal is at least 0"));
  }
  if (threshold > 0 && config.accessor() != v1::CTR) {
    return absl::InvalidArgumentError(absl::StrCat(
        "extended_threshold is ", threshold,
        ", a score, and the accessor keeps none; set accessor CTR, or 0"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<RowRules> RowRules::Create(const v1::TableConfig& config,
                                          int partition_bits) {
  const v1::SparseTableConfig& sparse = config.sparse();
  const size_t chunk_floats = Arena::kChunkBytes / sizeof(float);
  if (sparse.dim() == 0 || sparse.dim() > chunk_floats) {
    return absl::InvalidArgumentError(absl::StrCat(
        "dim is ", sparse.dim(), "; legal is 1 to what fits into a row of ",
        Arena::kChunkBytes, " bytes with its optimizer state"));
  }
  OARLOCK_RETURN_IF_ERROR(CheckExtended(sparse));
  OARLOCK_ASSIGN_OR_RETURN(const optim::UpdateRule rule,
                           optim::UpdateRule::Create(config.optimizer()));
  OARLOCK_ASSIGN_OR_RETURN(
      const optim::UpdateRule extended_rule,
      optim::UpdateRule::Create(sparse.has_extended_optimizer()
                                    ? sparse.extended_optimizer()
                                    : config.optimizer()));
  const TableId table(config.id());
  OARLOCK_ASSIGN_OR_RETURN(
      const optim::InitialValues initial_values,
      optim::InitialValues::Create(sparse.initializer(), config.seed(), table));
  OARLOCK_ASSIGN_OR_RETURN(
      const optim::InitialValues extended_initial_values,
      optim::InitialValues::Create(
          sparse.has_extended_initializer() ? sparse.extended_initializer()
                                            : sparse.initializer(),
          DeriveSeed(config.seed(), kExtendedPurpose), table));
  OARLOCK_ASSIGN_OR_RETURN(const ScoreRule score_rule,
                           ScoreRule::Create(sparse.ctr()));
  OARLOCK_ASSIGN_OR_RETURN(const AdmissionRule admission,
                           AdmissionRule::Create(config, partition_bits));
  const bool has_statistics = sparse.accessor() == v1::CTR;
  OARLOCK_ASSIGN_OR_RETURN(
      const EvictionLimits eviction,
      MakeEvictionLimits(sparse.eviction(), has_statistics, partition_bits));

  const size_t extended_dim = sparse.extended_dim();
  const size_t embedding_state = rule.StateSize(sparse.dim() - extended_dim);
  const size_t extended_state =
      extended_dim == 0 ? 0 : extended_rule.StateSize(extended_dim);
  const RowLayout layout(sparse.dim(), embedding_state + extended_state,
                         has_statistics);
  if (layout.row_bytes() > Arena::kChunkBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "dim is ", sparse.dim(), "; legal is 1 to what fits into a row of ",
        Arena::kChunkBytes, " bytes with its optimizer state"));
  }
  RowRules rules(layout, rule, extended_rule, initial_values,
                 extended_initial_values, score_rule, admission, eviction);
  rules.extended_dim_ = extended_dim;
  rules.embedding_state_ = embedding_state;
  rules.extended_threshold_ = sparse.extended_threshold();
  rules.divides_by_show_ = has_statistics && sparse.ctr().divide_by_show();
  return rules;
}

void RowRules::FillExtended(Key key, float* values) const {
  if (extended_threshold_ == 0) {
    extended_initial_values_.FillRow(key, values, extended_dim_);
  } else {
    std::fill_n(values, extended_dim_, 0.0f);
  }
}

void RowRules::BeginExtended(std::byte* row) const {
  if (extended_threshold_ == 0) return CreateExtended(row);
  std::fill_n(Extended(row), extended_dim_, 0.0f);
  // Not read before it is created, but a row has no chance bytes.
  std::fill_n(ExtendedState(row), layout_.state_size() - embedding_state_,
              0.0f);
}

void RowRules::CreateExtended(std::byte* row) const {
  RowHeader& header = RowLayout::Header(row);
  header.packed |= RowHeader::kExtended;
  extended_initial_values_.FillRow(header.key, Extended(row), extended_dim_);
  extended_rule_.InitState(ExtendedState(row), extended_dim_);
}

}  // namespace oarlock::sparse_table
