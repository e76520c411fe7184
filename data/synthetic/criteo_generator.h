// Writes Criteo-format data from a planted model (criteo_world.h).

#ifndef OARLOCK_DATA_SYNTHETIC_CRITEO_GENERATOR_H_
#define OARLOCK_DATA_SYNTHETIC_CRITEO_GENERATOR_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace oarlock::data {

struct GeneratorOptions {
  uint64_t rows = 1'000'000;  // at least `files`
  int files = 8;              // 1 to kMaxFiles
  uint64_t seed = 1;
  // Created when it does not exist.
  std::string out_dir = "";
  int threads = 1;  // 1 to kMaxThreads

  static constexpr int kMaxFiles = 100'000;
  static constexpr int kMaxThreads = 1024;

  absl::Status Validate() const;
};

// Figures of the generated rows, counted while they are written.
struct GeneratorReport {
  uint64_t rows = 0;
  uint64_t bytes = 0;
  double ctr = 0;
  // Figures of the true click probability of each row. A model does better on
  // these rows only by chance.
  double best_auc = 0;
  double best_logloss = 0;
  // Figures of the planted main effects alone, with intercept and slope
  // refitted to these rows by maximum likelihood. Interactions are uncorrelated
  // with every function of one column. So a linear model over one-hot columns
  // would reach this with endless data, and reaches less with these rows.
  double linear_auc = 0;
  double linear_logloss = 0;
};

// Writes `files` files out_dir/part-0 ..., whose numbers of rows differ by one
// at most. The rows and their order follow from `seed` alone. The concatenation
// of the files is the same bytes for any number of files and threads, and is
// the start of a run with more rows. A different seed gives a different model:
// to test, hold out some of the files instead of generating twice. Each file
// appears complete under its name or not at all.
//
// InvalidArgument for options out of range; FailedPrecondition when out_dir has
// part-N files that would remain next to the new ones; else an error of the
// file system.
absl::StatusOr<GeneratorReport> GenerateCriteo(const GeneratorOptions& options);

}  // namespace oarlock::data

#endif  // OARLOCK_DATA_SYNTHETIC_CRITEO_GENERATOR_H_
