#include "cli/auc_curve.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"

namespace oarlock::cli {
namespace {

constexpr int kBarColumns = 50;
constexpr double kGuessing = 0.5;

}  // namespace

std::string AucCurve(const worker::TrainingSummary& summary, double best_auc) {
  std::string text;
  for (const auto& evaluation : summary.evaluations) {
    if (std::isnan(evaluation.auc())) continue;
    const double share =
        (evaluation.auc() - kGuessing) / (best_auc - kGuessing);
    const int columns = std::clamp(
        static_cast<int>(std::lround(share * kBarColumns)), 0, kBarColumns);
    absl::StrAppendFormat(&text, "  %10d  %.4f  |%-*s|\n",
                          evaluation.trained_examples(), evaluation.auc(),
                          kBarColumns, std::string(columns, '='));
  }
  return text;
}

}  // namespace oarlock::cli
