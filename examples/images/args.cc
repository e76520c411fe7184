#include "examples/images/args.h"

#include "base/status_macros.h"
#include "examples/images/training_images.h"
#include "proto/launch_config.pb.h"

namespace images {

absl::StatusOr<Args> ParseArgs(const oarlock::CommandSyntax& syntax,
                               const v1::ImageConfig& defaults, int argc,
                               char** argv) {
  Args args;
  args.config = defaults;
  oarlock::v1::RoleConfig role;
  OARLOCK_ASSIGN_OR_RETURN(
      oarlock::ParsedCommandLine parsed,
      oarlock::ParseCommandLine(syntax, oarlock::Words(argc, argv, 1),
                                {{{&args.config}, {&role}}}));
  args.help = parsed.help;
  if (args.help.has_value()) return args;
  OARLOCK_RETURN_IF_ERROR(CheckDivision(args.config));
  OARLOCK_ASSIGN_OR_RETURN(
      args.role, oarlock::ResolveRole(oarlock::ReadEnvironment(),
                                      oarlock::ToExplicitRole(role)));
  if (args.config.distributed() &&
      args.role.role == oarlock::Role::kLocal) {
    return absl::InvalidArgumentError(
        "--distributed is given, but no PADDLE_* variable says of what job; "
        "start it by `oarlock launch`, or leave the flag out");
  }
  return args;
}

oarlock::v1::JobConfig JobOf(const v1::ImageConfig& config) {
  oarlock::v1::JobConfig job;
  job.set_mode("sync");
  job.set_job_id(config.job_id());
  job.set_log_dir(config.log_dir());
  job.set_connect_timeout_s(config.connect_timeout_s());
  job.set_lease_s(config.lease_s());
  job.set_token_file(config.token_file());
  job.set_insecure(config.insecure());
  job.set_checkpoint_dir(config.checkpoint_dir());
  // The flag's meaning: to go on where there is something to go on from.
  job.set_resume(!config.checkpoint_dir().empty());
  return job;
}

oarlock::DistributedStrategy StrategyOf(const v1::ImageConfig& config) {
  oarlock::DistributedStrategy strategy;
  strategy.gradient_format = config.gradient_format();
  strategy.bucket_bytes = static_cast<size_t>(config.bucket_kb()) << 10;
  strategy.accumulate_steps = config.accumulate_steps();
  return strategy;
}

oarlock::v1::OptimizerConfig OptimizerOf(const v1::ImageConfig& config,
                                         uint64_t updates) {
  const std::string& rule = config.optimizer();
  const auto momentum = static_cast<float>(config.momentum());
  const auto decay = static_cast<float>(config.weight_decay());
  oarlock::v1::OptimizerConfig optimizer;
  optimizer.set_learning_rate(static_cast<float>(config.learning_rate()));
  optimizer.set_warmup_steps(config.warmup_steps());
  if (rule == "sgd") {
    optimizer.mutable_sgd();
  } else if (rule == "momentum") {
    optimizer.mutable_momentum()->set_momentum(momentum);
  } else if (rule == "adam") {
    optimizer.mutable_adam();
  } else if (rule == "adamw") {
    optimizer.mutable_adamw()->set_weight_decay(decay);
  } else {
    optimizer.mutable_lars()->set_momentum(momentum);
    optimizer.mutable_lars()->set_weight_decay(decay);
  }
  if (rule != "adamw" && rule != "lars") optimizer.set_l2(decay);
  if (config.learning_rate_schedule() == "cosine") {
    optimizer.mutable_schedule()->mutable_cosine()->set_steps(updates);
  }
  return optimizer;
}

}  // namespace images
