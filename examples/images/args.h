// Command line of the examples with images.

#ifndef OARLOCK_EXAMPLES_IMAGES_ARGS_H_
#define OARLOCK_EXAMPLES_IMAGES_ARGS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cluster/environment.h"
#include "examples/images/image_config.pb.h"
#include "fleet/command_line/command_line.h"
#include "fleet/data_parallel/worker_group.h"
#include "proto/job_config.pb.h"
#include "proto/table.pb.h"

namespace images {

struct Args {
  // Text to print instead of running.
  std::optional<std::string> help;
  v1::ImageConfig config;
  oarlock::RoleAssignment role;
};

// Reads flags over `defaults` and the environment. InvalidArgument: one
// sentence.
absl::StatusOr<Args> ParseArgs(const oarlock::CommandSyntax& syntax,
                               const v1::ImageConfig& defaults, int argc,
                               char** argv);

// What the config says to each of those who ask.
oarlock::v1::JobConfig JobOf(const v1::ImageConfig& config);
oarlock::DistributedStrategy StrategyOf(const v1::ImageConfig& config);
// `updates`: how many there will be, for the schedule.
oarlock::v1::OptimizerConfig OptimizerOf(const v1::ImageConfig& config,
                                         uint64_t updates);

}  // namespace images

#endif  // OARLOCK_EXAMPLES_IMAGES_ARGS_H_
