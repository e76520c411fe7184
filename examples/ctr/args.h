// Command line of the CTR example: the names and defaults of PaddlePaddle's
// quick start.

#ifndef OARLOCK_EXAMPLES_CTR_ARGS_H_
#define OARLOCK_EXAMPLES_CTR_ARGS_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cluster/environment.h"
#include "proto/config/job_config.pb.h"

namespace ctr {

struct Args {
  // Text to print instead of running.
  std::optional<std::string> help;
  bool is_local = false;
  // Batch 100, 10 threads, 20 epochs, SGD 1e-4 on the summed loss, embeddings
  // of 10 floats uniform in [-1, 1), 10,000,001 ids, raw_data/part-*; lines of
  // criteo are scaled by constants.
  oarlock::v1::JobConfig config;
  oarlock::cluster::ExplicitRole role;
};

// InvalidArgument: one sentence.
absl::StatusOr<Args> ParseArgs(int argc, char** argv);
// Prints it; returns the exit code.
int ReportUsage(const absl::Status& status);

}  // namespace ctr

#endif  // OARLOCK_EXAMPLES_CTR_ARGS_H_
