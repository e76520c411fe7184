// What a job says of itself to those who will score with its model, and how
// they make a configuration of it again.

#ifndef OARLOCK_FLEET_ROLE_JOB_DESCRIPTION_H_
#define OARLOCK_FLEET_ROLE_JOB_DESCRIPTION_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/config/job_config.pb.h"
#include "proto/v1/job_description.pb.h"

namespace oarlock {

// Names of the flags of JobConfig that say what the model is and how lines
// become examples: those of --help's groups Model and Data, less files and
// commands. (Who reads a checkpoint does not want to run what is in it.)
std::vector<std::string> DescribingFlags();

// Their values, defaults included. With a --pipe_command the format is what the
// command writes (DataFormatOf). The shape of a multi_slot line is said of
// multi_slot text only, so that releases that do not know its flags take what
// was trained on the other formats. Theirs do not say it: 13 and 26, as the
// defaults have it.
v1::JobDescription DescribeJob(const v1::JobConfig& config);

// The first flag of FlagOptions.defines_model of which `description`, that of
// `origin`, and `config` have different values, defaults included:
// InvalidArgument names both.
absl::Status CheckSameModel(const v1::JobDescription& description,
                            const std::string& origin,
                            const v1::JobConfig& config);

// A sentence for each flag of FlagOptions.defines_model that `config` sets to
// another value than `description`, that of `origin`, has.
std::vector<std::string> Contradictions(const v1::JobDescription& description,
                                        const std::string& origin,
                                        const v1::JobConfig& config);

// What a job with --resume or --load goes on with, where its checkpoint can be
// read here. --resume: CheckSameModel. --load: sets those flags of
// FlagOptions.defines_model that `config` does not set, and returns
// Contradictions. Servers tell whether the checkpoint is one.
absl::StatusOr<std::vector<std::string>> GoOnWithModel(v1::JobConfig* config);

// The flags that all workers of a job must share, those with their default
// value included.
v1::JobDescription SharedSettings(const v1::JobConfig& config);

// Sets in `config` what it does not set itself. FailedPrecondition when the
// description has a flag that this program does not know, or a value that is
// not legal here: another release wrote it.
absl::Status TakeDescription(const v1::JobDescription& description,
                             v1::JobConfig* config);

// InvalidArgument when `description`, that of `origin`, says nothing and
// `config` has no model either.
absl::Status CheckIsDescribed(const v1::JobDescription& description,
                              const v1::JobConfig& config,
                              const std::string& origin);

}  // namespace oarlock

#endif  // OARLOCK_FLEET_ROLE_JOB_DESCRIPTION_H_
