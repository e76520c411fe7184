// Named places in the code where a test has the process killed or held up:
//
//   FaultPoint("checkpoint.before_current");
//
// Process-wide, and the one thing here that is: what dies at a point is the
// process, whatever roles live in it, so no object could own the choice.
// Nothing is armed unless main or a test does it; a point then costs one
// relaxed load.

#ifndef OARLOCK_BASE_FAULT_POINT_H_
#define OARLOCK_BASE_FAULT_POINT_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/clock.h"

namespace oarlock {

struct FaultPointInfo {
  absl::string_view name;
  absl::string_view where;
};

// All points, so that a crash test can go through them. One that is not here
// does not compile.
inline constexpr FaultPointInfo kFaultPoints[] = {
    {"log.append.before_write", "no byte of the records is in the file"},
    {"log.append.half_written", "large records: some of their bytes are"},
    {"log.append.after_write", "the records are in the file, unanswered"},
    {"log.roll.before_header", "the new segment is an empty file"},
    {"log.roll.after_header", "the new segment has a header and no record"},
    {"log.trim.between_segments", "some segments are removed, some not yet"},
    {"log.open.before_truncate", "the torn tail is known and still there"},
    {"log.open.after_truncate", "the torn tail is gone, no new segment yet"},
    {"cut.freeze.before", "a cut is open, this server's tables not frozen"},
    {"cut.freeze.after", "they are, and what was held is let go"},
    {"cut.save.between_units", "some units' records are written"},
    {"cut.save.before_publish", "all are in the store, the folder has none"},
    {"cut.save.after_publish", "the server's part is there, unanswered"},
    {"cut.commit.before_manifest", "all parts are there, no MANIFEST"},
    {"cut.commit.before_current", "MANIFEST is there, CURRENT is the old one"},
    {"cut.commit.after_current", "the checkpoint is current, nobody knows"},
    {"cut.close.before_trim", "this server knows; its log has what is before"},
    {"cut.remove.without_manifest", "of an old checkpoint only parts are left"},
    {"tier.demote.before_write", "rows are to leave memory, not on disk yet"},
    {"tier.demote.after_write", "they are on disk and in memory"},
    {"tier.promote.before_insert", "rows are read from disk, not in memory"},
    {"restore.before_load", "a server has its checkpoint's manifest"},
    {"restore.between_units", "some units of the checkpoint are loaded"},
    {"restore.before_replay", "all are, nothing of the log is applied"},
    {"restore.between_records", "some records of the log are applied"},
};

// The number of a point in kFaultPoints, looked up by the compiler.
class FaultPointName {
 public:
  // NOLINTNEXTLINE(google-explicit-constructor): a literal is a name.
  consteval FaultPointName(const char* name) : index_(Find(name)) {}
  constexpr size_t index() const { return index_; }

 private:
  static consteval size_t Find(absl::string_view name) {
    for (size_t i = 0; i < std::size(kFaultPoints); ++i) {
      if (kFaultPoints[i].name == name) return i;
    }
    throw "kFaultPoints has no such point";
  }

  size_t index_;
};

// What happens when a point is passed for the `nth` time, counted from 1.
struct Fault {
  size_t point_index = 0;
  uint64_t nth = 1;
  // Of a process that is started again and again: how often it was. For main.
  uint64_t restart = 0;
  // Runs in the thread that passes. Empty: the process is killed (SIGKILL).
  std::function<void()> action;
};

// "name[:nth[:delay_ms]][@restart]": with a delay the thread is held up for so
// long on `clock`, which outlives the fault, else the process is killed.
// InvalidArgument when there is no such point or a number is none.
absl::StatusOr<Fault> ParseFault(absl::string_view text, const Clock& clock);

// Arms one point, in place of what was armed.
void ArmFault(Fault fault);
void DisarmFault();

namespace internal {

extern std::atomic<bool> fault_is_armed;
void PassArmedFaultPoint(FaultPointName name);

}  // namespace internal

inline void FaultPoint(FaultPointName name) {
  if (__builtin_expect(internal::fault_is_armed.load(std::memory_order_relaxed),
                       0)) {
    internal::PassArmedFaultPoint(name);
  }
}

}  // namespace oarlock

#endif  // OARLOCK_BASE_FAULT_POINT_H_
