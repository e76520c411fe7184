// Named places in the code where a test has the process killed or held up. A
// folder that has some declares them in a header, with a function that its code
// calls by name:
//
//   inline constexpr FaultPointInfo kStorageFaultPoints[] = {
//       {"log.roll.before_header", "the new segment is an empty file"}};
//   inline void FaultPoint(FaultPointOf<kStorageFaultPoints> point) {
//     ReachFaultPoint(point.info());
//   }
//
// Process-wide, and the one thing here that is: what dies at a point is the
// process, whatever roles live in it, so no object could own the choice.
// Nothing is armed unless main or a test does it; a point then costs one
// relaxed load.

#ifndef OARLOCK_BASE_FAULT_POINT_H_
#define OARLOCK_BASE_FAULT_POINT_H_

#include <atomic>
#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/clock.h"

namespace oarlock {

struct FaultPointInfo {
  absl::string_view name;
  absl::string_view where;
};

// One of the points that a folder declares in a table of its own; its place is
// looked up by the compiler, so a name that the table lacks does not compile.
template <const auto& kPoints>
class FaultPointOf {
 public:
  // NOLINTNEXTLINE(google-explicit-constructor): a literal is a name.
  consteval FaultPointOf(const char* name) : info_(Find(name)) {}
  constexpr const FaultPointInfo& info() const { return *info_; }

 private:
  static consteval const FaultPointInfo* Find(absl::string_view name) {
    for (const FaultPointInfo& point : kPoints) {
      if (point.name == name) return &point;
    }
    throw "the table has no such point";
  }

  const FaultPointInfo* info_;
};

// The tables of all folders that a process has; who looks for a point by its
// name is given them.
using FaultPointTables = absl::Span<const absl::Span<const FaultPointInfo>>;

// What happens when a point is reached for the `nth` time, counted from 1.
struct Fault {
  const FaultPointInfo* point = nullptr;
  uint64_t nth = 1;
  // Of a process that is started again and again: how often it was. For main.
  uint64_t restart = 0;
  // Runs in the thread that reaches it. Empty: the process is killed (SIGKILL).
  std::function<void()> action;
};

// "name[:nth[:delay_ms]][@restart]": with a delay the thread is held up for so
// long on `clock`, which outlives the fault, else the process is killed.
// InvalidArgument when no table has such a point or a number is none.
absl::StatusOr<Fault> ParseFault(absl::string_view text,
                                 FaultPointTables tables, const Clock& clock);

// Arms one point, in place of what was armed.
void ArmFault(Fault fault);
void DisarmFault();

namespace internal {

extern std::atomic<bool> fault_is_armed;
void ReachArmedFaultPoint(const FaultPointInfo& point);

}  // namespace internal

inline void ReachFaultPoint(const FaultPointInfo& point) {
  if (__builtin_expect(internal::fault_is_armed.load(std::memory_order_relaxed),
                       0)) {
    internal::ReachArmedFaultPoint(point);
  }
}

}  // namespace oarlock

#endif  // OARLOCK_BASE_FAULT_POINT_H_
