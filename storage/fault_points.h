// Where tests kill a process that writes a log of pushes or publishes a
// checkpoint (base/fault_point.h).

#ifndef OARLOCK_STORAGE_FAULT_POINTS_H_
#define OARLOCK_STORAGE_FAULT_POINTS_H_

#include "base/fault_point.h"

namespace oarlock::storage {

inline constexpr FaultPointInfo kStorageFaultPoints[] = {
    {"log.append.before_write", "no byte of the records is in the file"},
    {"log.append.half_written", "large records: some of their bytes are"},
    {"log.append.after_write", "the records are in the file, unanswered"},
    {"log.roll.before_header", "the new segment is an empty file"},
    {"log.roll.after_header", "the new segment has a header and no record"},
    {"log.trim.between_segments", "some segments are removed, some not yet"},
    {"log.open.before_truncate", "the torn tail is known and still there"},
    {"log.open.after_truncate", "the torn tail is gone, no new segment yet"},
    {"cut.commit.before_manifest", "all parts are there, no MANIFEST"},
    {"cut.commit.before_current", "MANIFEST is there, CURRENT is the old one"},
    {"cut.commit.after_current", "the checkpoint is current, nobody knows"},
    {"cut.remove.without_manifest", "of an old checkpoint only parts are left"},
};

inline void FaultPoint(FaultPointOf<kStorageFaultPoints> point) {
  ReachFaultPoint(point.info());
}

}  // namespace oarlock::storage

#endif  // OARLOCK_STORAGE_FAULT_POINTS_H_
