// Every push has a name, so that it is applied once however often it is sent.

#ifndef OARLOCK_BASE_PUSH_STAMP_H_
#define OARLOCK_BASE_PUSH_STAMP_H_

#include "base/types.h"

namespace oarlock {

// The name of a push: sequence numbers count the pushes of one incarnation
// (generation) of one worker.
struct PushStamp {
  WorkerIndex worker;
  Generation generation;
  Sequence sequence;
};

}  // namespace oarlock

#endif  // OARLOCK_BASE_PUSH_STAMP_H_
