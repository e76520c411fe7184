#include "worker/config/push_size.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "base/types.h"
#include "worker/config/training_mode.h"

namespace oarlock::worker {

absl::Status CheckPushSize(const models::ModelSpec& spec,
                           const v1::JobConfig& config) {
  // Less than a message has room for, since partitions have parts of unlike
  // sizes.
  constexpr double kBytesOfPart = 40 << 20;
  const TrainingMode mode = ModeOf(config);
  double steps = config.batch_size();
  if (mode != TrainingMode::kAsync && mode != TrainingMode::kSsp) {
    steps *= config.thread_num();
  }
  if (mode == TrainingMode::kGeo) steps *= config.geo_steps();
  for (const models::SparseInputSpec& input : spec.sparse_inputs) {
    double rows = steps * static_cast<double>(input.slots.size());
    if (config.sparse_feature_dim() > 0) {
      rows = std::min(rows, static_cast<double>(config.sparse_feature_dim()));
    }
    if (mode == TrainingMode::kGeo) {
      rows = std::min(rows, static_cast<double>(config.geo_rows_max()));
    }
    const double bytes =
        rows * static_cast<double>(sizeof(Key) + input.row_dim * sizeof(float));
    const double needed = std::ceil(bytes / kBytesOfPart);
    if (needed <= config.num_partitions()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("--num_partitions is ", config.num_partitions(),
                     ", and a push to table '", input.table, "' may have ",
                     static_cast<uint64_t>(bytes) >> 20, " MB of rows, ",
                     static_cast<uint64_t>(kBytesOfPart) >> 20,
                     " MB of a partition at most; give --num_partitions ",
                     std::bit_ceil(static_cast<uint64_t>(needed)),
                     ", or lower --batch_size"));
  }
  return absl::OkStatus();
}

}  // namespace oarlock::worker
