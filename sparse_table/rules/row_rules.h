// What a table's configuration says about its rows.

#ifndef OARLOCK_SPARSE_TABLE_RULES_ROW_RULES_H_
#define OARLOCK_SPARSE_TABLE_RULES_ROW_RULES_H_

#include <algorithm>
#include <cstddef>

#include "absl/status/statusor.h"
#include "base/types.h"
#include "optim/initializer.h"
#include "optim/rules.h"
#include "proto/v1/table.pb.h"
#include "sparse_table/rows/row_layout.h"
#include "sparse_table/rules/admission_rule.h"
#include "sparse_table/rules/eviction.h"
#include "sparse_table/rules/score_rule.h"

namespace oarlock::sparse_table {

// Immutable, hence thread-safe. A row's embedding part is its first
// `embedding_dim` floats, its extended part the `extended_dim` after them; each
// has an update rule and, in that order, its optimizer state.
class RowRules {
 public:
  // InvalidArgument when `config` is not that of a sparse table, or a field is
  // out of range.
  static absl::StatusOr<RowRules> Create(const v1::TableConfig& config,
                                         int partition_bits);

  const RowLayout& layout() const { return layout_; }
  size_t embedding_dim() const { return layout_.dim() - extended_dim_; }
  size_t extended_dim() const { return extended_dim_; }
  const optim::UpdateRule& rule() const { return rule_; }
  const optim::UpdateRule& extended_rule() const { return extended_rule_; }
  const ScoreRule& score_rule() const { return score_rule_; }
  const AdmissionRule& admission() const { return admission_; }
  const EvictionLimits& eviction() const { return eviction_; }

  // A push only applies the update rule: no statistics, no extended part, no
  // admission.
  bool is_plain() const {
    return !layout_.has_statistics() && extended_dim_ == 0 &&
           admission_.kind() == AdmissionRule::Kind::kAlways;
  }

  // Writes what a pull returns for a key without a row, values[dim].
  void FillInitial(Key key, float* values) const {
    initial_values_.FillRow(key, values, embedding_dim());
    if (extended_dim_ != 0) FillExtended(key, values + embedding_dim());
  }

  // The extended part in a row, and its state.
  float* Extended(std::byte* row) const {
    return layout_.Embedding(row) + embedding_dim();
  }
  float* ExtendedState(std::byte* row) const {
    return layout_.State(row) + embedding_state_;
  }
  // Makes the extended part of a new row; REQUIRES: there is one.
  void BeginExtended(std::byte* row) const;
  // Whether gradients are divided by the shows that come with them.
  bool divides_by_show() const { return divides_by_show_; }
  // Whether a row with this score has an extended part from now on.
  bool WantsExtended(float score) const {
    return extended_dim_ != 0 && score >= extended_threshold_;
  }
  // Creates it: initial values, fresh state.
  void CreateExtended(std::byte* row) const;

 private:
  RowRules(const RowLayout& layout, const optim::UpdateRule& rule,
           const optim::UpdateRule& extended_rule,
           const optim::InitialValues& initial_values,
           const optim::InitialValues& extended_initial_values,
           const ScoreRule& score_rule, const AdmissionRule& admission,
           const EvictionLimits& eviction)
      : layout_(layout),
        rule_(rule),
        extended_rule_(extended_rule),
        initial_values_(initial_values),
        extended_initial_values_(extended_initial_values),
        score_rule_(score_rule),
        admission_(admission),
        eviction_(eviction) {}

  void FillExtended(Key key, float* values) const;

  RowLayout layout_;
  optim::UpdateRule rule_;
  optim::UpdateRule extended_rule_;
  optim::InitialValues initial_values_;
  optim::InitialValues extended_initial_values_;
  ScoreRule score_rule_;
  AdmissionRule admission_;
  EvictionLimits eviction_;
  size_t extended_dim_ = 0;
  // Floats of state of the embedding part.
  size_t embedding_state_ = 0;
  float extended_threshold_ = 0;
  bool divides_by_show_ = false;
};

}  // namespace oarlock::sparse_table

#endif  // OARLOCK_SPARSE_TABLE_RULES_ROW_RULES_H_
