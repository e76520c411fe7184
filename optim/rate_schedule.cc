#include "optim/rate_schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"

namespace oarlock::optim {
namespace {

absl::Status Refuse(absl::string_view field, absl::string_view value,
                    absl::string_view legal) {
  return absl::InvalidArgumentError(
      absl::StrCat("optimizer.schedule.", field, " is ", value, "; legal is ",
                   legal, "; correct the table's optimizer"));
}

absl::Status CheckSteps(absl::string_view field, uint64_t steps) {
  if (steps >= 1) return absl::OkStatus();
  return Refuse(field, "0", "1 or more");
}

absl::Status CheckFactor(absl::string_view field, float factor) {
  if (factor >= 0 && std::isfinite(factor)) return absl::OkStatus();
  return Refuse(field, absl::StrCat(factor), "0 or more, finite");
}

}  // namespace

absl::StatusOr<RateSchedule> RateSchedule::Create(
    const v1::OptimizerConfig& config) {
  RateSchedule schedule;
  schedule.warmup_steps_ = config.warmup_steps();
  OARLOCK_RETURN_IF_ERROR(schedule.Set(config.schedule()));
  return schedule;
}

absl::Status RateSchedule::Set(const v1::LearningRateSchedule& config) {
  switch (config.kind_case()) {
    case v1::LearningRateSchedule::kExponential:
      kind_ = Kind::kExponential;
      return SetRate("exponential", config.exponential().steps(),
                     config.exponential().rate());
    case v1::LearningRateSchedule::kStep:
      kind_ = Kind::kStep;
      return SetRate("step", config.step().steps(), config.step().rate());
    case v1::LearningRateSchedule::kPolynomial:
      kind_ = Kind::kPolynomial;
      steps_ = static_cast<double>(config.polynomial().steps());
      end_ = config.polynomial().end_factor();
      power_ =
          config.polynomial().has_power() ? config.polynomial().power() : 1;
      OARLOCK_RETURN_IF_ERROR(
          CheckSteps("polynomial.steps", config.polynomial().steps()));
      OARLOCK_RETURN_IF_ERROR(CheckFactor("polynomial.end_factor",
                                          config.polynomial().end_factor()));
      return CheckFactor("polynomial.power", config.polynomial().power());
    case v1::LearningRateSchedule::kCosine:
      kind_ = Kind::kCosine;
      steps_ = static_cast<double>(config.cosine().steps());
      end_ = config.cosine().end_factor();
      OARLOCK_RETURN_IF_ERROR(
          CheckSteps("cosine.steps", config.cosine().steps()));
      return CheckFactor("cosine.end_factor", config.cosine().end_factor());
    case v1::LearningRateSchedule::kPiecewise:
      kind_ = Kind::kPiecewise;
      return SetPieces(config.piecewise());
    case v1::LearningRateSchedule::KIND_NOT_SET:
      break;
  }
  return absl::OkStatus();
}

absl::Status RateSchedule::SetRate(absl::string_view name, uint64_t steps,
                                   float rate) {
  steps_ = static_cast<double>(steps);
  rate_ = rate;
  OARLOCK_RETURN_IF_ERROR(CheckSteps(absl::StrCat(name, ".steps"), steps));
  if (rate > 0 && std::isfinite(rate)) return absl::OkStatus();
  return Refuse(absl::StrCat(name, ".rate"), absl::StrCat(rate),
                "more than 0, finite");
}

absl::Status RateSchedule::SetPieces(const v1::PiecewiseRate& config) {
  if (config.pieces().empty()) {
    return Refuse("piecewise.pieces", "empty", "one piece or more");
  }
  uint64_t last = 0;
  for (const v1::PiecewiseRate::Piece& piece : config.pieces()) {
    OARLOCK_RETURN_IF_ERROR(
        CheckFactor("piecewise.pieces.factor", piece.factor()));
    if (piece.until_step() <= last) {
      return Refuse("piecewise.pieces.until_step",
                    absl::StrCat(piece.until_step(), " after ", last),
                    "more than the one before");
    }
    last = piece.until_step();
    pieces_.emplace_back(last, piece.factor());
  }
  return absl::OkStatus();
}

float RateSchedule::Scheduled(uint64_t step) const {
  const double part = static_cast<double>(step) / steps_;
  const double reached = std::min(1.0, part);
  switch (kind_) {
    case Kind::kConstant:
      break;
    case Kind::kExponential:
      return static_cast<float>(std::pow(rate_, part));
    case Kind::kStep:
      return static_cast<float>(
          std::pow(rate_, std::floor(static_cast<double>(step - 1) / steps_)));
    case Kind::kPolynomial:
      return static_cast<float>(end_ +
                                (1 - end_) * std::pow(1 - reached, power_));
    case Kind::kCosine:
      return static_cast<float>(
          end_ + (1 - end_) * (1 + std::cos(std::numbers::pi * reached)) / 2);
    case Kind::kPiecewise:
      for (const auto& [until, factor] : pieces_) {
        if (step <= until) return factor;
      }
      return pieces_.back().second;
  }
  return 1;
}

}  // namespace oarlock::optim
