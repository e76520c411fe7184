// How the learning rate changes with the steps.

#ifndef OARLOCK_OPTIM_RATE_SCHEDULE_H_
#define OARLOCK_OPTIM_RATE_SCHEDULE_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/v1/table.pb.h"

namespace oarlock::optim {

// The factor on the learning rate of step number p, counted from 1, is the
// product of a warm-up and a schedule, both over the same count:
//
//   warm-up      min(1, p / warmup_steps)
//
//   constant     1
//   exponential  rate ^ (p / steps)
//   polynomial   end + (1 - end) * (1 - q) ^ power       q = min(1, p / steps)
//   cosine       end + (1 - end) * (1 + cos(pi * q)) / 2
//   step         rate ^ floor((p - 1) / steps)
//   piecewise    factors[i] where p <= until[i], the first such i; beyond all
//                of them the last factor
//
// Linear warm-up: Goyal et al., "Accurate, large minibatch SGD", 2017. Rules
// like adagrad without an initial accumulator take first steps as long as the
// learning rate, whatever the gradient; when several workers push them at once,
// they add up. Schedules: PaddlePaddle's exponential_decay, polynomial_decay,
// StepDecay and piecewise_decay; cosine: Loshchilov, Hutter, "SGDR", ICLR 2017,
// without restarts.
//
// Immutable and thread-safe.
class RateSchedule {
 public:
  // InvalidArgument when a number is outside what table.proto says.
  static absl::StatusOr<RateSchedule> Create(const v1::OptimizerConfig& config);

  float Factor(uint64_t step) const {
    const float warmup =
        step >= warmup_steps_
            ? 1.0f
            : static_cast<float>(step) / static_cast<float>(warmup_steps_);
    return kind_ == Kind::kConstant ? warmup : warmup * Scheduled(step);
  }

 private:
  enum class Kind {
    kConstant,
    kExponential,
    kPolynomial,
    kCosine,
    kPiecewise,
    kStep
  };

  RateSchedule() = default;

  absl::Status Set(const v1::LearningRateSchedule& config);
  // Of exponential and step, `name`.
  absl::Status SetRate(absl::string_view name, uint64_t steps, float rate);
  absl::Status SetPieces(const v1::PiecewiseRate& config);
  float Scheduled(uint64_t step) const;

  uint32_t warmup_steps_ = 0;
  Kind kind_ = Kind::kConstant;
  double steps_ = 1;
  // Of exponential and step.
  double rate_ = 1;
  // Of polynomial and cosine.
  double end_ = 0;
  double power_ = 1;
  // Of piecewise: (last step, factor), steps ascending.
  std::vector<std::pair<uint64_t, float>> pieces_;
};

}  // namespace oarlock::optim

#endif  // OARLOCK_OPTIM_RATE_SCHEDULE_H_
