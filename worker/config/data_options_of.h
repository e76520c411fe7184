// How the lines of a job's files are to be read, as its flags say.

#ifndef OARLOCK_WORKER_CONFIG_DATA_OPTIONS_OF_H_
#define OARLOCK_WORKER_CONFIG_DATA_OPTIONS_OF_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "data/data_options.h"
#include "data/features/feature_list.h"
#include "proto/config/job_config.pb.h"

namespace oarlock::worker {

// --data_format, whether lines are those of files or of a --pipe_command. Where
// it is not set, a command writes PaddlePaddle's multi_slot.
data::DataOptions::Format DataFormatOf(const v1::JobConfig& config);

// The features of columnar files. InvalidArgument names what is wrong.
absl::StatusOr<data::FeatureList> FeaturesOf(const v1::JobConfig& config);

// Makes of --features, where it names a file, what the file says, in the order
// of the names. NotFound: there is no such file. InvalidArgument: it is no list
// of features, or the data has no columns.
absl::Status TakeFeatures(v1::JobConfig* config);

// InvalidArgument when --dense_dim or --num_slots is set to what a line of the
// format does not have: only those of multi_slot text come in several shapes.
absl::Status CheckDataFlags(const v1::JobConfig& config);

// REQUIRES: a valid config.
data::DataOptions DataOptionsOf(const v1::JobConfig& config);

}  // namespace oarlock::worker

#endif  // OARLOCK_WORKER_CONFIG_DATA_OPTIONS_OF_H_
