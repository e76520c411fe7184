#include "sparse_table/rules/row_updater.h"

#include <algorithm>
#include <limits>

#include "optim/rules.h"

namespace oarlock::sparse_table {

void RowUpdater::UpdateExtended(absl::Span<const ExtendedUpdate> updates,
                                uint64_t version) const {
  const optim::UpdateRule& rule = rules_.extended_rule();
  rule.Visit([&](const auto& base) {
    const auto warm = rule.ForStep(base, version);
    for (const ExtendedUpdate& update : updates) {
      warm.Apply(rules_.Extended(update.row), rules_.ExtendedState(update.row),
                 update.gradient, rules_.extended_dim());
    }
  });
}

void RowUpdater::AddStatistics(std::byte* row, float show, float click,
                               uint32_t now) const {
  const RowHeader& header = RowLayout::Header(row);
  float* const statistics = rows_.layout().Statistics(row);
  const float factor =
      rules_.score_rule().DecayFactor(WidenTouch(header.low_touch(), now), now);
  // Each push is finite; what they add up to stays so.
  constexpr float kMost = std::numeric_limits<float>::max();
  statistics[0] = std::min(factor * statistics[0] + show, kMost);
  statistics[1] = std::min(factor * statistics[1] + click, kMost);
  if (!header.extended() && rules_.WantsExtended(rules_.score_rule().Score(
                                statistics[0], statistics[1]))) {
    rules_.CreateExtended(row);
  }
}

}  // namespace oarlock::sparse_table
