#include "worker/config/optimizer_config.h"

#include <cmath>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "optim/rules.h"
#include "worker/config/training_mode.h"

namespace oarlock::worker {
namespace {

// See OptimizerOf.
std::string RuleFor(TableKind kind, const std::string& rule) {
  if (kind == TableKind::kSparse) return rule;
  if (rule == "shared_adagrad") return "adagrad";
  if (rule == "shared_adam") return "adam";
  if (rule == "paddle_adagrad") return "paddle_std_adagrad";
  if (rule == "paddle_adagrad_v2") return "adagrad";
  if (rule == "paddle_shared_adam") return "paddle_adam";
  return rule;
}

void SetAdagrad(const v1::JobConfig& config, v1::Adagrad* adagrad) {
  adagrad->set_initial_accumulator(
      static_cast<float>(config.adagrad_initial_accumulator()));
}

void SetPaddleAdagrad(const v1::JobConfig& config, v1::PaddleAdagrad* adagrad) {
  adagrad->set_initial_g2sum(static_cast<float>(config.paddle_initial_g2sum()));
}

void SetRule(const v1::JobConfig& config, const std::string& rule,
             v1::OptimizerConfig* optimizer) {
  if (rule == "sgd") {
    optimizer->mutable_sgd();
  } else if (rule == "momentum") {
    v1::Momentum* momentum = optimizer->mutable_momentum();
    momentum->set_momentum(static_cast<float>(config.momentum()));
    momentum->set_nesterov(config.nesterov());
  } else if (rule == "adagrad") {
    SetAdagrad(config, optimizer->mutable_adagrad());
  } else if (rule == "shared_adagrad") {
    SetAdagrad(config, optimizer->mutable_shared_adagrad());
  } else if (rule == "adam") {
    optimizer->mutable_adam();
  } else if (rule == "lazy_adam") {
    optimizer->mutable_lazy_adam();
  } else if (rule == "shared_adam") {
    optimizer->mutable_shared_adam();
  } else if (rule == "adamw") {
    optimizer->mutable_adamw()->set_weight_decay(
        static_cast<float>(config.weight_decay()));
  } else if (rule == "ftrl") {
    optimizer->mutable_ftrl()->set_beta(static_cast<float>(config.ftrl_beta()));
  } else if (rule == "lars") {
    v1::Lars* lars = optimizer->mutable_lars();
    lars->set_momentum(static_cast<float>(config.momentum()));
    lars->set_coefficient(static_cast<float>(config.lars_coefficient()));
    lars->set_weight_decay(static_cast<float>(config.lars_weight_decay()));
  } else if (rule == "paddle_naive") {
    optimizer->mutable_paddle_naive();
  } else if (rule == "paddle_adagrad") {
    SetPaddleAdagrad(config, optimizer->mutable_paddle_adagrad());
  } else if (rule == "paddle_std_adagrad") {
    SetPaddleAdagrad(config, optimizer->mutable_paddle_std_adagrad());
  } else if (rule == "paddle_adagrad_v2") {
    optimizer->mutable_paddle_adagrad_v2();
  } else if (rule == "paddle_adam") {
    optimizer->mutable_paddle_adam();
  } else if (rule == "paddle_shared_adam") {
    optimizer->mutable_paddle_shared_adam();
  }
}

// "1000:1,2000:0.1".
absl::Status SetPieces(absl::string_view text, uint64_t pushes_per_step,
                       v1::PiecewiseRate* piecewise) {
  uint64_t last = 0;
  for (const absl::string_view piece : absl::StrSplit(text, ',')) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(piece, absl::MaxSplits(':', 1));
    // So that the product with the number of workers stays in range.
    constexpr uint64_t kStepsMax = uint64_t{1} << 40;
    uint64_t until = 0;
    float factor = 0;
    if (!absl::SimpleAtoi(parts.first, &until) || until < 1 ||
        until > kStepsMax || !absl::SimpleAtof(parts.second, &factor) ||
        !std::isfinite(factor) || factor < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("--schedule_pieces has '", piece,
                       "'; legal is STEP:FACTOR, STEP 1 "
                       "to ",
                       kStepsMax,
                       ", FACTOR 0 or more; write for example "
                       "1000:1,2000:0.1"));
    }
    if (until <= last) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--schedule_pieces has '", piece, "' after a piece up to step ", last,
          "; legal are steps that grow; write for example 1000:1,2000:0.1"));
    }
    last = until;
    v1::PiecewiseRate::Piece* added = piecewise->add_pieces();
    added->set_until_step(until * pushes_per_step);
    added->set_factor(factor);
  }
  return absl::OkStatus();
}

absl::Status SetSchedule(const v1::JobConfig& config, uint64_t pushes_per_step,
                         v1::OptimizerConfig* optimizer) {
  const std::string& name = config.learning_rate_schedule();
  if (name == "constant") return absl::OkStatus();
  v1::LearningRateSchedule* schedule = optimizer->mutable_schedule();
  if (name == "piecewise") {
    return SetPieces(config.schedule_pieces(), pushes_per_step,
                     schedule->mutable_piecewise());
  }
  if (config.schedule_steps() == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--learning_rate_schedule is ", name,
        " and --schedule_steps is 0; "
        "legal is 1 or more; set it to the steps of a worker that the schedule "
        "is for"));
  }
  const uint64_t steps = config.schedule_steps() * pushes_per_step;
  const float end = static_cast<float>(config.schedule_end_factor());
  const float rate = static_cast<float>(config.schedule_decay_rate());
  if (name == "exponential") {
    schedule->mutable_exponential()->set_steps(steps);
    schedule->mutable_exponential()->set_rate(rate);
  } else if (name == "step") {
    schedule->mutable_step()->set_steps(steps);
    schedule->mutable_step()->set_rate(rate);
  } else if (name == "polynomial") {
    schedule->mutable_polynomial()->set_steps(steps);
    schedule->mutable_polynomial()->set_end_factor(end);
    schedule->mutable_polynomial()->set_power(
        static_cast<float>(config.schedule_power()));
  } else {
    schedule->mutable_cosine()->set_steps(steps);
    schedule->mutable_cosine()->set_end_factor(end);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<v1::OptimizerConfig> OptimizerOf(const v1::JobConfig& config,
                                                uint32_t num_workers,
                                                TableKind kind) {
  if (config.optimizer() == "lars" && kind != TableKind::kReplica) {
    return absl::InvalidArgumentError(
        "--optimizer is lars; with parameter servers legal are all others, as "
        "its norms are those of whole parameters, and servers hold blocks; "
        "choose momentum, or train collectively");
  }
  v1::OptimizerConfig optimizer;
  // A sync round is one push, whatever the number of workers.
  const bool is_one =
      ModeOf(config) == TrainingMode::kSync || kind == TableKind::kReplica;
  const uint32_t pushes_per_step = is_one ? 1 : num_workers;
  const bool own_rate =
      kind == TableKind::kSparse && config.embedding_learning_rate() > 0;
  optimizer.set_learning_rate(static_cast<float>(
      own_rate ? config.embedding_learning_rate() : config.learning_rate()));
  optimizer.set_warmup_steps(config.warmup_steps() * pushes_per_step);
  SetRule(config, RuleFor(kind, config.optimizer()), &optimizer);
  optimizer.set_l1(static_cast<float>(config.l1()));
  optimizer.set_l2(static_cast<float>(config.l2()));
  if (config.weight_bound() > 0) {
    const float bound = static_cast<float>(config.weight_bound());
    optimizer.mutable_weight_bounds()->set_lower(-bound);
    optimizer.mutable_weight_bounds()->set_upper(bound);
  }
  OARLOCK_RETURN_IF_ERROR(SetSchedule(config, pushes_per_step, &optimizer));
  OARLOCK_RETURN_IF_ERROR(optim::UpdateRule::Create(optimizer).status());
  return optimizer;
}

}  // namespace oarlock::worker
