#include "examples/images/args.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "examples/images/training_images.h"
#include "fleet/data_parallel/strategy_check.h"
#include "nn/backends/device_choice.h"
#include "proto/config/launch_config.pb.h"

namespace images {
namespace {

// The epochs after which the step schedule decays.
absl::StatusOr<std::vector<double>> Milestones(const v1::ImageConfig& config) {
  std::vector<double> milestones;
  for (const std::string& word : config.milestones()) {
    double epoch = 0;
    const double last = milestones.empty() ? 0 : milestones.back();
    if (!absl::SimpleAtod(word, &epoch) || !std::isfinite(epoch) ||
        epoch <= last) {
      return absl::InvalidArgumentError(
          absl::StrCat("--milestones has \"", word,
                       "\"; legal are ascending numbers of "
                       "epochs above 0; for example --milestones 30,60,80"));
    }
    milestones.push_back(epoch);
  }
  return milestones;
}

// Whether flags fit each other.
absl::Status CheckConfig(const v1::ImageConfig& config) {
  OARLOCK_ASSIGN_OR_RETURN(const std::vector<double> milestones,
                           Milestones(config));
  // Another schedule may override a file's step, so milestones alone are legal.
  if (config.learning_rate_schedule() == "step" && milestones.empty()) {
    return absl::InvalidArgumentError(
        "--learning_rate_schedule is step and --milestones is empty; legal are "
        "one or more epochs; for example --milestones 30,60,80");
  }
  if (config.warmup_steps() > 0 && config.warmup_epochs() > 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--warmup_steps is ", config.warmup_steps(), " and --warmup_epochs is ",
        config.warmup_epochs(), "; legal is one of them; set the other to 0"));
  }
  OARLOCK_RETURN_IF_ERROR(oarlock::CheckFormatOfNccl(StrategyOf(config), "--"));
  return oarlock::nn::CheckDevice(
      config.device(), config.math(),
      oarlock::cluster::SelectedGpus(oarlock::cluster::ReadEnvironment()));
}

// Whether they fit what this process is in its job, before it joins that.
absl::Status CheckConfigOf(const oarlock::cluster::RoleAssignment& role,
                           const v1::ImageConfig& config) {
  const bool has_ranks =
      role.role == oarlock::cluster::Role::kCollective && role.num_workers > 1;
  if (has_ranks && config.collective_backend() == "nccl" &&
      config.device() == "cpu") {
    return absl::InvalidArgumentError(
        "--collective_backend is nccl and --device is cpu, and NCCL sums "
        "between GPUs; legal with nccl are gpu and auto, and on cpu "
        "--collective_backend auto and tcp");
  }
  if (config.distributed() && role.role == oarlock::cluster::Role::kLocal) {
    return absl::InvalidArgumentError(
        "--distributed is given, but no PADDLE_* variable says of what job; "
        "start it by `oarlock launch`, or leave the flag out");
  }
  return absl::OkStatus();
}

uint32_t WarmupSteps(const v1::ImageConfig& config, uint64_t updates) {
  if (config.warmup_epochs() == 0) return config.warmup_steps();
  const double steps = config.warmup_epochs() * updates / config.epochs();
  return static_cast<uint32_t>(std::min<double>(
      std::round(steps), std::numeric_limits<uint32_t>::max()));
}

// Constant between the updates that milestones fall on. Those that fall on the
// same one, in a short run, are taken together.
oarlock::v1::PiecewiseRate PiecesOf(const v1::ImageConfig& config,
                                    uint64_t updates) {
  oarlock::v1::PiecewiseRate rate;
  double factor = 1;
  uint64_t last = 0;
  const absl::StatusOr<std::vector<double>> milestones = Milestones(config);
  OARLOCK_CHECK(milestones.ok());
  for (const double epoch : *milestones) {
    // Not beyond the run, whose end is near enough to it.
    const auto until = static_cast<uint64_t>(
        std::round(std::min<double>(epoch / config.epochs(), 1) * updates));
    if (until > last) {
      oarlock::v1::PiecewiseRate::Piece* piece = rate.add_pieces();
      piece->set_until_step(until);
      piece->set_factor(static_cast<float>(factor));
      last = until;
    }
    factor *= config.decay_rate();
  }
  oarlock::v1::PiecewiseRate::Piece* rest = rate.add_pieces();
  rest->set_until_step(last + 1);
  rest->set_factor(static_cast<float>(factor));
  return rate;
}

}  // namespace

absl::StatusOr<Args> ParseArgs(const oarlock::flags::CommandSyntax& syntax,
                               const v1::ImageConfig& defaults, int argc,
                               char** argv, google::protobuf::Message* own) {
  Args args;
  args.config = defaults;
  oarlock::v1::RoleConfig role;
  std::vector<oarlock::flags::FlagSource> sources = {{&args.config}};
  if (own != nullptr) sources.push_back({own});
  sources.push_back({&role});
  OARLOCK_ASSIGN_OR_RETURN(
      oarlock::flags::ParsedCommandLine parsed,
      oarlock::flags::ParseCommandLine(
          syntax, oarlock::flags::Words(argc, argv, 1), sources));
  args.help = parsed.help;
  if (args.help.has_value()) return args;
  OARLOCK_RETURN_IF_ERROR(CheckDivision(args.config));
  OARLOCK_RETURN_IF_ERROR(CheckConfig(args.config));
  OARLOCK_ASSIGN_OR_RETURN(
      args.role,
      oarlock::cluster::ResolveRole(oarlock::cluster::ReadEnvironment(),
                                    oarlock::cluster::ToExplicitRole(role)));
  OARLOCK_RETURN_IF_ERROR(CheckConfigOf(args.role, args.config));
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
  strategy.collective_backend = config.collective_backend();
  strategy.accumulate_steps = config.accumulate_steps();
  return strategy;
}

oarlock::v1::OptimizerConfig OptimizerOf(const v1::ImageConfig& config,
                                         uint64_t updates,
                                         uint64_t update_images) {
  const std::string& rule = config.optimizer();
  const auto momentum = static_cast<float>(config.momentum());
  const auto decay = static_cast<float>(config.weight_decay());
  oarlock::v1::OptimizerConfig optimizer;
  const double scale =
      config.base_batch_size() > 0
          ? static_cast<double>(update_images) / config.base_batch_size()
          : 1;
  optimizer.set_learning_rate(
      static_cast<float>(scale * config.learning_rate()));
  optimizer.set_warmup_steps(WarmupSteps(config, updates));
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
  } else if (config.learning_rate_schedule() == "step") {
    *optimizer.mutable_schedule()->mutable_piecewise() =
        PiecesOf(config, updates);
  }
  return optimizer;
}

}  // namespace images
