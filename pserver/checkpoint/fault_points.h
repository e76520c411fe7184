// Where tests kill a server that saves its part of a cut or restores one
// (base/fault_point.h).

#ifndef OARLOCK_PSERVER_CHECKPOINT_FAULT_POINTS_H_
#define OARLOCK_PSERVER_CHECKPOINT_FAULT_POINTS_H_

#include "base/fault_point.h"

namespace oarlock::pserver {

inline constexpr FaultPointInfo kPserverFaultPoints[] = {
    {"cut.freeze.before", "a cut is open, this server's tables not frozen"},
    {"cut.freeze.after", "they are, and what was held is let go"},
    {"cut.save.between_units", "some units' records are written"},
    {"cut.save.before_publish", "all are in the store, the folder has none"},
    {"cut.save.after_publish", "the server's part is there, unanswered"},
    {"cut.close.before_trim", "this server knows; its log has what is before"},
    {"restore.before_load", "a server has its checkpoint's manifest"},
    {"restore.between_units", "some units of the checkpoint are loaded"},
    {"restore.before_replay", "all are, nothing of the log is applied"},
    {"restore.between_records", "some records of the log are applied"},
};

inline void FaultPoint(FaultPointOf<kPserverFaultPoints> point) {
  ReachFaultPoint(point.info());
}

}  // namespace oarlock::pserver

#endif  // OARLOCK_PSERVER_CHECKPOINT_FAULT_POINTS_H_
