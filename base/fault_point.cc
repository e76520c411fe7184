#include "base/fault_point.h"

#include <signal.h>
#include <unistd.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace oarlock {
namespace {

struct Armed {
  absl::Mutex mutex;
  Fault fault ABSL_GUARDED_BY(mutex);
  uint64_t num_reached ABSL_GUARDED_BY(mutex) = 0;
};

Armed& TheArmed() {
  static Armed* const armed = new Armed;
  return *armed;
}

[[noreturn]] void KillThisProcess() {
  kill(getpid(), SIGKILL);
  for (;;) pause();
}

std::string AllNames(FaultPointTables tables) {
  std::vector<absl::string_view> names;
  for (const auto& table : tables) {
    for (const FaultPointInfo& point : table) names.push_back(point.name);
  }
  return absl::StrJoin(names, ", ");
}

const FaultPointInfo* Find(absl::string_view name, FaultPointTables tables) {
  for (const auto& table : tables) {
    for (const FaultPointInfo& point : table) {
      if (point.name == name) return &point;
    }
  }
  return nullptr;
}

}  // namespace

namespace internal {

std::atomic<bool> fault_is_armed = false;

void ReachArmedFaultPoint(const FaultPointInfo& point) {
  std::function<void()> action;
  {
    Armed& armed = TheArmed();
    absl::MutexLock lock(&armed.mutex);
    if (armed.fault.point != &point) return;
    if (++armed.num_reached != armed.fault.nth) return;
    action = armed.fault.action;
  }
  if (!action) KillThisProcess();
  action();
}

}  // namespace internal

absl::StatusOr<Fault> ParseFault(absl::string_view text,
                                 FaultPointTables tables, const Clock& clock) {
  const std::vector<absl::string_view> halves = absl::StrSplit(text, '@');
  const std::vector<std::string> parts = absl::StrSplit(halves[0], ':');
  Fault fault;
  fault.point = Find(parts[0], tables);
  if (fault.point == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("there is no fault point '",
                                                   parts[0], "'; legal are ",
                                                   AllNames(tables)));
  }
  uint64_t delay_ms = 0;
  if (parts.size() > 3 || halves.size() > 2 ||
      (halves.size() == 2 && !absl::SimpleAtoi(halves[1], &fault.restart)) ||
      (parts.size() >= 2 &&
       (!absl::SimpleAtoi(parts[1], &fault.nth) || fault.nth == 0)) ||
      (parts.size() == 3 && !absl::SimpleAtoi(parts[2], &delay_ms))) {
    return absl::InvalidArgumentError(
        absl::StrCat("fault '", text,
                     "' is not name[:nth[:delay_ms]][@restart], nth at least "
                     "1; an example is ",
                     fault.point->name, ":2"));
  }
  if (parts.size() == 3) {
    fault.action = [delay_ms, &clock] {
      clock.Sleep(absl::Milliseconds(delay_ms));
    };
  }
  return fault;
}

void ArmFault(Fault fault) {
  Armed& armed = TheArmed();
  absl::MutexLock lock(&armed.mutex);
  armed.fault = std::move(fault);
  armed.num_reached = 0;
  internal::fault_is_armed.store(true, std::memory_order_relaxed);
}

void DisarmFault() {
  internal::fault_is_armed.store(false, std::memory_order_relaxed);
}

}  // namespace oarlock
