#include "worker/epoch/step_log.h"

#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/log.h"
#include "base/log2_histogram.h"

namespace oarlock::worker {

void LogStep(const EpochContext& context, const PhaseTotals& totals) {
  if (totals.steps % context.config->print_period() != 0) return;
  std::string stale;
  if (const auto counts = context.progress->Staleness(context.phase);
      !counts.empty()) {
    stale =
        absl::StrFormat("  staleness p50 %.0f p99 %.0f",
                        Log2Quantile(counts, .5), Log2Quantile(counts, .99));
  }
  Log().info("{} epoch {} step {}  loss {:.4f}  auc {:.4f}{}",
             context.phase.phase, context.phase.epoch + 1, totals.steps,
             totals.loss_sum / totals.examples,
             context.progress->Auc(context.phase), stale);
}

absl::Status CheckLoss(const EpochContext& context, double loss_sum) {
  if (std::isfinite(loss_sum)) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "training has diverged: the loss of a batch of ", context.phase_name,
      " is ", std::isnan(loss_sum) ? "nan" : "infinite",
      "; lower --learning_rate, or clip gradients by --clip_norm, and go on "
      "from a checkpoint of before"));
}

}  // namespace oarlock::worker
