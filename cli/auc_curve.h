// How a model became better, for a terminal.

#ifndef OARLOCK_CLI_AUC_CURVE_H_
#define OARLOCK_CLI_AUC_CURVE_H_

#include <string>

#include "worker/report/summary.h"

namespace oarlock::cli {

// A line for each evaluation of test files: the examples trained before it, its
// AUC, and a bar that is empty at .5, what guessing reaches, and full at
// `best_auc`. Evaluations that have no AUC are left out. REQUIRES: best_auc is
// above .5.
std::string AucCurve(const worker::TrainingSummary& summary, double best_auc);

}  // namespace oarlock::cli

#endif  // OARLOCK_CLI_AUC_CURVE_H_
