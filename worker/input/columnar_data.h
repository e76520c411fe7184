// Columnar files on one worker: which there are, and how their row groups are
// read.

#ifndef OARLOCK_WORKER_INPUT_COLUMNAR_DATA_H_
#define OARLOCK_WORKER_INPUT_COLUMNAR_DATA_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "data/data_options.h"
#include "data/range_source.h"
#include "data/rows/row_reader.h"
#include "proto/config/job_config.pb.h"
#include "worker/input/epoch_ranges.h"

namespace oarlock::worker {

// Immutable, so thread-safe.
class ColumnarData {
 public:
  // Lists the files that match, and checks their columns. `options` say what a
  // silent reader is asked. NotFound: a pattern matches nothing.
  // InvalidArgument names a file whose columns are not those of the features.
  // FailedPrecondition: nobody can read them here.
  static absl::StatusOr<std::unique_ptr<ColumnarData>> Open(
      const v1::JobConfig& config, const std::vector<std::string>& patterns,
      const data::DataOptions& options);

  std::vector<std::string> paths() const;
  // Rows of each file.
  std::vector<uint64_t> counts() const;
  // Whole row groups; small ones that stand in a file together are one.
  std::vector<data::DataRange> groups() const;

  // What reads ranges of rows. It outlives the readers.
  EpochRanges::NewReader new_reader() const;

 private:
  ColumnarData() = default;

  // Always there.
  std::optional<data::RowSourceOptions> options_;
};

}  // namespace oarlock::worker

#endif  // OARLOCK_WORKER_INPUT_COLUMNAR_DATA_H_
