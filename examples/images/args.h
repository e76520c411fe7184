// Command line of the examples with images.

#ifndef OARLOCK_EXAMPLES_IMAGES_ARGS_H_
#define OARLOCK_EXAMPLES_IMAGES_ARGS_H_

#include <google/protobuf/message.h>

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cluster/environment.h"
#include "examples/images/image_config.pb.h"
#include "flags/command_line.h"
#include "fleet/data_parallel/worker_group.h"
#include "proto/config/job_config.pb.h"
#include "proto/v1/table.pb.h"

namespace images {

struct Args {
  // Text to print instead of running.
  std::optional<std::string> help;
  v1::ImageConfig config;
  oarlock::cluster::RoleAssignment role;
};

// Reads flags over `defaults` and the environment; `own`, if not null, holds
// flags of one example. InvalidArgument: one sentence.
absl::StatusOr<Args> ParseArgs(const oarlock::flags::CommandSyntax& syntax,
                               const v1::ImageConfig& defaults, int argc,
                               char** argv,
                               google::protobuf::Message* own = nullptr);

// What a config of ParseArgs says to each of those who ask.
oarlock::v1::JobConfig JobOf(const v1::ImageConfig& config);
oarlock::DistributedStrategy StrategyOf(const v1::ImageConfig& config);
// `updates`: how many there will be, for the schedule. `update_images`: of one
// of them, on all workers.
oarlock::v1::OptimizerConfig OptimizerOf(const v1::ImageConfig& config,
                                         uint64_t updates,
                                         uint64_t update_images);

}  // namespace images

#endif  // OARLOCK_EXAMPLES_IMAGES_ARGS_H_
