#include "examples/ctr/args.h"

#include <vector>

#include "base/status_macros.h"
#include "data/data_options.h"
#include "examples/ctr/example_config.pb.h"
#include "flags/command_line.h"
#include "fleet/fleet.h"
#include "proto/config/launch_config.pb.h"

namespace ctr {
namespace {

oarlock::flags::CommandSyntax Syntax() {
  return {
      .name = "train",
      .description =
          "Trains CTR-DNN on click logs in Criteo's format, with the quick "
          "start's settings unless told otherwise.",
      .examples =
          "  train --is_local 1\n"
          "  oarlock launch --worker_num 2 --server_num 2 train\n"
          "  train --is_local 1 --optimizer adagrad --learning_rate 0.01 "
          "--init_range 0.01 --dense_transform log1p --loss mean\n",
      .takes_config = true,
  };
}

// What the quick start's train.py and network_conf.py say, but for the
// transform of dense features (SetDenseTransform).
oarlock::v1::JobConfig QuickStart() {
  oarlock::v1::JobConfig config;
  config.set_model("ctr_dnn");
  config.set_batch_size(100);
  config.set_thread_num(10);
  config.set_epochs(20);
  config.set_embedding_size(10);
  config.set_sparse_feature_dim(10000001);
  config.set_init_range(1);
  config.set_optimizer("sgd");
  config.set_learning_rate(1e-4);
  config.set_warmup_steps(0);
  config.set_loss("sum");
  config.set_mode("async");
  return config;
}

// The quick start's constants are of Criteo's integers, so other lines do not
// get them. What a user has said stays, to be refused where it is wrong.
void SetDenseTransform(oarlock::v1::JobConfig* config) {
  if (config->has_dense_transform() ||
      oarlock::Fleet::DataFormatOf(*config) !=
          oarlock::data::DataOptions::Format::kCriteo) {
    return;
  }
  config->set_dense_transform("quick_start");
}

}  // namespace

absl::StatusOr<Args> ParseArgs(int argc, char** argv) {
  Args args;
  args.config = QuickStart();
  v1::ExampleConfig example;
  oarlock::v1::RoleConfig role;
  const std::vector<oarlock::flags::FlagSource> flags = {
      {&args.config}, {&example}, {&role}};
  OARLOCK_ASSIGN_OR_RETURN(
      oarlock::flags::ParsedCommandLine parsed,
      oarlock::flags::ParseCommandLine(
          Syntax(), oarlock::flags::Words(argc, argv, 1), flags));
  SetDenseTransform(&args.config);
  // Which is a default as others are.
  if (parsed.help.has_value())
    args.help = oarlock::flags::HelpText(Syntax(), flags);
  args.is_local = example.is_local();
  args.role = oarlock::cluster::ToExplicitRole(role);
  if (args.config.train_files().empty()) {
    args.config.add_train_files("raw_data/part-*");
  }
  return args;
}

int ReportUsage(const absl::Status& status) {
  return oarlock::flags::ReportUsageError(Syntax(), status);
}

}  // namespace ctr
