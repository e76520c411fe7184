// Stage 3 of a push (sparse_table/lookahead.h): what it does to the rows of a
// block of keys. Chosen per block, never per key: where a table only applies an
// update rule, nothing else is asked.

#ifndef OARLOCK_SPARSE_TABLE_RULES_ROW_UPDATER_H_
#define OARLOCK_SPARSE_TABLE_RULES_ROW_UPDATER_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/types/span.h"
#include "base/types.h"
#include "sparse_table/lookahead.h"
#include "sparse_table/partition.h"
#include "sparse_table/rows/row_layout.h"
#include "sparse_table/rows/row_space.h"
#include "sparse_table/rules/admission_rule.h"
#include "sparse_table/rules/row_rules.h"
#include "sparse_table/sparse_push.h"

namespace oarlock::sparse_table {

// Immutable; the rows are guarded by their partition's lock.
class RowUpdater {
 public:
  // Both outlive this.
  RowUpdater(const RowSpace* rows, const RowRules* rules)
      : rows_(*rows), rules_(*rules) {}

  const RowRules& rules() const { return rules_; }

  // The row of a key whose candidate stage 2 found, or null.
  std::byte* RowOf(const Partition& partition, Key key, uint64_t mix,
                   RowRef candidate) const
      ABSL_SHARED_LOCKS_REQUIRED(partition.lock()) {
    if (candidate == kNoRow) return nullptr;
    std::byte* const row = rows_.At(candidate);
    if (RowLayout::Header(row).key == key) [[likely]]
      return row;
    const RowRef found = partition.Find(key, mix);
    return found == kNoRow ? nullptr : rows_.At(found);
  }

  // For rules.is_plain(). kDim is the table's dimension, or 0 for any.
  template <size_t kDim, typename Rule>
  void UpdatePlain(Partition& partition, const KeyBlock& block,
                   const SparsePush& push, const Rule& rule,
                   Lookahead& lookahead) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(partition.lock());
  // For all others. `draws` is AdmissionRule::DrawsOf the push.
  template <typename Rule>
  void UpdateByRules(Partition& partition, const KeyBlock& block,
                     const SparsePush& push, const Rule& rule, uint64_t draws,
                     Lookahead& lookahead) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(partition.lock());

 private:
  // A row and the gradient of its extended part.
  struct ExtendedUpdate {
    std::byte* row;
    const float* gradient;
  };

  void UpdateExtended(absl::Span<const ExtendedUpdate> updates,
                      uint64_t version) const;
  // Adds to the row's statistics; creates the extended part when they reach
  // its threshold.
  void AddStatistics(std::byte* row, float show, float click,
                     uint32_t now) const;
  template <typename Rule>
  std::byte* CreateRow(Partition& partition, Key key, uint64_t mix,
                       const Rule& rule) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(partition.lock());

  const RowSpace& rows_;
  const RowRules& rules_;
};

template <size_t kDim, typename Rule>
void RowUpdater::UpdatePlain(Partition& partition, const KeyBlock& block,
                             const SparsePush& push, const Rule& rule,
                             Lookahead& lookahead) const {
  const RowLayout& layout = rows_.layout();
  const uint64_t version = partition.version();
  const uint32_t now = partition.latest_touch();
  const size_t dim = kDim != 0 ? kDim : layout.dim();
  const uint64_t unchanged_below = partition.unchanged_below();
  for (size_t i = block.first; i < block.first + block.count; ++i) {
    const Key key = push.keys[i];
    std::byte* row = RowOf(partition, key, lookahead.mix(i), lookahead.row(i));
    if (row == nullptr) [[unlikely]] {
      row = CreateRow(partition, key, lookahead.mix(i), rule);
    } else if (RowLayout::Header(row).packed < unchanged_below) [[unlikely]] {
      partition.BeforeFirstChange(key, lookahead.mix(i), lookahead.row(i), row);
    }
    float* const embedding = layout.Embedding(row);
    rule.Apply(embedding, embedding + dim, push.gradients + i * dim, dim);
    RowLayout::Header(row).Stamp(version, now);
  }
}

template <typename Rule>
void RowUpdater::UpdateByRules(Partition& partition, const KeyBlock& block,
                               const SparsePush& push, const Rule& rule,
                               uint64_t draws, Lookahead& lookahead) const {
  const RowLayout& layout = rows_.layout();
  const AdmissionRule& admission = rules_.admission();
  const uint64_t version = partition.version();
  const uint32_t now = partition.latest_touch();
  const size_t embedding_dim = rules_.embedding_dim();
  const uint64_t unchanged_below = partition.unchanged_below();
  std::array<ExtendedUpdate, KeyBlock::kMaxKeys> extended;
  size_t num_extended = 0;
  uint32_t num_rejected = 0;
  std::vector<float> divided;
  if (rules_.divides_by_show()) divided.resize(block.count * layout.dim());
  for (size_t i = block.first; i < block.first + block.count; ++i) {
    const Key key = push.keys[i];
    const uint64_t mix = lookahead.mix(i);
    const float show = push.shows == nullptr ? 0 : push.shows[i];
    const float click = push.clicks == nullptr ? 0 : push.clicks[i];
    std::byte* row = RowOf(partition, key, mix, lookahead.row(i));
    if (row == nullptr) {
      if (partition.Find(key, mix) == kNoRow &&
          !admission.Admit(draws, key, mix,
                           rules_.score_rule().Score(show, click),
                           partition.sketch())) {
        ++num_rejected;
        continue;
      }
      row = CreateRow(partition, key, mix, rule);
    } else if (RowLayout::Header(row).packed < unchanged_below) {
      partition.BeforeFirstChange(key, mix, lookahead.row(i), row);
    }
    const float* gradient = push.gradients + i * layout.dim();
    if (rules_.divides_by_show() && show > 0) {
      float* const quotient = &divided[(i - block.first) * layout.dim()];
      for (size_t d = 0; d < layout.dim(); ++d) {
        quotient[d] = gradient[d] / show;
      }
      gradient = quotient;
    }
    rule.Apply(layout.Embedding(row), layout.State(row), gradient,
               embedding_dim);
    // The gradient of a push that creates the part was made with zeros.
    if (RowLayout::Header(row).extended()) {
      extended[num_extended++] = {row, gradient + embedding_dim};
    }
    if (layout.has_statistics()) AddStatistics(row, show, click, now);
    RowLayout::Header(row).Stamp(version, now);
  }
  partition.CountRejected(num_rejected);
  if (num_extended > 0) {
    UpdateExtended({extended.data(), num_extended}, version);
  }
}

template <typename Rule>
std::byte* RowUpdater::CreateRow(Partition& partition, Key key, uint64_t mix,
                                 const Rule& rule) const {
  // Stage 2 did not see rows that stage 3 has created since: a push that names
  // a key twice must not create two rows.
  const RowRef found = partition.Find(key, mix);
  if (found != kNoRow) return rows_.At(found);
  const RowLayout& layout = rows_.layout();
  std::byte* const row = partition.CreateRow(key, mix);
  if (layout.has_statistics()) {
    std::fill_n(layout.Statistics(row), 2, 0.0f);
  }
  rules_.FillInitial(key, layout.Embedding(row));
  rule.InitState(layout.State(row), rules_.embedding_dim());
  if (rules_.extended_dim() != 0) rules_.BeginExtended(row);
  return row;
}

}  // namespace oarlock::sparse_table

#endif  // OARLOCK_SPARSE_TABLE_RULES_ROW_UPDATER_H_
