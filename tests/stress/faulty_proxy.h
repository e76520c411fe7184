// A network that loses, delays, repeats and cuts: stands between a server and
// its clients. What it forwards it forwards whole, with metadata, deadline and
// status, so that nobody needs to know of it.

#ifndef OARLOCK_TESTS_STRESS_FAULTY_PROXY_H_
#define OARLOCK_TESTS_STRESS_FAULTY_PROXY_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "tests/stress/faults.h"

namespace oarlock {

// Whoever calls `port` gets who listens on `target_port`, both on 127.0.0.1.
struct FaultyRoute {
  uint16_t port = 0;
  uint16_t target_port = 0;
};

// From "6000=6174,6001=6175". InvalidArgument otherwise.
absl::StatusOr<std::vector<FaultyRoute>> ParseFaultyRoutes(
    absl::string_view text);

struct FaultyProxyOptions {
  // Its port may be 0: any.
  FaultyRoute route;
  uint64_t seed = 0;
  // Of calls of oarlock.v1.ParameterService, and of all others.
  FaultRates data;
  FaultRates control;
  absl::Duration mean_cut_interval = absl::InfiniteDuration();
};

// Knows unary calls only. A connection goes through a CuttingRelay and then
// into a generic gRPC service. What happens to the calls follows from the seed
// and the order in which they come. Delays and cuts come by the clock that it
// is given; deadlines of calls are gRPC's.
class FaultyProxy {
 public:
  // Requests that wait to be sent late hold at most so much; beyond it none is
  // kept.
  static constexpr size_t kMaxLateBytes = size_t{64} << 20;

  // Unavailable when the port cannot be had.
  static absl::StatusOr<std::unique_ptr<FaultyProxy>> Start(
      const FaultyProxyOptions& options, const Clock& clock);
  // Cuts all connections; late copies are not sent any more.
  ~FaultyProxy();

  uint16_t port() const;
  FaultCounts counts() const;

 private:
  class Impl;
  explicit FaultyProxy(std::unique_ptr<Impl> impl);

  const std::unique_ptr<Impl> impl_;
};

}  // namespace oarlock

#endif  // OARLOCK_TESTS_STRESS_FAULTY_PROXY_H_
