// Scores of files with a trained model, in the order of their lines.

#ifndef OARLOCK_FLEET_SERVING_INFERENCE_H_
#define OARLOCK_FLEET_SERVING_INFERENCE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/types.h"
#include "client/parameter_client.h"
#include "data/data_options.h"
#include "models/model.h"

namespace oarlock {

struct InferenceOptions {
  data::DataOptions data;
  std::vector<std::string> files;
  // Whether lines have labels; else each is what it is in training less its
  // label.
  bool has_labels = true;
  // Examples of a prediction, at least 1.
  size_t batch_size = 512;
  // At least 1.
  int num_threads = 1;
};

// Where the model's parameters are.
struct InferenceTables {
  client::ParameterClient* parameters = nullptr;
  // One per sparse input of the model.
  std::vector<TableId> sparse;
  // Id 0: the model has no dense parameters.
  TableId dense;
};

struct InferenceReport {
  uint64_t num_lines = 0;
  // Of them malformed, or only a comment.
  uint64_t num_bad_lines = 0;
  uint64_t num_comments = 0;
  // Of the others; NaN where labels do not tell.
  double auc = 0;
  double logloss = 0;
  double label_mean = 0;
  double seconds = 0;
};

// Takes the scores of the next lines: the probability of label 1, NaN of a
// malformed line and of a comment. Called by one thread at a time; an error
// ends the run.
using ScoreSink = std::function<absl::Status(absl::Span<const float> scores)>;

// Predicts all lines of all files, one after the other. Dense parameters are
// those at the beginning, rows those of the moment; a key without a row has its
// initial value, and gets no row. The first error ends it: of a file, more
// malformed lines than the options allow, a failed pull, the sink's.
// FailedPrecondition where all lines are malformed.
absl::StatusOr<InferenceReport> Infer(const models::Model& model,
                                      const InferenceTables& tables,
                                      const InferenceOptions& options,
                                      const ScoreSink& sink);

}  // namespace oarlock

#endif  // OARLOCK_FLEET_SERVING_INFERENCE_H_
