// The name that a push's header gives it.

#ifndef OARLOCK_PSERVER_AGGREGATOR_PUSH_STAMP_OF_H_
#define OARLOCK_PSERVER_AGGREGATOR_PUSH_STAMP_OF_H_

#include "base/push_stamp.h"
#include "proto/v1/parameter.pb.h"

namespace oarlock::pserver {

inline PushStamp StampOf(const v1::RequestHeader& header) {
  return PushStamp{.worker = WorkerIndex(header.worker_index()),
                   .generation = Generation(header.worker_generation()),
                   .sequence = Sequence(header.sequence())};
}

}  // namespace oarlock::pserver

#endif  // OARLOCK_PSERVER_AGGREGATOR_PUSH_STAMP_OF_H_
