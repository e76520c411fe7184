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
  // Made when it does not exist.
  std::string out_dir = "";
  int threads = 1;  // 1 to kMaxThreads

  static constexpr int kMaxFiles = 100'000;
  static constexpr int kMaxThreads = 1024;

  absl::Status Validate() const;
};

// What is known about the generated rows, counted while they are written.
struct GeneratorReport {
  uint64_t rows = 0;
  uint64_t bytes = 0;
  double ctr = 0;
  // Of the true click probability of each row: no model does better on these
  // rows but by chance.
  double best_auc = 0;
  double best_logloss = 0;
  // Of the planted main effects alone, intercept and slope refitted to these
  // rows by maximum likelihood. Since interactions are uncorrelated with every
  // function of one column, this is what a linear model over one-hot columns
  // comes to with endless data, and above what it reaches with these rows.
  double linear_auc = 0;
  double linear_logloss = 0;
};

// Writes `files` files out_dir/part-0 ..., equal in rows but for one. The rows
// and their order follow from `seed` alone: the concatenation of the files is
// the same bytes for any number of files and threads, and the first rows of a
// longer run. A different seed is a different model: hold out some of the
// files to test, do not generate twice. Each file appears complete under its
// name or not at all.
//
// InvalidArgument for options out of range; FailedPrecondition when out_dir
// has part-N files that would remain beside the new ones; else an error of the
// file system.
absl::StatusOr<GeneratorReport> GenerateCriteo(const GeneratorOptions& options);

}  // namespace oarlock::data

#endif  // OARLOCK_DATA_SYNTHETIC_CRITEO_GENERATOR_H_
