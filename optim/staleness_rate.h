// The learning rate of dense gradients that do not know what others have done.

#ifndef OARLOCK_OPTIM_STALENESS_RATE_H_
#define OARLOCK_OPTIM_STALENESS_RATE_H_

#include <cmath>
#include <cstdint>

#include "absl/status/statusor.h"
#include "proto/v1/table.pb.h"

namespace oarlock::optim {

// The factor on the learning rate of an update by gradients that were computed
// k updates ago:
//
//   1 / (1 + k)^power
//
// Power 1: Zhang, Gupta, Lian, Liu, "Staleness-aware async-SGD for distributed
// deep learning", IJCAI 2016. It is the step that is shorter, not the gradient:
// what a rule keeps of gradients, sums of squares or momentum, it keeps whole.
//
// Immutable.
class StalenessRate {
 public:
  // That of a dense table: the whole rate where it has no staleness_power.
  // InvalidArgument when the power is not what table.proto allows.
  static absl::StatusOr<StalenessRate> Create(const v1::TableConfig& config);

  float Factor(uint64_t staleness) const {
    if (power_ == 0 || staleness == 0) return 1;
    return static_cast<float>(
        std::pow(1.0 + static_cast<double>(staleness), -power_));
  }

 private:
  explicit StalenessRate(double power) : power_(power) {}

  double power_;
};

}  // namespace oarlock::optim

#endif  // OARLOCK_OPTIM_STALENESS_RATE_H_
