// What a faulty network does to calls, how often, and how often it has.

#ifndef OARLOCK_TESTS_STRESS_FAULTS_H_
#define OARLOCK_TESTS_STRESS_FAULTS_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/random.h"

namespace oarlock {

// Probabilities, of each call for itself.
struct FaultRates {
  // It is not forwarded, or forwarded and not answered; Unavailable.
  double drop_request = 0;
  double drop_response = 0;
  // It is forwarded, or answered, later than those that come after it.
  double delay_request = 0;
  double delay_response = 0;
  // It is forwarded twice at once, and one of the responses is returned; or
  // once more when it has long been answered.
  double duplicate_now = 0;
  double duplicate_late = 0;
};

// From "drop_request=.01,delay_response=.1"; what is not named is 0, and
// "delay", "drop" and "duplicate" name both of a kind. InvalidArgument for
// another name or a number that is not in [0, 1].
absl::StatusOr<FaultRates> ParseFaultRates(absl::string_view text);

// How far delays reach.
inline constexpr absl::Duration kMaxFaultDelay = absl::Milliseconds(300);
inline constexpr absl::Duration kMaxLateness = absl::Seconds(4);

// What happens to one call.
struct FaultPlan {
  bool drop_request = false;
  bool drop_response = false;
  absl::Duration request_delay;
  absl::Duration response_delay;
  bool twice = false;
  // Of two responses the second is returned.
  bool second_response = false;
  bool late = false;
  // From the response to the late copy.
  absl::Duration lateness;
};

FaultPlan DrawFaultPlan(const FaultRates& rates, RandomSequence* random);

struct FaultCounts {
  uint64_t calls = 0;
  uint64_t dropped_requests = 0;
  uint64_t dropped_responses = 0;
  uint64_t delayed_requests = 0;
  uint64_t delayed_responses = 0;
  // Requests that were forwarded after one that had come later.
  uint64_t overtaken_requests = 0;
  uint64_t duplicates_now = 0;
  uint64_t duplicates_late = 0;
  uint64_t cuts = 0;
  uint64_t connections_cut = 0;
  // Duplicates by method: "PushSparse".
  std::map<std::string, uint64_t> duplicates;

  void Add(const FaultCounts& other);
  // One line.
  std::string ToJson(uint64_t seed) const;
};

}  // namespace oarlock

#endif  // OARLOCK_TESTS_STRESS_FAULTS_H_
